"""Rows of fnet."""

from typing import Any

# What padding beside a text would change is not changed here.
KIND = "alone"
# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "fnet": ("FNet", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "fnet": (
            "FNetModel",
            {
                "model_type": "fnet",
                "vocab_size": 50,
                "hidden_size": 24,
                "num_hidden_layers": 2,
                "intermediate_size": 40,
                "max_position_embeddings": 20,
            },
        ),
    }
