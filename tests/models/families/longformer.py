"""Rows of longformer."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "longformer": ("Longformer", "MaskedLM SequenceClassification TokenClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "longformer": (
            "LongformerModel",
            t.encoder("longformer", attention_window=[4, 8], pad_token_id=1),
        ),
    }
