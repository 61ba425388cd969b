"""A decoder of a transformer's states into one value for every pixel (Ranftl et al., 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put


@dataclass(frozen=True)
class NeckSpec:
    """The neck of DPT: widths of the states as maps, the factors of their sizes, and its own.

    factors: whole, or below 1; none where the states are maps of their sizes already. readout: what
    becomes of the first token: "ignore", "add", or "project" beside each other with `act`. norms,
    bias: of the convolutions of the sums. doubled: each map is twice as large as the one before,
    not as large as the next state's. plain: how many of the first states are maps already.
    prompted: sums take a map of depths that is given.
    """

    inputs: int
    widths: Sequence[int]
    factors: Sequence[float]
    fused: int
    readout: str = "ignore"
    act: str = "gelu"
    norms: bool = False
    bias: bool = True
    doubled: bool = False
    plain: int = 0
    prompted: bool = False

    def __post_init__(self) -> None:
        # Maps are enlarged by whole numbers, and made smaller by 1 / n.
        good = all(
            type(f) in (int, float) and 0.01 <= f <= 64 and (f <= 1 or f == int(f))
            for f in self.factors
        )
        widths = all(type(n) is int and 1 <= n <= 1 << 16 for n in self.widths)
        fits = len(self.factors) in (0, len(self.widths))
        if not (good and widths and fits and self.widths):
            raise FormatError(
                f"config.json: neck_hidden_sizes {self.widths} and reassemble_factors "
                f"{self.factors} do not agree; factors are whole, or below 1"
            )


class Neck(nn.Module):
    """Maps of several layers, (batch, inputs, height, width) each -> one, fused from the last."""

    def __init__(self, spec: NeckSpec) -> None:
        self.spec = spec
        for i, width in enumerate(spec.widths):
            put(self, f"convs.{i}", nn.Conv2d(width, spec.fused, 3, padding=1, bias=False))
            put(self, f"fusion_stage.layers.{i}", _Fusion(spec))
        for i, (width, factor) in enumerate(zip(spec.widths, spec.factors, strict=False)):
            if i < spec.plain:
                continue
            base = f"reassemble_stage.layers.{i}"
            if spec.readout == "project":
                both = nn.Linear(2 * spec.inputs, spec.inputs)
                put(self, f"reassemble_stage.readout_projects.{i}.0", both)
            put(self, f"{base}.projection", nn.Conv2d(spec.inputs, width, 1))
            if factor > 1:
                step = int(factor)
                put(self, f"{base}.resize", nn.ConvTranspose2d(width, width, step, step))
            elif factor < 1:
                put(self, f"{base}.resize", nn.Conv2d(width, width, 3, int(1 / factor), 1))

    def pictures(
        self, states: Sequence[Tensor], grid: tuple[int, int], before: int
    ) -> list[Tensor]:
        """Maps (batch, inputs, height, width) of tokens (batch, before + places, inputs)."""
        maps = []
        for i, state in enumerate(states, self.spec.plain):
            x, first = state[:, before:], state[:, :1]
            if self.spec.readout == "project":
                both = cat([x, first.expand(-1, x.shape[1], -1)], 2)
                layer = self.get_submodule(f"reassemble_stage.readout_projects.{i}.0")
                x = ACTIVATIONS[self.spec.act](layer(both))
            elif self.spec.readout == "add":
                x = x + first
            maps.append(x.transpose(1, 2).reshape(len(x), -1, *grid))
        return maps

    def forward(self, maps: Sequence[Tensor], depths: Tensor | None = None) -> list[Tensor]:
        """The fused maps, the last of which is the finest; depths: (batch, 1, height, width)."""
        return self.fused(self.shaped(maps), depths)

    def shaped(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """The maps at their sizes, each with the channels of the sums."""
        seen = []
        for i, x in enumerate(maps):
            if self.spec.factors and i >= self.spec.plain:
                layer = self.get_submodule(f"reassemble_stage.layers.{i}")
                x = layer.get_submodule("projection")(x)
                if self.spec.factors[i] != 1:
                    x = layer.get_submodule("resize")(x)
            seen.append(self.get_submodule(f"convs.{i}")(x))
        return seen

    def fused(self, seen: Sequence[Tensor], depths: Tensor | None = None) -> list[Tensor]:
        """The fused maps of what `shaped` gives."""
        fused: list[Tensor] = []
        for i, x in enumerate(reversed(seen)):
            sized = i + 1 < len(seen) and not self.spec.doubled
            size = seen[-2 - i].shape[2:] if sized else None
            fuse = self.get_submodule(f"fusion_stage.layers.{i}")
            both = (fused[-1], x) if fused else (x, None)
            fused.append(fuse(*both, size, depths))
        return fused


class _Residual(nn.Module):
    def __init__(self, spec: NeckSpec) -> None:
        for i in (1, 2):
            conv = nn.Conv2d(spec.fused, spec.fused, 3, padding=1, bias=spec.bias)
            put(self, f"convolution{i}", conv)
            if spec.norms:
                put(self, f"batch_norm{i}", nn.BatchNorm2d(spec.fused))
        self.norms = spec.norms

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for i in (1, 2):
            y = self.get_submodule(f"convolution{i}")(relu(y))
            y = self.get_submodule(f"batch_norm{i}")(y) if self.norms else y
        return y + x


class _Fusion(nn.Module):
    def __init__(self, spec: NeckSpec) -> None:
        self.projection = nn.Conv2d(spec.fused, spec.fused, 1)
        self.residual_layer1, self.residual_layer2 = _Residual(spec), _Residual(spec)
        for i in (1, 2, 3) if spec.prompted else ():
            conv = nn.Conv2d(1 if i == 1 else spec.fused, spec.fused, 3, padding=1)
            put(self, f"prompt_depth_layer.convolution{i}", conv)

    def forward(
        self,
        x: Tensor,
        other: Tensor | None,
        size: tuple[int, ...] | None,
        depths: Tensor | None = None,
    ) -> Tensor:
        if other is not None:
            if other.shape != x.shape:
                other = interpolate(other, size=x.shape[2:], mode="bilinear")
            x = x + self.residual_layer1(other)
        x = self.residual_layer2(x)
        if depths is not None:
            layer: Any = self.get_submodule("prompt_depth_layer")
            y = interpolate(depths, size=x.shape[2:], mode="bilinear")
            y = relu(layer.convolution2(relu(layer.convolution1(y))))
            x = x + layer.convolution3(y)
        target = size or (2 * x.shape[2], 2 * x.shape[3])
        out: Tensor = self.projection(
            interpolate(x, size=target, mode="bilinear", align_corners=True)
        )
        return out
