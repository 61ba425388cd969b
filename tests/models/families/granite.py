"""Rows of granite."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("granite",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "granite": (
            "GraniteForCausalLM",
            t.sized(
                "granite",
                embedding_multiplier=6.0,
                logits_scaling=3.0,
                residual_multiplier=0.3,
                attention_multiplier=0.2,
            ),
        ),
        "granite-biases": (
            "GraniteForCausalLM",
            t.sized(
                "granite",
                attention_bias=True,
                mlp_bias=True,
                tie_word_embeddings=True,
                attention_multiplier=0.35,
                rope_parameters=t.LLAMA3,
            ),
        ),
    }
