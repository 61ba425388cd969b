"""Rows of esm."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "esm": ("Esm", "MaskedLM SequenceClassification TokenClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "esm": (
            "EsmModel",
            t.encoder(
                "esm",
                position_embedding_type="rotary",
                token_dropout=True,
                mask_token_id=7,
                pad_token_id=1,
                num_attention_heads=2,
            ),
        ),
        "esm-absolute": (
            "EsmModel",
            t.encoder("esm", emb_layer_norm_before=True, mask_token_id=7, pad_token_id=1),
        ),
    }
