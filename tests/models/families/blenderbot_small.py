"""Rows of blenderbot-small."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "blenderbot-small": (
            "BlenderbotSmallForConditionalGeneration",
            t.bart("blenderbot-small", scale_embedding=True),
        ),
    }
