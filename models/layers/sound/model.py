"""SoundModel: the base class of families that say what a recording is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.audio.inputs import Sound
from rushlight.models.model import Model
from rushlight.models.small_files import small_json


class SoundModel(Model):
    """Recordings -> logits of the checkpoint's classes.

    rate: the samples a second that it hears. labels: the names of the classes, () without a head.
    """

    rate: int = 16000
    labels: tuple[str, ...] = ()
    problem: str | None = None  # config.json's problem_type

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read what the checkpoint says of its classes."""
        self.problem = small_json(files, "config.json").get("problem_type")

    def inputs_of(self, recordings: Sequence[Sound]) -> dict[str, Tensor]:
        """What `forward` takes of recordings: samples (n,) at `rate`, which are read by slices."""
        raise NotImplementedError

    def forward(self, features: Tensor) -> Tensor:
        """Features -> logits (batch, classes)."""
        raise NotImplementedError


def extractor_settings(files: Mapping[str, bytes], kind: str) -> dict[str, Any]:
    """The feature extractor's settings of preprocessor_config.json or processor_config.json.

    {} where neither file is there. FormatError where they are of another kind than `kind`.
    """
    settings = small_json(files, "preprocessor_config.json")
    inner = small_json(files, "processor_config.json").get("feature_extractor")
    settings = inner if isinstance(inner, dict) else settings
    named = settings.get("feature_extractor_type", kind)
    if named != kind:
        raise FormatError(
            f"preprocessor_config.json: feature_extractor_type {brief(named)} is not supported; "
            f"supported: {kind}"
        )
    return settings


def setting(settings: Mapping[str, Any], key: str, usual: Any, least: float, most: float) -> Any:
    """A number of an extractor's settings; FormatError for another type, or out of range.

    `key`: its name. `usual`: what it is where the settings do not say it; a whole number where this
    is one. `least` and `most` are the smallest and largest that are allowed.
    """
    value = settings.get(key, usual)
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or not least <= value <= most or (type(usual) is int and int(value) != value):
        raise FormatError(
            f"preprocessor_config.json: {key} is {brief(value)}; it must be a number from {least} "
            f"to {most}"
        )
    return type(usual)(value)


def flag(settings: Mapping[str, Any], key: str, usual: bool) -> bool:
    """A boolean of an extractor's settings; FormatError for another value."""
    value = settings.get(key, usual)
    if not isinstance(value, bool):
        raise FormatError(
            f"preprocessor_config.json: {key} is {brief(value)}; it must be true or false"
        )
    return value
