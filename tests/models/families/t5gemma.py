"""Rows of t5gemma."""

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
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "t5gemma": (
            "T5GemmaForConditionalGeneration",
            {
                "model_type": "t5gemma",
                "vocab_size": 97,
                "encoder": {
                    **SIZES,
                    "hidden_size": 24,
                    "num_hidden_layers": 3,
                    "attention_bias": True,
                },
                "decoder": SIZES,
            },
        ),
    }
