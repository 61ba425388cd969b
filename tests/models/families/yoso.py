"""Rows of yoso."""

from typing import Any

# What padding beside a text would change is not changed here.
KIND = "alone"
# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "yoso": ("Yoso", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "yoso": ("YosoModel", t.encoder("yoso", hash_code_len=4, conv_window=3)),
    }
