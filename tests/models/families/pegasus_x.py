"""Rows of pegasus_x."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "pegasus-x": (
            "PegasusXForConditionalGeneration",
            t.bart("pegasus_x", block_size=4, num_global_tokens=3, scale_embedding=False),
        ),
    }
