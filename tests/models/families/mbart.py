"""Rows of mbart."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "mbart": ("MBartForConditionalGeneration", t.bart("mbart", scale_embedding=True)),
        "mbart-narrow": (
            "MBartForConditionalGeneration",
            t.bart(
                "mbart",
                d_model=24,
                decoder_layers=1,
                activation_function="relu",
            ),
        ),
    }
