"""A decoder of a transformer's states into one value for every pixel (Ranftl et al., 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.core import nn
from rushlight.core.functional.network.folding import interpolate
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put


@dataclass(frozen=True)
class NeckSpec:
    """The neck of DPT: widths of the states as maps, the factors of their sizes, and its own."""

    inputs: int
    widths: Sequence[int]
    factors: Sequence[float]
    fused: int


class Neck(nn.Module):
    """Maps of several layers, (batch, inputs, height, width) each -> one, fused from the last."""

    def __init__(self, spec: NeckSpec) -> None:
        for i, (width, factor) in enumerate(zip(spec.widths, spec.factors, strict=True)):
            base = f"reassemble_stage.layers.{i}"
            put(self, f"{base}.projection", nn.Conv2d(spec.inputs, width, 1))
            if factor > 1:
                step = int(factor)
                put(self, f"{base}.resize", nn.ConvTranspose2d(width, width, step, step))
            elif factor < 1:
                put(self, f"{base}.resize", nn.Conv2d(width, width, 3, int(1 / factor), 1))
            put(self, f"convs.{i}", nn.Conv2d(width, spec.fused, 3, padding=1, bias=False))
            put(self, f"fusion_stage.layers.{i}", _Fusion(spec.fused))
        self.factors = tuple(spec.factors)

    def forward(self, maps: Sequence[Tensor]) -> list[Tensor]:
        """The fused maps, the last of which is the finest."""
        seen = []
        for i, x in enumerate(maps):
            layer = self.get_submodule(f"reassemble_stage.layers.{i}")
            x = layer.get_submodule("projection")(x)
            if self.factors[i] != 1:
                x = layer.get_submodule("resize")(x)
            seen.append(self.get_submodule(f"convs.{i}")(x))
        found: list[Tensor] = []
        for i, x in enumerate(reversed(seen)):
            size = seen[-2 - i].shape[2:] if i + 1 < len(seen) else None
            fuse = self.get_submodule(f"fusion_stage.layers.{i}")
            found.append(fuse(x, None, size) if not found else fuse(found[-1], x, size))
        return found


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        self.convolution1 = nn.Conv2d(width, width, 3, padding=1)
        self.convolution2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.convolution2(relu(self.convolution1(relu(x)))) + x
        return found


class _Fusion(nn.Module):
    def __init__(self, width: int) -> None:
        self.projection = nn.Conv2d(width, width, 1)
        self.residual_layer1, self.residual_layer2 = _Residual(width), _Residual(width)

    def forward(self, x: Tensor, other: Tensor | None, size: tuple[int, ...] | None) -> Tensor:
        if other is not None:
            if other.shape != x.shape:
                other = interpolate(other, size=x.shape[2:], mode="bilinear")
            x = x + self.residual_layer1(other)
        x = self.residual_layer2(x)
        target = size or (2 * x.shape[2], 2 * x.shape[3])
        found: Tensor = self.projection(
            interpolate(x, size=target, mode="bilinear", align_corners=True)
        )
        return found
