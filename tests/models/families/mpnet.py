"""Rows of mpnet."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "mpnet": ("MPNet", "MaskedLM SequenceClassification TokenClassification QuestionAnswering"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "mpnet": ("MPNetModel", t.encoder("mpnet")),
        "mpnet-padding": (
            "MPNetModel",
            t.encoder(
                "mpnet",
                pad_token_id=4,
                num_attention_heads=4,
                hidden_act="relu",
                num_hidden_layers=1,
            ),
        ),
    }
