"""Rows of cohere2."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("cohere2-gguf",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "cohere2": (
            "Cohere2ForCausalLM",
            t.sized(
                "cohere2",
                tie_word_embeddings=True,
                sliding_window=4,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            ),
        ),
        "cohere2-gguf": (
            "Cohere2ForCausalLM",
            t.sized(
                "cohere2",
                tie_word_embeddings=True,
                sliding_window=4,
                num_hidden_layers=5,
            ),
        ),
    }
