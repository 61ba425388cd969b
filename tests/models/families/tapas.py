"""Rows of tapas."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "tapas": ("Tapas", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "tapas": ("TapasModel", t.encoder("tapas", type_vocab_sizes=[3, 7, 7, 2, 7, 7, 4])),
    }
