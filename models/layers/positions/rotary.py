"""Rotary positions by a description: theta, scaling, share of the head, order of the pairs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.nn.rope import Rope
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import LARGEST, RANGES

Angles = Mapping["RotarySpec", tuple[Tensor, Tensor]]
# Scalings that depend on the context's length.
_BY_CONTEXT = ("yarn", "longrope", "su", "dynamic", "llama3")


@dataclass(frozen=True)
class RotarySpec:
    """The first `dim` features of each head are rotated; the other features are unchanged.

    interleaved: a pair is (2i, 2i + 1), not (i, i + dim/2). scaling: the object in config.json as
    JSON text, see `Rope`. Text can be compared, so layers with equal positions share their angles.
    backward: by negative angles. sections: how many frequencies go by the time, the height and the
    width of a token of a picture (Wang et al., 2024), one section after another, or `alternating`.
    """

    dim: int
    theta: float = 10000.0
    scaling: str = ""
    interleaved: bool = False
    backward: bool = False
    sections: tuple[int, ...] = ()
    alternating: bool = False

    def __post_init__(self) -> None:
        if self.dim < 2 or self.dim % 2:
            raise FormatError(f"config.json: head_dim {self.dim} is not even")
        if self.dim > LARGEST["head_dim"]:
            raise FormatError(f"config.json: head_dim {self.dim} is out of range")
        if self.sections and (len(self.sections) != 3 or sum(self.sections) != self.dim // 2):
            raise FormatError(
                f"config.json: mrope_section is {list(self.sections)}; it must be three numbers "
                f"that sum to {self.dim // 2}"
            )

    @property
    def axes(self) -> list[int]:
        """The axis of positions that each frequency goes by: 0 time, 1 height, 2 width."""
        if not self.alternating:
            return [axis for axis, count in enumerate(self.sections) for _ in range(count)]
        inside = [i % 3 and i < 3 * self.sections[i % 3] for i in range(self.dim // 2)]
        return [i % 3 if within else 0 for i, within in enumerate(inside)]


def rotary_of(
    config: Mapping[str, Any], dim: int, share: float = 1.0, amplitudes: bool = False
) -> RotarySpec:
    """The rotary positions of a config.json: theta, scaling and share of a head with `dim`.

    share: of a head, where the file does not say it. A config without the key partial_rotary_factor
    is of a family that rotates whole heads. amplitudes: short_mscale and long_mscale are read, as
    only PhiMoE does. FormatError for a key with an invalid value.
    """
    scaling: dict[str, Any] = {}
    for name in ("rope_parameters", "rope_scaling"):  # the older one comes first
        scaling = _object(config, name) or scaling
    if not amplitudes:
        scaling = {n: v for n, v in scaling.items() if n not in ("short_mscale", "long_mscale")}
    # Newer files hold theta, share and scaling in one object.
    theta = _number(config, "rope_theta", 10000.0, RANGES["theta"])
    theta = _number(scaling, "rope_theta", theta, RANGES["theta"])
    if "partial_rotary_factor" in config:
        share = _number(config, "partial_rotary_factor", share, (0.0, 1.0))
        share = _number(scaling, "partial_rotary_factor", share, (0.0, 1.0))
    if scaling.get("rope_type", scaling.get("type")) in _BY_CONTEXT:
        context = config.get("max_position_embeddings")
        original = config.get("original_max_position_embeddings") or scaling.get(
            "original_max_position_embeddings", context
        )
        scaling = scaling | {
            "max_position_embeddings": context,
            "original_max_position_embeddings": original,
        }
    return RotarySpec(int(dim * share), theta, json.dumps(scaling) if scaling else "")


def rotary_of_kind(
    config: Mapping[str, Any], dim: int, kind: str, theta: Any, scaled: bool = True
) -> RotarySpec:
    """The rotary positions of layers of one kind, where each has its own in rope_parameters.

    theta: of this kind, where rope_parameters does not say it. scaled: rope_scaling, of older
    files, concerns this kind.
    """
    parameters = _object(_object(config, "rope_parameters"), kind)
    parameters |= _object(config, "rope_scaling") if scaled else {}
    return rotary_of(
        {**config, "rope_theta": theta, "rope_scaling": None, "rope_parameters": parameters}, dim
    )


def _object(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = config.get(name)
    if value is not None and not isinstance(value, dict):
        raise FormatError(f"config.json: {name} is {brief(value)}; it must be an object")
    return dict(value or {})


def magnified(config: Mapping[str, Any]) -> float:
    """What DeepSeek's models multiply scores by where positions are scaled: `mscale_all_dim`."""
    scaling: dict[str, Any] = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if scaling.get("rope_type", scaling.get("type", "default")) == "default":
        return 1.0
    factor = _number(scaling, "factor", 1.0, (1e-9, 1e9))
    share = _number(scaling, "mscale_all_dim", 0.0, (0.0, 1e3))
    return (0.1 * share * math.log(max(factor, 1.0)) + 1) ** 2


def _number(
    config: Mapping[str, Any], name: str, default: float, limits: tuple[float, float]
) -> float:
    value = default if config.get(name) is None else config[name]
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

    @property
    def reach(self) -> int:
        """The context that the scalings make of the original one; 0 without such a scaling."""
        return max((rope.reach for rope in self.ropes.values()), default=0)

    @property
    def by_length(self) -> bool:
        """Whether angles depend on the length of a row."""
        return any(rope.by_length for rope in self.ropes.values())

    def at(self, length: int) -> tuple[float, ...]:
        """What the angles of a row of this length depend on: equal where they are equal."""
        return tuple(
            max(length, rope.limit) if rope.stretch else float(length > rope.limit)
            for rope in self.ropes.values()
            if rope.by_length
        )

    def jumps(self, before: int, after: int) -> bool:
        """Whether LongRoPE changes all angles as a row grows from one length to another."""
        return any(rope.long and before <= rope.limit < after for rope in self.ropes.values())

    def angles(
        self, positions: Tensor, lengths: Tensor | None = None, expected: Tensor | None = None
    ) -> Angles:
        """cos and sin for each kind, (batch, 1, length, dim/2), of positions (batch, length).

        Positions of pictures are (3, batch, length): by time, height and width. lengths: (batch,),
        the positions of each row without padding on the right. expected: (batch,), the lengths that
        rows will have, where they are read in parts.
        """
        tables, until, axes = {}, None, positions if positions.ndim == 3 else None
        positions = positions if axes is None else axes[0]
        if self.by_length and (lengths is not None or expected is not None):
            count = positions.shape[1] if lengths is None else lengths.unsqueeze(1)
            until = positions[:, :1] + count
            if expected is not None:
                until = ops.maximum(until, expected.unsqueeze(1))
        for spec, rope in self.ropes.items():
            if axes is not None and spec.sections:
                cos, sin = (_by_section(table, spec) for table in rope.angles(axes))
            else:
                cos, sin = rope.angles(positions, until)
            # (batch, length, dim/2) -> (batch, 1, length, dim/2)
            sin = -sin if spec.backward else sin
            tables[spec] = cos.unsqueeze(1), sin.unsqueeze(1)
        return tables


def _by_section(table: Tensor, spec: RotarySpec) -> Tensor:
    """(3, batch, length, dim/2) -> (batch, length, dim/2): each frequency's own axis."""
    axes = tensor(spec.axes, device=table.device)
    out: Tensor = ops.where(axes == 1, table[1], ops.where(axes == 2, table[2], table[0]))
    return out
