"""Rows of ernie4_5."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("ernie4_5",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "ernie4_5": (
            "Ernie4_5ForCausalLM",
            t.sized("ernie4_5", head_dim=12, tie_word_embeddings=True),
        ),
        "ernie4_5-biases": (
            "Ernie4_5ForCausalLM",
            t.sized("ernie4_5", head_dim=8, use_bias=True, rope_parameters=t.LINEAR),
        ),
    }
