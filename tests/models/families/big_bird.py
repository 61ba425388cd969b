"""Rows of big_bird."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "big_bird": ("BigBird", "MaskedLM SequenceClassification TokenClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "big_bird": ("BigBirdModel", t.encoder("big_bird", rescale_embeddings=True)),
        "big_bird-full": (
            "BigBirdModel",
            t.encoder("big_bird", attention_type="original_full", use_bias=False),
        ),
    }
