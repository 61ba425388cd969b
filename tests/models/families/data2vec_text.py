"""Rows of data2vec-text."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "data2vec-text": ("Data2VecText", "MaskedLM"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "data2vec-text": ("Data2VecTextModel", t.encoder("data2vec-text", pad_token_id=1)),
    }
