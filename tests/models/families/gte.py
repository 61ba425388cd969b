"""Rows of gte, new."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "gte": ("Gte", "MaskedLM SequenceClassification TokenClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "gte": ("GteModel", t.encoder("gte", pad_token_id=0)),
        "gte-scaled": (
            "GteModel",
            t.encoder(
                "gte",
                pad_token_id=1,
                type_vocab_size=3,
                num_attention_heads=2,
                hidden_act="silu",
                rope_parameters=t.LINEAR,
            ),
        ),
    }
