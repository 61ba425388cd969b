"""Rows of bart."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "bart": ("BartForConditionalGeneration", t.bart("bart")),
        "bart-scaled": (
            "BartForConditionalGeneration",
            t.bart(
                "bart",
                scale_embedding=True,
                activation_function="relu",
                encoder_layers=1,
            ),
        ),
    }
