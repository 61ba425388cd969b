"""Rows of ultrabert."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "ultrabert": ("Ultrabert", "MaskedLM SequenceClassification TokenClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "ultrabert": (
            "UltrabertModel",
            t.encoder(
                "ultrabert",
                num_hidden_layers=3,
                num_attention_heads=4,
                num_key_value_heads=2,
                sliding_window=2,
                prediction_head_size=20,
                classifier_pooling="mean",
                attention_bias=True,
            ),
        ),
    }
