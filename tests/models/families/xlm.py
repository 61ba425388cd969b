"""Rows of xlm, flaubert."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "xlm": ("XLM", "SequenceClassification TokenClassification QuestionAnsweringSimple"),
}
SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "emb_dim": 24,
    "n_layers": 2,
    "n_heads": 3,
    "max_position_embeddings": 20,
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "xlm": ("XLMModel", {"model_type": "xlm", **SIZES, "n_langs": 3}),
        "flaubert": (
            "FlaubertModel",
            {"model_type": "flaubert", **SIZES, "gelu_activation": False, "layer_norm_eps": 1e-6},
        ),
    }
