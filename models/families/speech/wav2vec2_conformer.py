"""wav2vec 2.0 with conformer layers (Wang et al., 2020): relative or rotary positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.families.speech import wav2vec2
from rushlight.models.layers.speech.conformer import ConformerModel
from rushlight.models.layers.speech.wave_heads import EVERY, classes_of

ARCHITECTURES = classes_of("Wav2Vec2Conformer", EVERY)


@dataclass
class Config(wav2vec2.Config):
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = {**wav2vec2.Config.neutral, "max_source_positions": (), "conformer_conv_dropout": ()}

    position_embeddings_type: str | None = "relative"
    rotary_embedding_base: int = 10000
    conv_depthwise_kernel_size: int = 31
    model_type: str = "wav2vec2-conformer"


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether no model reads a tensor: positions by convolution, which the reference calls not."""
    return "encoder.pos_conv_embed." in name or wav2vec2.unused(name, config)


family, NAMES = wav2vec2.family, wav2vec2.NAMES  # for w2v-BERT
FAMILY = family("wav2vec2-conformer", Config, ARCHITECTURES, ConformerModel, unused=unused)
