"""Rows of deberta-v2."""

from typing import Any

# Rows with heads: the beginning of the class, and its ends.
HEADS = {
    "deberta-v2-conv": ("DebertaV2", "MaskedLM SequenceClassification QuestionAnswering"),
}


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "deberta-v2": (
            "DebertaV2Model",
            t.encoder(
                "deberta-v2",
                relative_attention=True,
                position_buckets=8,
                norm_rel_ebd="layer_norm",
                share_att_key=True,
                pos_att_type="p2c|c2p",
                position_biased_input=False,
            ),
        ),
        "deberta-v2-conv": (
            "DebertaV2Model",
            t.encoder(
                "deberta-v2",
                relative_attention=True,
                pos_att_type=["c2p"],
                max_relative_positions=5,
                type_vocab_size=2,
                embedding_size=16,
                conv_kernel_size=3,
                conv_act="gelu",
                conv_groups=2,
                layer_norm_eps=1e-5,
                hidden_act="relu",
            ),
        ),
    }
