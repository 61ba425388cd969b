"""Rows of led."""

from typing import Any

KIND = "text_to_text"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = t.bart("led", attention_window=[4, 8])
    del sizes["max_position_embeddings"]
    return {
        "led": (
            "LEDForConditionalGeneration",
            sizes | {"max_encoder_position_embeddings": 16, "max_decoder_position_embeddings": 11},
        ),
    }
