"""Rows of speech_to_text."""

from typing import Any

KIND = "speech"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    sizes = {
        "vocab_size": 97,
        "d_model": 24,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 3,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 28,
        "conv_channels": 20,
        "conv_kernel_sizes": [5, 3],
        "input_feat_per_channel": 10,
        "max_source_positions": 30,
        "max_target_positions": 20,
    }
    return {
        "speech_to_text": (
            "Speech2TextForConditionalGeneration",
            {"model_type": "speech_to_text", **sizes},
        ),
    }
