"""Rows of ernie4_5_moe."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("ernie4_5_moe",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "ernie4_5_moe": (
            "Ernie4_5_MoeForCausalLM",
            t.sized(
                "ernie4_5_moe", moe_intermediate_size=24, moe_num_experts=6, moe_k=2, head_dim=12
            ),
        ),
        "ernie4_5_moe-biases": (
            "Ernie4_5_MoeForCausalLM",
            t.sized(
                "ernie4_5_moe",
                moe_intermediate_size=24,
                moe_num_experts=5,
                moe_k=3,
                moe_num_shared_experts=0,
                moe_layer_start_index=0,
                moe_layer_end_index=1,
                moe_layer_interval=2,
                moe_norm_min=0.9,
                use_bias=True,
            ),
        ),
    }
