"""Rows of exaone4."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("exaone4-full",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "exaone4": (
            "Exaone4ForCausalLM",
            t.sized("exaone4", sliding_window=4, sliding_window_pattern=2),
        ),
        "exaone4-full": (
            "Exaone4ForCausalLM",
            t.sized(
                "exaone4",
                sliding_window=None,
                tie_word_embeddings=True,
                rope_parameters=t.LLAMA3,
                layer_types=["full_attention"] * 3,
            ),
        ),
    }
