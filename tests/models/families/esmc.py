"""Rows of esmc."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "esmc": ("Esmc", "MaskedLM SequenceClassification TokenClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "esmc": ("EsmcModel", t.encoder("esmc", num_attention_heads=2)),
        "esmc-biases": (
            "EsmcModel",
            t.encoder("esmc", attention_bias=True, mlp_bias=True, num_attention_heads=4),
        ),
    }
