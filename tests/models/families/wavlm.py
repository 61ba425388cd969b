"""Rows of wavlm."""

from typing import Any

KIND = "waves"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "wavlm": (
            "WavLMForCTC",
            t.waves("wavlm", num_buckets=12, max_bucket_distance=20, num_ctc_classes=9),
        ),
        "wavlm-speaker": (
            "WavLMForXVector",
            t.waves(
                "wavlm",
                do_stable_layer_norm=True,
                feat_extract_norm="layer",
                tdnn_dim=[12, 14, 18],
                tdnn_kernel=[5, 3, 1],
                tdnn_dilation=[1, 2, 1],
                xvector_output_dim=11,
                add_adapter=True,
                num_adapter_layers=1,
                num_labels=3,
            ),
        ),
    }
