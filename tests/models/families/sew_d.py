"""Rows of sew-d."""

from typing import Any

KIND = "waves"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "sew-d": (
            "SEWDForCTC",
            t.waves("sew-d", max_position_embeddings=20, position_buckets=6, squeeze_factor=3),
        ),
        "sew-d-classes": (
            "SEWDForSequenceClassification",
            t.waves(
                "sew-d",
                conv_dim=[10, 12, 24],
                feat_extract_norm="layer",
                max_position_embeddings=20,
                position_buckets=-1,
                share_att_key=False,
                norm_rel_ebd="none",
                pos_att_type=["c2p"],
                classifier_proj_size=10,
                num_labels=5,
            ),
        ),
    }
