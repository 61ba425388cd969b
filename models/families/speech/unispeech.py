"""UniSpeech (Wang et al., 2021): wav2vec 2.0's network, learned with and without transcripts."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.speech import wav2vec2
from rushlight.models.layers.speech.wav2vec2 import WaveModel
from rushlight.models.layers.speech.wave_heads import classes_of

ARCHITECTURES = classes_of("UniSpeech")


class UniSpeechModel(WaveModel):
    """Samples to a token for each frame, classes of a recording, or hidden states."""

    base, adapts = "unispeech", False


@dataclass
class Config(wav2vec2.Config):
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = {**wav2vec2.Config.neutral, "num_ctc_classes": (), "replace_prob": ()}

    model_type: str = "unispeech"


FAMILY = wav2vec2.family("unispeech", Config, ARCHITECTURES, UniSpeechModel)
