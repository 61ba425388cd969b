"""Rows of hubert."""

from typing import Any

KIND = "waves"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "hubert": ("HubertForCTC", t.waves("hubert")),
        "hubert-classes": (
            "HubertForSequenceClassification",
            t.waves(
                "hubert",
                do_stable_layer_norm=True,
                feat_extract_norm="layer",
                conv_bias=True,
                feat_proj_layer_norm=False,
                conv_pos_batch_norm=True,
                use_weighted_layer_sum=True,
                classifier_proj_size=10,
                num_labels=5,
            ),
        ),
    }
