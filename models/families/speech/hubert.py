"""HuBERT (Hsu et al., 2021): wav2vec 2.0's network, learned from clusters of its own features."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.speech import wav2vec2
from rushlight.models.layers.speech.wav2vec2 import WaveModel
from rushlight.models.layers.speech.wave_heads import classes_of

ARCHITECTURES = classes_of("Hubert")


class HubertModel(WaveModel):
    """Samples to a token for each frame, classes of a recording, or hidden states."""

    base, adapts = "hubert", False


@dataclass
class Config(wav2vec2.Config):
    """The keys of config.json that the model depends on; defaults are transformers'."""

    feat_proj_layer_norm: bool = True
    conv_pos_batch_norm: bool = False
    model_type: str = "hubert"


FAMILY = wav2vec2.family("hubert", Config, ARCHITECTURES, HubertModel)
