"""Rows of whisper."""

from typing import Any

KIND = "speech"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "whisper": ("WhisperForConditionalGeneration", t.whisper()),
        "whisper-wide": (
            "WhisperForConditionalGeneration",
            t.whisper(
                d_model=32,
                decoder_layers=1,
                decoder_attention_heads=4,
                encoder_layers=3,
                num_mel_bins=13,
                scale_embedding=True,
                activation_function="relu",
            ),
        ),
    }
