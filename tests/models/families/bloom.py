"""Rows of bloom."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("bloom",)


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "bloom": ("BloomForCausalLM", {"model_type": "bloom", **t.BLOOM, "n_head": 4}),
        "bloom-heads": (
            "BloomForCausalLM",
            {
                "model_type": "bloom",
                **t.BLOOM,
                "n_head": 6,
                "tie_word_embeddings": False,
            },
        ),
    }
