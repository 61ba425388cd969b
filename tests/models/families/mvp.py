"""Rows of mvp."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "mvp": (
            "MvpForConditionalGeneration",
            t.bart("mvp", use_prompt=True, prompt_length=3, prompt_mid_dim=7),
        ),
    }
