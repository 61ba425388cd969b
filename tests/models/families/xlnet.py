"""Rows of xlnet."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "xlnet": ("XLNet", "SequenceClassification TokenClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "xlnet": (
            "XLNetModel",
            {
                "model_type": "xlnet",
                "vocab_size": 50,
                "d_model": 24,
                "n_layer": 2,
                "n_head": 3,
                "d_inner": 40,
                "clamp_len": 6,
            },
        ),
    }
