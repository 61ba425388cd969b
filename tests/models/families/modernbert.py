"""Rows of modernbert."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("modernbert",)
# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "modernbert": ("ModernBert", "MaskedLM TokenClassification QuestionAnswering"),
    "modernbert-biases": ("ModernBert", "SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "modernbert": ("ModernBertModel", t.modern(local_attention=6)),
        "modernbert-biases": (
            "ModernBertModel",
            t.modern(
                num_hidden_layers=4,
                local_attention=4,
                norm_bias=True,
                attention_bias=True,
                mlp_bias=True,
                hidden_activation="silu",
                layer_types=["sliding_attention", "full_attention"] * 2,
            ),
        ),
    }
