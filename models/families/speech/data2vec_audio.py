"""data2vec of audio (Baevski et al., 2022): wav2vec 2.0's network with deeper positions."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.models.families.speech import wav2vec2
from rushlight.models.layers.speech.data2vec_audio import Data2VecAudioModel
from rushlight.models.layers.speech.wave_heads import EVERY, classes_of

ARCHITECTURES = classes_of("Data2VecAudio", EVERY)


@dataclass
class Config(wav2vec2.Config):
    """The keys of config.json that the model depends on; defaults are transformers'."""

    neutral = {
        **wav2vec2.Config.neutral,
        "feat_extract_norm": (),
        "do_stable_layer_norm": (),
        "embedding_size": (),
    }

    feat_extract_norm: str = "layer"
    num_conv_pos_embeddings: int = 5
    conv_pos_kernel_size: int = 19
    model_type: str = "data2vec-audio"


FAMILY = wav2vec2.family("data2vec-audio", Config, ARCHITECTURES, Data2VecAudioModel)
