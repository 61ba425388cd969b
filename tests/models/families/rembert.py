"""Rows of rembert."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "rembert": ("RemBert", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "rembert": (
            "RemBertModel",
            t.encoder("rembert", input_embedding_size=10, output_embedding_size=28),
        ),
    }
