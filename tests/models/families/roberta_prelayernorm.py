"""Rows of roberta-prelayernorm."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "roberta-prelayernorm": ("RobertaPreLayerNorm", "MaskedLM"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "roberta-prelayernorm": (
            "RobertaPreLayerNormModel",
            t.encoder("roberta-prelayernorm", type_vocab_size=1, pad_token_id=1),
        ),
    }
