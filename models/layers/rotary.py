"""Rotary positions by a description: theta, scaling, share of the head, order of the pairs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.nn.rope import Rope
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config import LARGEST, RANGES

Angles = Mapping["RotarySpec", tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class RotarySpec:
    """The first `dim` features of each head are rotated; the other features are unchanged.

    interleaved: a pair is (2i, 2i + 1), not (i, i + dim/2). scaling: the object in config.json as
    JSON text, see `Rope`. Text can be compared, so layers with equal positions share their angles.
    """

    dim: int
    theta: float = 10000.0
    scaling: str = ""
    interleaved: bool = False

    def __post_init__(self) -> None:
        if self.dim < 2 or self.dim % 2:
            raise FormatError(f"config.json: head_dim {self.dim} is not even")
        if self.dim > LARGEST["head_dim"]:
            raise FormatError(f"config.json: head_dim {self.dim} is out of range")


def rotary_of(config: Mapping[str, Any], dim: int) -> RotarySpec:
    """The rotary positions of a config.json: theta, scaling and share of a head with `dim`.

    FormatError for a key with an invalid value.
    """
    scaling = None
    for name in ("rope_scaling", "rope_parameters"):
        value = config.get(name)
        if value is not None and not isinstance(value, dict):
            raise FormatError(f"config.json: {name} is {brief(value)}; it must be an object")
        scaling = value or scaling
    # Newer files hold theta and the scaling in one object.
    theta = _number(config, "rope_theta", 10000.0, RANGES["theta"])
    theta = _number(config.get("rope_parameters") or {}, "rope_theta", theta, RANGES["theta"])
    share = _number(config, "partial_rotary_factor", 1.0, (0.0, 1.0))
    return RotarySpec(int(dim * share), theta, json.dumps(scaling) if scaling else "")


def _number(
    config: Mapping[str, Any], name: str, default: float, limits: tuple[float, float]
) -> float:
    value = config.get(name, default)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not limits[0] <= value <= limits[1]:
        raise FormatError(
            f"config.json: {name} is {brief(value)}; it must be a number from {limits[0]:g} to "
            f"{limits[1]:g}"
        )
    return float(value)


class Rotary:
    """The angles of every kind of rotary positions among a model's layers."""

    def __init__(self, specs: Iterable[RotarySpec | None]) -> None:
        self.ropes = {
            spec: Rope(spec.dim, spec.theta, json.loads(spec.scaling or "{}"))
            for spec in specs
            if spec is not None
        }

    def angles(self, positions: Tensor) -> Angles:
        """cos and sin for each kind, (batch, 1, length, dim/2), of positions (batch, length)."""
        found = {}
        for spec, rope in self.ropes.items():
            cos, sin = rope.angles(positions)
            # (batch, length, dim/2) -> (batch, 1, length, dim/2)
            found[spec] = cos.unsqueeze(1), sin.unsqueeze(1)
        return found
