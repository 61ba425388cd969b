"""Rows of glm4_moe."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("glm4_moe-norms",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "glm4_moe": (
            "Glm4MoeForCausalLM",
            t.sized(
                "glm4_moe",
                head_dim=12,
                moe_intermediate_size=24,
                n_routed_experts=8,
                num_experts_per_tok=3,
                n_group=4,
                topk_group=2,
                n_shared_experts=2,
                norm_topk_prob=False,
            ),
        ),
        "glm4_moe-norms": (
            "Glm4MoeForCausalLM",
            t.sized(
                "glm4_moe",
                head_dim=12,
                num_hidden_layers=2,
                moe_intermediate_size=24,
                n_routed_experts=6,
                num_experts_per_tok=2,
                routed_scaling_factor=1.5,
                use_qk_norm=True,
                attention_bias=True,
                rope_parameters=t.LINEAR | {"partial_rotary_factor": 0.5},
            ),
        ),
    }
