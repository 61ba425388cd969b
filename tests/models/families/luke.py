"""Rows of luke."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "luke": ("Luke", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "luke": (
            "LukeModel",
            t.encoder("luke", entity_vocab_size=9, entity_emb_size=10, pad_token_id=1),
        ),
    }
