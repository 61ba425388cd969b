"""Rows of layoutlm."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "layoutlm": ("LayoutLM", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "layoutlm": ("LayoutLMModel", t.encoder("layoutlm", max_2d_position_embeddings=30)),
    }
