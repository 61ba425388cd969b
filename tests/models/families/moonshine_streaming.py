"""Row of moonshine_streaming: other widths, windows, heads and frames than are usual."""

from typing import Any

KIND = "speech"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    encoder = {"model_type": "moonshine_streaming_encoder", "hidden_size": 24,
               "intermediate_size": 28, "num_hidden_layers": 3, "num_attention_heads": 3,
               "num_key_value_heads": 3, "attention_bias": True, "frame_ms": 2.5,
               "sliding_windows": [[5, 3], [4, 0], [6, 1]]}  # fmt: skip
    return {
        "moonshine_streaming": (
            "MoonshineStreamingForConditionalGeneration",
            {
                "model_type": "moonshine_streaming",
                "encoder_config": encoder,
                "vocab_size": 37,
                "hidden_size": 32,
                "intermediate_size": 40,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "max_position_embeddings": 32,
            },
        ),
    }
