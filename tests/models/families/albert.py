"""Rows of albert."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "albert": ("Albert", "MaskedLM SequenceClassification TokenClassification QuestionAnswering"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "albert": ("AlbertModel", t.encoder("albert", embedding_size=10, num_hidden_layers=3)),
        "albert-groups": (
            "AlbertModel",
            t.encoder(
                "albert",
                embedding_size=24,
                num_hidden_layers=5,
                num_hidden_groups=2,
                inner_group_num=2,
                hidden_act="relu",
            ),
        ),
    }
