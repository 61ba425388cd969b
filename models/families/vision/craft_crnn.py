"""CRAFT with a CRNN, as easyocr has them: where text stands in an image, and what it says."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.vision.craft_crnn import CraftCrnn

LETTERS = (
    "0123456789!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \u20acABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "abcdefghijklmnopqrstuvwxyz"
)


@dataclass
class Config:
    """The keys of a config.json. characters: those of the recognizer's classes, after the blank."""

    characters: str = LETTERS
    width: int = 256
    hidden: int = 256
    model_type: str = "craft_crnn"


def build(config: dict[str, Any], names: Collection[str]) -> CraftCrnn:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config)
    if not isinstance(c.characters, str) or not c.characters:
        raise FormatError(f"config.json: characters is {brief(c.characters)}; it must be a text")
    if c.width % 8 or c.width < 8 or c.hidden < 1:
        raise FormatError(
            f"config.json: width {c.width} must be a multiple of 8, hidden {c.hidden} at least 1"
        )
    return CraftCrnn(c, c.width, c.hidden)


FAMILY = Family(
    model_types=("craft_crnn",),
    tasks=("ocr",),
    config=Config,
    build=build,
)
