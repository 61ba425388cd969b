"""Rows of deberta."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "deberta": ("Deberta", "MaskedLM SequenceClassification"),
    "deberta-plain": ("Deberta", "MaskedLM"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "deberta": (
            "DebertaModel",
            t.encoder(
                "deberta",
                relative_attention=True,
                max_relative_positions=5,
                position_biased_input=False,
                pos_att_type="c2p|p2c",
                embedding_size=16,
            ),
        ),
        "deberta-plain": (
            "DebertaModel",
            t.encoder(
                "deberta",
                relative_attention=True,
                pos_att_type=["p2c"],
                type_vocab_size=2,
                hidden_act="relu",
                layer_norm_eps=1e-5,
                legacy=False,
            ),
        ),
    }
