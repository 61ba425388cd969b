"""Rows of t5gemma2."""

from typing import Any

KIND = "text_to_text"
SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "max_position_embeddings": 64,
    "sliding_window": 4,
    "query_pre_attn_scalar": 9,
    "layer_types": ["sliding_attention", "full_attention"],
}
SEEING: dict[str, Any] = {
    "model_type": "siglip_vision_model",
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 16,
}

ENCODER: dict[str, Any] = {
    "text_config": SIZES,
    "vision_config": SEEING,
    "eoi_token_index": 17,
    "mm_tokens_per_image": 4,
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "t5gemma2": (
            "T5Gemma2ForConditionalGeneration",
            {"model_type": "t5gemma2", "vocab_size": 97, "encoder": ENCODER, "decoder": SIZES},
        ),
    }
