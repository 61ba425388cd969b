"""Rotary position embedding: the angles of each position, with published scalings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rushlight.core import ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor


class Rope:
    """Angles position * theta^(-2i/dim) that rotate pairs of features (Su et al., 2021).

    scaling: the dict of config.json. Type "linear" divides positions by `factor`. "llama3" divides
    the frequencies of long wavelengths by it, keeps those of short ones, and blends the band
    between. FormatError for other types.
    """

    def __init__(
        self, dim: int, theta: float = 10000.0, scaling: Mapping[str, Any] | None = None
    ) -> None:
        self.dim = dim
        frequencies = [theta ** (-2 * i / dim) for i in range(dim // 2)]
        self.frequencies = _scaled(frequencies, scaling or {})

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin, each (*positions.shape, dim/2) float32, for whole-number positions."""
        frequency = tensor(self.frequencies, device=positions.device)
        angle = positions.float().unsqueeze(-1) * frequency
        return ops.cos(angle), ops.sin(angle)


def _number(scaling: Mapping[str, Any], key: str) -> float:
    value = scaling.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1e9:
        raise FormatError(f"config.json: rope_scaling has {key} {value!r}; it must be positive")
    return float(value)


def _scaled(frequencies: list[float], scaling: Mapping[str, Any]) -> list[float]:
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return frequencies
    if kind == "linear":
        factor = _number(scaling, "factor")
        return [f / factor for f in frequencies]
    if kind == "llama3":
        return [_llama3(f, scaling) for f in frequencies]
    if kind == "factors":
        factors = scaling.get("factors")
        good = isinstance(factors, list) and len(factors) == len(frequencies)
        if not good or not all(isinstance(f, (int, float)) and f > 0 for f in factors or []):
            raise FormatError(
                f"rope_scaling must have {len(frequencies)} positive factors, one per frequency"
            )
        return [f / g for f, g in zip(frequencies, factors or [], strict=True)]
    raise FormatError(
        f"config.json: rope_scaling of type {kind!r} is not supported; supported: default, linear, "
        "llama3"
    )


def _llama3(frequency: float, scaling: Mapping[str, Any]) -> float:
    # As published with Llama 3.1: wavelengths are compared with the original training context.
    factor, low = _number(scaling, "factor"), _number(scaling, "low_freq_factor")
    high = _number(scaling, "high_freq_factor")
    context = _number(scaling, "original_max_position_embeddings")
    wavelength = 2 * math.pi / frequency
    if wavelength > context / low:
        return frequency / factor
    if wavelength < context / high:
        return frequency
    smooth = (context / wavelength - low) / (high - low)
    return (1 - smooth) * frequency / factor + smooth * frequency
