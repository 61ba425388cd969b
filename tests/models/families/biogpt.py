"""Rows of biogpt."""

from typing import Any


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "biogpt": (
            "BioGptForCausalLM",
            {"model_type": "biogpt", **t.NEOX, "tie_word_embeddings": True},
        ),
        "biogpt-plain": (
            "BioGptForCausalLM",
            {"model_type": "biogpt", **t.NEOX, "scale_embedding": False, "hidden_act": "relu"},
        ),
    }
