"""UniSpeech-SAT (Chen et al., 2021): wav2vec 2.0's network, learned to tell speakers too."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.speech import wav2vec2
from rushlight.models.layers.speech.wav2vec2 import WaveModel
from rushlight.models.layers.speech.wave_heads import EVERY, classes_of

ARCHITECTURES = classes_of("UniSpeechSat", EVERY)


class UniSpeechSatModel(WaveModel):
    """Samples to a token for each frame, classes of a recording, or hidden states."""

    base, adapts = "unispeech_sat", False


@dataclass
class Config(wav2vec2.Config):
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = {**wav2vec2.Config.neutral, "num_clusters": ()}

    model_type: str = "unispeech-sat"


FAMILY = wav2vec2.family("unispeech-sat", Config, ARCHITECTURES, UniSpeechSatModel)
