"""Rows of data2vec-audio."""

from typing import Any

KIND = "waves"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "data2vec-audio": (
            "Data2VecAudioForAudioFrameClassification",
            t.waves(
                "data2vec-audio",
                num_conv_pos_embeddings=2,
                conv_pos_kernel_size=6,
                use_weighted_layer_sum=True,
                num_labels=5,
            ),
        ),
    }
