"""The vocoder of a voice that makes spectrograms: beside its files, or of the hub."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError

FOLDER = "vocoder/"
HUB = "microsoft/speecht5_hifigan"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def vocoder_beside(files: Mapping[str, bytes]) -> Any:
    """The vocoder in the folder `vocoder` of a checkpoint's small files; None where it lacks it."""
    from rushlight.core.io import load
    from rushlight.models.loading import assemble

    weights = next((name for name in _WEIGHTS if FOLDER + name in files), None)
    if weights is None or f"{FOLDER}config.json" not in files:
        return None
    return assemble({"config.json": files[f"{FOLDER}config.json"]}, load(files[FOLDER + weights]))


def fetched() -> Any:
    """SpeechT5's vocoder, fetched from the hub. ValueError in a page, which does not wait."""
    from rushlight.models.loading import load

    if sys.platform == "emscripten":
        raise ValueError(
            f"text-to-speech: the voice has no vocoder; save it with one on your computer, by "
            f"save_pretrained, or put {HUB} into its folder {FOLDER[:-1]}"
        )
    return load(HUB)


def attach(voice: Any, vocoder: Any, config: bytes) -> None:
    """Give a voice, of this config.json, a vocoder, which it saves with itself.

    FormatError for one of other spectrograms.
    """
    from rushlight.models.layers.speech.hifigan import HifiGan

    if not isinstance(vocoder, HifiGan) or vocoder.spec.width != voice.config.num_mel_bins:
        raise FormatError(
            f"{voice.config.model_type}: the vocoder is no HiFi-GAN of "
            f"{voice.config.num_mel_bins} bins"
        )
    voice.vocoder, voice.rate = vocoder.to(device=voice.device, dtype=voice.dtype), vocoder.rate
    told = json.loads(config)
    inner = json.loads(vocoder.files["config.json"])
    told["vocoder_config"] = {k: v for k, v in inner.items() if k != "architectures"}
    voice.files = dict(voice.files) | {"config.json": json.dumps(told).encode()}
