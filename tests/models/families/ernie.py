"""Rows of ernie."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "ernie": ("Ernie", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "ernie": ("ErnieModel", t.encoder("ernie", use_task_id=True, task_type_vocab_size=4)),
    }
