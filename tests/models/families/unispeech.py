"""Rows of unispeech."""

from typing import Any

KIND = "waves"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "unispeech": ("UniSpeechForCTC", t.waves("unispeech", num_ctc_classes=9)),
    }
