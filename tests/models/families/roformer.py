"""Rows of roformer."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "roformer": ("RoFormer", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "roformer": (
            "RoFormerModel",
            t.encoder("roformer", embedding_size=14, hidden_act="relu"),
        ),
        "roformer-values": (
            "RoFormerModel",
            t.encoder("roformer", rotary_value=True, type_vocab_size=3, layer_norm_eps=1e-5),
        ),
    }
