"""Rows of qwen2_moe."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("qwen2_moe",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "qwen2_moe": (
            "Qwen2MoeForCausalLM",
            t.sized(
                "qwen2_moe",
                num_experts=5,
                num_experts_per_tok=2,
                moe_intermediate_size=24,
                shared_expert_intermediate_size=40,
            ),
        ),
        "qwen2_moe-dense": (
            "Qwen2MoeForCausalLM",
            t.sized(
                "qwen2_moe",
                num_experts=4,
                num_experts_per_tok=3,
                moe_intermediate_size=20,
                shared_expert_intermediate_size=16,
                mlp_only_layers=[0],
                qkv_bias=False,
                norm_topk_prob=True,
                tie_word_embeddings=True,
                num_hidden_layers=2,
            ),
        ),
    }
