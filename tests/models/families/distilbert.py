"""Rows of distilbert."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("distilbert",)
# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "distilbert": (
        "DistilBert",
        "MaskedLM SequenceClassification TokenClassification QuestionAnswering",
    ),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "distilbert": (
            "DistilBertModel",
            {
                "model_type": "distilbert",
                "vocab_size": 50,
                "dim": 24,
                "n_layers": 2,
                "n_heads": 3,
                "hidden_dim": 40,
                "max_position_embeddings": 16,
            },
        ),
        "distilbert-waves": (
            "DistilBertModel",
            {
                "model_type": "distilbert",
                "vocab_size": 50,
                "dim": 24,
                "n_layers": 3,
                "n_heads": 2,
                "hidden_dim": 33,
                "max_position_embeddings": 13,
                "activation": "relu",
                "sinusoidal_pos_embds": True,
            },
        ),
    }
