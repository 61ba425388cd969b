"""Rows of bert-generation."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "bert-generation": ("BertGenerationEncoder", t.encoder("bert-generation")),
    }
