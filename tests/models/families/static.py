"""Rows of model2vec, static_embedding."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "model2vec": (
            "StaticModel",
            {"model_type": "model2vec", "vocab_size": 50, "hidden_dim": 7},
        ),
        "model2vec-weights": (
            "StaticModel",
            {
                "model_type": "model2vec",
                "vocab_size": 50,
                "hidden_dim": 6,
                "apply_zipf": True,
            },
        ),
    }
