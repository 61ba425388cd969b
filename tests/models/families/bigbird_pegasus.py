"""Rows of bigbird_pegasus."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "bigbird-pegasus": (
            "BigBirdPegasusForConditionalGeneration",
            t.bart("bigbird_pegasus", block_size=1, num_random_blocks=1, use_bias=True),
        ),
    }
