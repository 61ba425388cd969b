"""Rows of convbert."""

from typing import Any

# What padding beside a text would change is not changed here.
KIND = "alone"
# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "convbert": ("ConvBert", "MaskedLM SequenceClassification"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "convbert": (
            "ConvBertModel",
            t.encoder("convbert", embedding_size=14, num_attention_heads=4, conv_kernel_size=5),
        ),
        "convbert-groups": (
            "ConvBertModel",
            t.encoder("convbert", embedding_size=24, head_ratio=4, num_groups=4, hidden_act="relu"),
        ),
    }
