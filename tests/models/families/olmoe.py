"""Rows of olmoe."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("olmoe",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "olmoe": (
            "OlmoeForCausalLM",
            t.sized("olmoe", num_experts=5, num_experts_per_tok=2, num_key_value_heads=6),
        ),
        "olmoe-clipped": (
            "OlmoeForCausalLM",
            t.sized(
                "olmoe",
                num_experts=3,
                num_experts_per_tok=2,
                norm_topk_prob=True,
                clip_qkv=0.5,
                tie_word_embeddings=True,
                attention_bias=True,
                num_hidden_layers=2,
            ),
        ),
    }
