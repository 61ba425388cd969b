"""Rows of roc_bert."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "roc_bert": ("RoCBert", "MaskedLM SequenceClassification"),
}
TABLES = {
    "shape_embed_dim": 5,
    "shape_vocab_size": 11,
    "pronunciation_embed_dim": 7,
    "pronunciation_vocab_size": 13,
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "roc_bert": ("RoCBertModel", t.encoder("roc_bert", **TABLES)),
    }
