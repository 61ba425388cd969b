"""Rows of starcoder2."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("starcoder2",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "starcoder2": (
            "Starcoder2ForCausalLM",
            t.sized("starcoder2", sliding_window=None, tie_word_embeddings=True),
        ),
        "starcoder2-window": (
            "Starcoder2ForCausalLM",
            t.sized("starcoder2", sliding_window=4, use_bias=False),
        ),
    }
