"""Rows of eurobert."""

from typing import Any

# Rows that a GGUF file can say.
GGUF = ("eurobert-gguf",)

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "eurobert": ("EuroBert", "MaskedLM SequenceClassification TokenClassification"),
    "eurobert-biases": ("EuroBert", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "eurobert": (
            "EuroBertModel",
            t.encoder("eurobert", num_key_value_heads=1, pad_token_id=0, head_dim=10),
        ),
        "eurobert-gguf": (
            "EuroBertModel",
            t.encoder(
                "eurobert", pad_token_id=0, rope_theta=500.0, hidden_size=48, num_attention_heads=4
            ),
        ),
        "eurobert-biases": (
            "EuroBertModel",
            t.encoder(
                "eurobert",
                pad_token_id=0,
                attention_bias=True,
                mlp_bias=True,
                hidden_act="gelu",
                classifier_pooling="mean",
                rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 2000.0},
            ),
        ),
    }
