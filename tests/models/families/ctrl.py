"""Rows of ctrl."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "ctrl": (
            "CTRLLMHeadModel",
            {"model_type": "ctrl", **t.GPT, "dff": 56},
        ),
        "ctrl-untied": (
            "CTRLLMHeadModel",
            {"model_type": "ctrl", **t.GPT, "dff": 40, "n_head": 6, "tie_word_embeddings": False},
        ),
    }
