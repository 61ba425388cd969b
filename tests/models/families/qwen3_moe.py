"""Rows of qwen3_moe."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("qwen3_moe",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "qwen3_moe": (
            "Qwen3MoeForCausalLM",
            t.sized(
                "qwen3_moe",
                num_experts=6,
                num_experts_per_tok=2,
                moe_intermediate_size=24,
                head_dim=10,
                norm_topk_prob=True,
            ),
        ),
        "qwen3_moe-step": (
            "Qwen3MoeForCausalLM",
            t.sized(
                "qwen3_moe",
                num_experts=3,
                num_experts_per_tok=1,
                moe_intermediate_size=20,
                head_dim=8,
                decoder_sparse_step=2,
                tie_word_embeddings=True,
                rope_parameters=t.YARN,
            ),
        ),
    }
