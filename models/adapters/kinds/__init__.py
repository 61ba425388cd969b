"""Kinds of adapters that change a layer's weight by other formulas than LoRA's."""

from rushlight.models.adapters.kinds.configs import (
    AdaLoraConfig,
    HiraConfig,
    LoKrConfig,
    OFTConfig,
    VeraConfig,
)

__all__ = ["AdaLoraConfig", "HiraConfig", "LoKrConfig", "OFTConfig", "VeraConfig"]
