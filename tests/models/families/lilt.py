"""Rows of lilt."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "lilt": ("Lilt", "SequenceClassification QuestionAnswering"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "lilt": (
            "LiltModel",
            t.encoder(
                "lilt",
                channel_shrink_ratio=2,
                max_2d_position_embeddings=30,
                pad_token_id=1,
                max_position_embeddings=24,
            ),
        ),
    }
