"""Rows of perceiver."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "perceiver": ("Perceiver", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "perceiver": (
            "PerceiverForMaskedLM",
            {
                "model_type": "perceiver",
                "vocab_size": 50,
                "num_latents": 5,
                "d_latents": 24,
                "d_model": 16,
                "num_blocks": 2,
                "num_self_attends_per_block": 2,
                "num_self_attention_heads": 3,
                "num_cross_attention_heads": 4,
                "cross_attention_widening_factor": 2,
                "max_position_embeddings": 13,
            },
        ),
    }
