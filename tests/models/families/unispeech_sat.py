"""Rows of unispeech-sat."""

from typing import Any

KIND = "waves"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "unispeech-sat": (
            "UniSpeechSatForXVector",
            t.waves(
                "unispeech-sat",
                do_stable_layer_norm=True,
                feat_extract_norm="layer",
                use_weighted_layer_sum=True,
                tdnn_dim=[12, 14, 18],
                tdnn_kernel=[5, 3, 1],
                tdnn_dilation=[1, 2, 1],
                xvector_output_dim=11,
                num_labels=3,
            ),
        ),
    }
