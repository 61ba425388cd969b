"""Rotary position embedding: the angles of each position, with published scalings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rushlight.core import ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

# No scaling makes a context longer: float32 holds all positions below it.
_FARTHEST = 1 << 24


class Rope:
    """Angles position * theta^(-2i/dim) that rotate pairs of features (Su et al., 2021).

    scaling: the dict of config.json, by its `rope_type` or `type`:

    - "linear" divides positions by `factor`.
    - "llama3" divides the frequencies of long wavelengths by it, keeps those of short ones, and
      blends the band between.
    - "yarn" (Peng et al., 2023) blends by the number of rotations within the original context, and
      scales cos and sin by `attention_factor`.
    - "longrope" (Ding et al., 2024) divides each frequency by a number of `short_factor`, or of
      `long_factor` where a row is longer than the original context; cos and sin are scaled too,
      by `short_mscale` and `long_mscale` where those are given.
    - "ntk" divides frequency i by factor^((2 (i + 1) / dim)^mixed_b); by default mixed_b is 1.
    - "proportional" rotates the first `partial_rotary_factor` of the pairs, by the frequencies of
      the whole, divided by `factor`.
    - "dynamic" raises theta where a row is longer than `max_position_embeddings`.

    reach: the context that yarn and dynamic make of the original one, else 0. FormatError for
    other types.
    """

    def __init__(
        self, dim: int, theta: float = 10000.0, scaling: Mapping[str, Any] | None = None
    ) -> None:
        self.dim, self.theta, scaling = dim, theta, scaling or {}
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        plain = [theta ** (-2 * i / dim) for i in range(dim // 2)]
        self.frequencies, self.amplitude, self.long_amplitude = plain, 1.0, 1.0
        # What depends on a row's length: frequencies past `limit` tokens, or a factor of theta.
        self.long: list[float] | None = None
        self.limit, self.stretch, self.reach = 0.0, 0.0, 0
        if kind == "yarn":
            self.frequencies = _yarn(plain, dim, theta, scaling)
            self.amplitude = _yarn_amplitude(scaling)
            original = _number(scaling, "original_max_position_embeddings")
            self.reach = _reach(original * _factor(scaling))
        elif kind in ("longrope", "su"):
            self.frequencies = _divided(plain, scaling, "short_factor")
            self.long = _divided(plain, scaling, "long_factor")
            self.limit = _number(scaling, "original_max_position_embeddings")
            self.amplitude = self.long_amplitude = _longrope_amplitude(scaling)
            if scaling.get("short_mscale") is not None:
                self.amplitude = _number(scaling, "short_mscale")
                self.long_amplitude = _number(scaling, "long_mscale")
        elif kind == "dynamic":
            self.limit = _number(scaling, "max_position_embeddings")
            factor = _number(scaling, "factor")
            self.stretch = factor if dim > 2 else 0.0
            self.reach = _reach(self.limit * factor)
        else:
            self.frequencies = _scaled(plain, kind, scaling)

    @property
    def by_length(self) -> bool:
        """Whether the angles depend on the length of a row."""
        return bool(self.long or self.stretch)

    def angles(self, positions: Tensor, length: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """cos and sin, each (*positions.shape, dim/2) float32, for whole-number positions.

        length: the tokens of each row, positions.shape with a last dimension of 1; by default one
        more than the row's last position.
        """
        frequency = tensor(self.frequencies, device=positions.device)
        if self.by_length:
            if length is None:
                length = positions.amax(-1, keepdim=True) + 1
            frequency = self._by_length(frequency, length.float().unsqueeze(-1))
        angle = positions.float().unsqueeze(-1) * frequency
        cos, sin = ops.cos(angle), ops.sin(angle)
        if self.by_length and self.long_amplitude != self.amplitude:
            assert length is not None
            short = tensor(self.amplitude, device=length.device)
            scale = ops.where(length.unsqueeze(-1) > self.limit, self.long_amplitude, short)
            return cos * scale, sin * scale
        return (cos, sin) if self.amplitude == 1 else (cos * self.amplitude, sin * self.amplitude)

    def _by_length(self, frequency: Tensor, length: Tensor) -> Tensor:
        # length (..., 1, 1) -> (..., 1, dim/2)
        if self.long is not None:
            long = tensor(self.long, device=length.device)
            return ops.where(length > self.limit, long, frequency)
        past = length.clamp(min=self.limit) * (self.stretch / self.limit) - (self.stretch - 1)
        powers = [-2 * i / (self.dim - 2) for i in range(self.dim // 2)]
        return frequency * ops.exp(ops.log(past) * tensor(powers, device=length.device))


def _number(scaling: Mapping[str, Any], key: str) -> float:
    value = scaling.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < 1e9:
        raise FormatError(f"config.json: rope_scaling has {key} {value!r}; it must be positive")
    return float(value)


def _reach(context: float) -> int:
    return int(min(context, _FARTHEST))


def _scaled(frequencies: list[float], kind: Any, scaling: Mapping[str, Any]) -> list[float]:
    if kind == "default":
        return frequencies
    if kind == "linear":
        factor = _number(scaling, "factor")
        return [f / factor for f in frequencies]
    if kind == "llama3":
        return [_llama3(f, scaling) for f in frequencies]
    if kind == "ntk":
        factor, half = max(_number(scaling, "factor"), 1.0), len(frequencies)
        power = 1.0 if scaling.get("mixed_b") is None else _number(scaling, "mixed_b")
        return [f / factor ** (((i + 1) / half) ** power) for i, f in enumerate(frequencies)]
    if kind == "proportional":
        share, factor = (
            1.0 if scaling.get(key) is None else _number(scaling, key)
            for key in ("partial_rotary_factor", "factor")
        )
        rotated = int(share * len(frequencies))
        return [f / factor if i < rotated else 0.0 for i, f in enumerate(frequencies)]
    if kind == "factors":
        return _divided(frequencies, scaling, "factors")
    raise FormatError(
        f"config.json: rope_scaling of type {kind!r} is not supported; supported: default, "
        "dynamic, linear, llama3, longrope, ntk, proportional, yarn"
    )


def _divided(frequencies: list[float], scaling: Mapping[str, Any], key: str) -> list[float]:
    factors = scaling.get(key)
    good = isinstance(factors, list) and len(factors) == len(frequencies)
    if not good or not all(isinstance(f, (int, float)) and f > 0 for f in factors or []):
        raise FormatError(
            f"rope_scaling must have {len(frequencies)} positive numbers as {key}, one per "
            "frequency"
        )
    return [f / g for f, g in zip(frequencies, factors or [], strict=True)]


def _factor(scaling: Mapping[str, Any]) -> float:
    """`factor`, or by how much the context is longer than the original one."""
    if scaling.get("factor") is not None:
        return _number(scaling, "factor")
    original = _number(scaling, "original_max_position_embeddings")
    return _number(scaling, "max_position_embeddings") / original


def _yarn(
    frequencies: list[float], dim: int, theta: float, scaling: Mapping[str, Any]
) -> list[float]:
    """The paper's ramp: feature pairs that rotate often keep their frequency, others get 1/factor.

    `beta_fast` and `beta_slow` are rotations within the original context.
    """
    factor = _factor(scaling)
    context = _number(scaling, "original_max_position_embeddings")

    def pair(key: str, default: float) -> float:
        turns = _number(scaling, key) if scaling.get(key) else default
        return dim * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair("beta_fast", 32.0), pair("beta_slow", 1.0)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    width = high - low or 0.001
    ramp = [min(max((i - low) / width, 0.0), 1.0) for i in range(len(frequencies))]
    return [f * (1 - r) + f / factor * r for f, r in zip(frequencies, ramp, strict=True)]


def _yarn_amplitude(scaling: Mapping[str, Any]) -> float:
    if scaling.get("attention_factor") is not None:
        return _number(scaling, "attention_factor")
    factor = _factor(scaling)

    def of(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return of(_number(scaling, "mscale")) / of(_number(scaling, "mscale_all_dim"))
    return of(1.0)


def _longrope_amplitude(scaling: Mapping[str, Any]) -> float:
    if scaling.get("attention_factor") is not None:
        return _number(scaling, "attention_factor")
    factor, context = _factor(scaling), _number(scaling, "original_max_position_embeddings")
    return math.sqrt(1 + math.log(factor) / math.log(context)) if factor > 1 else 1.0


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
