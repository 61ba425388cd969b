"""Rows of electra."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "electra": ("Electra", "MaskedLM SequenceClassification TokenClassification QuestionAnswering"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "electra": ("ElectraModel", t.encoder("electra", embedding_size=10)),
        "electra-wide": (
            "ElectraModel",
            t.encoder(
                "electra",
                embedding_size=24,
                type_vocab_size=3,
                layer_norm_eps=1e-3,
            ),
        ),
    }
