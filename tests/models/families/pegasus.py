"""Rows of pegasus."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "pegasus": ("PegasusForConditionalGeneration", t.bart("pegasus", scale_embedding=True)),
        "pegasus-narrow": (
            "PegasusForConditionalGeneration",
            t.bart(
                "pegasus",
                d_model=20,
                activation_function="gelu_new",
            ),
        ),
    }
