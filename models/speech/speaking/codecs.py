"""The codec of a voice that makes codes: beside its files, or of the hub."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.small_files import small_json

FOLDER = "audio_tokenizer/"


def codec_beside(files: Mapping[str, bytes]) -> Any:
    """The codec in the folder `audio_tokenizer` of a checkpoint; None where it lacks it."""
    from rushlight.core.io import load
    from rushlight.models.loading import assemble

    needed = (f"{FOLDER}config.json", f"{FOLDER}model.safetensors")
    if any(name not in files for name in needed):
        return None
    return assemble({"config.json": files[needed[0]]}, load(files[needed[1]]))


def codec_named(files: Mapping[str, bytes]) -> str | None:
    """The hub's name of the codec that processor_config.json or audio_tokenizer_config.json has."""
    told = small_json(files, "processor_config.json").get("audio_tokenizer")
    told = told if isinstance(told, dict) else small_json(files, "audio_tokenizer_config.json")
    name = told.get("audio_tokenizer_name_or_path")
    return name if isinstance(name, str) and name else None


def fetched(name: str | None, usual: str) -> Any:
    """The codec of this name, or of the name `usual`, fetched from the hub.

    ValueError in a page, which does not wait.
    """
    from rushlight.models.loading import load

    if sys.platform == "emscripten":
        raise ValueError(
            f"text-to-speech: the voice has no codec; save it with one on your computer, by "
            f"save_pretrained, or put {name or usual} into its folder {FOLDER[:-1]}"
        )
    return load(name or usual)


def attach(voice: Any, codec: Any, kind: type[Any], config: bytes) -> None:
    """Give a voice, of this config.json, its codec, which it saves with itself.

    FormatError for a codec of another `kind`.
    """
    if not isinstance(codec, kind):
        raise FormatError(
            f"{voice.config.model_type}: the codec is a {brief(codec.config.model_type)}, and not "
            f"a {kind.__name__}"
        )
    voice.codec, voice.rate = codec.to(device=voice.device, dtype=voice.dtype), codec.rate
    told = json.loads(config)
    inner = json.loads(codec.files["config.json"])
    told["codec_config"] = {k: v for k, v in inner.items() if k != "architectures"}
    voice.files = dict(voice.files) | {"config.json": json.dumps(told).encode()}
