"""Rows of bert."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("bert",)
# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "bert": ("Bert", "MaskedLM SequenceClassification TokenClassification QuestionAnswering"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "bert": (
            "BertModel",
            {
                "model_type": "bert",
                "vocab_size": 50,
                "hidden_size": 24,
                "num_hidden_layers": 2,
                "num_attention_heads": 3,
                "intermediate_size": 40,
                "max_position_embeddings": 16,
            },
        ),
    }
