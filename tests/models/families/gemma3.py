"""Rows of gemma3_text."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("gemma3-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gemma3": (
            "Gemma3ForCausalLM",
            t.sized(
                "gemma3_text",
                head_dim=10,
                query_pre_attn_scalar=24,
                sliding_window=5,
                tie_word_embeddings=True,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                rope_parameters={
                    "full_attention": {
                        "rope_type": "linear",
                        "factor": 8.0,
                        "rope_theta": 1000000.0,
                    },
                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                },
            ),
        ),
        "gemma3-biases": (
            "Gemma3ForCausalLM",
            t.sized(
                "gemma3_text",
                head_dim=8,
                query_pre_attn_scalar=8,
                sliding_window=3,
                attention_bias=True,
                num_hidden_layers=7,
            ),
        ),
        "gemma3-gguf": (
            "Gemma3ForCausalLM",
            t.sized(
                "gemma3_text",
                head_dim=8,
                query_pre_attn_scalar=8,
                sliding_window=5,
                tie_word_embeddings=True,
                num_hidden_layers=7,
            ),
        ),
    }
