"""Rows of ibert."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "ibert": ("IBert", "MaskedLM"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "ibert": (
            "IBertModel",
            t.encoder("ibert", num_hidden_layers=1, type_vocab_size=1, pad_token_id=1),
        ),
    }
