"""Rows of wav2vec2."""

from typing import Any

KIND = "waves"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "wav2vec2": ("Wav2Vec2ForCTC", t.wav2vec2()),
        "wav2vec2-stable": (
            "Wav2Vec2ForCTC",
            t.wav2vec2(
                do_stable_layer_norm=True,
                feat_extract_norm="layer",
                conv_bias=True,
                hidden_act="relu",
                num_conv_pos_embeddings=7,
                num_conv_pos_embedding_groups=3,
                num_attention_heads=4,
                conv_dim=[9, 11],
                conv_kernel=[7, 4],
                conv_stride=[6, 3],
                layer_norm_eps=1e-3,
                feat_extract_activation="gelu_new",
            ),
        ),
        "wav2vec2-states": (
            "Wav2Vec2Model",
            t.wav2vec2(
                feat_extract_norm="layer",
                mask_time_prob=0.0,
                num_hidden_layers=3,
            ),
        ),
    }
