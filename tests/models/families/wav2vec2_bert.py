"""Rows of wav2vec2-bert."""

from typing import Any

KIND = "waves"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "wav2vec2-bert": (
            "Wav2Vec2BertForCTC",
            t.encoder(
                "wav2vec2-bert",
                feature_projection_input_dim=14,
                conv_depthwise_kernel_size=5,
                left_max_position_embeddings=6,
                right_max_position_embeddings=3,
                add_adapter=True,
                use_intermediate_ffn_before_adapter=True,
                num_adapter_layers=2,
                output_hidden_size=18,
            ),
        ),
        "wav2vec2-bert-relative": (
            "Wav2Vec2BertForSequenceClassification",
            t.encoder(
                "wav2vec2-bert",
                feature_projection_input_dim=14,
                conv_depthwise_kernel_size=3,
                position_embeddings_type="relative",
                classifier_proj_size=10,
                num_labels=5,
            ),
        ),
    }
