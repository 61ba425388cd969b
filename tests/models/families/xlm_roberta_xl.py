"""Rows of xlm-roberta-xl."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "xlm-roberta-xl": ("XLMRobertaXL", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "xlm-roberta-xl": ("XLMRobertaXLModel", t.encoder("xlm-roberta-xl", pad_token_id=2)),
    }
