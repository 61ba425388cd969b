"""Rows of moonshine."""

from typing import Any

KIND = "speech"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "moonshine": ("MoonshineForConditionalGeneration", t.moonshine()),
        "moonshine-biases": (
            "MoonshineForConditionalGeneration",
            t.moonshine(
                hidden_size=36,
                encoder_num_attention_heads=3,
                decoder_num_attention_heads=3,
                encoder_num_hidden_layers=2,
                decoder_num_hidden_layers=1,
                attention_bias=True,
                encoder_hidden_act="relu",
                decoder_hidden_act="gelu",
                tie_word_embeddings=False,
                pad_head_dim_to_multiple_of=5,
                rope_parameters=t.LINEAR | {"partial_rotary_factor": 0.5},
            ),
        ),
    }
