"""Rows of wav2vec2-conformer."""

from typing import Any

KIND = "waves"


def rows(t: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class of transformers and config.json of each row; `t` is families.py."""
    return {
        "wav2vec2-conformer": (
            "Wav2Vec2ConformerForCTC",
            t.waves(
                "wav2vec2-conformer",
                conv_depthwise_kernel_size=5,
                add_adapter=True,
                num_adapter_layers=1,
                output_hidden_size=20,
            ),
        ),
        "wav2vec2-conformer-rotary": (
            "Wav2Vec2ConformerForCTC",
            t.waves(
                "wav2vec2-conformer",
                position_embeddings_type="rotary",
                rotary_embedding_base=100,
                conv_depthwise_kernel_size=3,
                hidden_act="swish",
            ),
        ),
    }
