"""Rows of megatron-bert."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "megatron-bert": ("MegatronBert", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "megatron-bert": ("MegatronBertModel", t.encoder("megatron-bert")),
    }
