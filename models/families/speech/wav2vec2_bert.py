"""w2v-BERT 2.0 (Seamless Communication, 2023): conformers over filter banks, by CTC."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.models.families.speech import wav2vec2_conformer
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.speech.wav2vec2_bert import Wav2Vec2BertModel
from rushlight.models.layers.speech.wave_heads import EVERY, classes_of

ARCHITECTURES = classes_of("Wav2Vec2Bert", EVERY)


@dataclass
class Config(wav2vec2_conformer.Config):
    """The keys of config.json that the model depends on; defaults are transformers'."""

    vocab_size: int | None = None  # type: ignore[assignment]
    feature_projection_input_dim: int = 160
    hidden_act: str = "swish"
    adapter_act: str = "relu"
    num_adapter_layers: int = 1
    use_intermediate_ffn_before_adapter: bool = False
    position_embeddings_type: str | None = "relative_key"
    left_max_position_embeddings: int = 64
    right_max_position_embeddings: int = 8
    model_type: str = "wav2vec2-bert"


def describe(c: Any, names: Collection[str]) -> tuple[EncoderSpec, list[tuple[int, int, int]]]:
    """The encoder of a configuration, which has no convolutions before it."""
    spec = EncoderSpec(
        c.vocab_size or 0,
        c.hidden_size,
        0,
        c.num_hidden_layers,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        NormSpec("layer", c.layer_norm_eps),
        names=wav2vec2_conformer.NAMES,
    )
    return spec, []


FAMILY = wav2vec2_conformer.family(
    "wav2vec2-bert", Config, ARCHITECTURES, Wav2Vec2BertModel, describe=describe, refused=()
)
