"""Rows of splinter."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "splinter": ("Splinter", "QuestionAnswering"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "splinter": ("SplinterModel", t.encoder("splinter", question_token_id=9)),
    }
