"""Norms: RMS and layer norm by a description, with an offset added to the stored weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor


@dataclass(frozen=True)
class NormSpec:
    """kind: "affine" only scales and shifts. offset: added to the stored weight. bias: for "layer"
    only.

    weight: false for a norm without parameters. gate: of "rms", the width between two matrices that
    make gates of the result, which they multiply.
    """

    kind: Literal["rms", "layer", "affine"] = "rms"
    eps: float = 1e-6
    offset: float = 0.0
    bias: bool = True
    weight: bool = True
    gate: int | None = None

    def __post_init__(self) -> None:
        if self.gate is not None and self.gate < 1:
            raise FormatError(f"config.json: gated_norm_rank is {self.gate}; it must be positive")


class OffsetRMSNorm(nn.RMSNorm):
    """RMS norm whose checkpoint stores the weight minus `offset`."""

    offset = 1.0

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> the same."""
        assert self.weight is not None and self.eps is not None
        # A captured step computes the sum once.
        return ops.rms_norm(x, self.normalized_shape, self.weight + self.offset, self.eps)


class OffsetLayerNorm(nn.LayerNorm):
    """Layer norm whose checkpoint stores the weight minus `offset`."""

    offset = 1.0

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> the same."""
        assert self.weight is not None
        weight = self.weight + self.offset
        return ops.layer_norm(x, self.normalized_shape, weight, self.bias, self.eps)


class Affine(nn.Module):
    """x * weight + bias, which stands where other models have a norm."""

    def __init__(self, dim: int) -> None:
        self.weight, self.bias = parameter(dim), parameter(dim)
        self._fill()

    def reset_parameters(self) -> None:
        """Ones and zeros."""
        init.ones_(self.weight)
        init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> the same."""
        return x * self.weight + self.bias


class GatedNorm(nn.Module):
    """RMS norm y, multiplied by the sigmoid of a narrow MLP of y (A.X K2; SK Telecom, 2026)."""

    def __init__(self, dim: int, eps: float, inside: int) -> None:
        self.norm = nn.RMSNorm(dim, eps=eps)
        self.W_down = nn.Linear(dim, inside, bias=False)
        self.W_up = nn.Linear(inside, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(..., dim) -> the same."""
        y: Tensor = self.norm(x)
        gates: Tensor = self.W_up(ops.silu(self.W_down(y)))
        return y * gates.sigmoid()


class HeadNorms(nn.Module):
    """A layer norm of each head, with a weight of its own: weight (heads, dim), and such a bias."""

    def __init__(self, heads: int, dim: int, eps: float, bias: bool = False) -> None:
        self.weight, self.eps = parameter(heads, dim), eps
        self.bias = parameter(heads, dim) if bias else None
        self._fill()

    def reset_parameters(self) -> None:
        """Ones, and zeros."""
        init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, heads, length, dim) -> the same."""
        x = ops.layer_norm(x, (x.shape[-1],), eps=self.eps) * self.weight.unsqueeze(1)
        return x if self.bias is None else x + self.bias.unsqueeze(1)


def make_norm(dim: int, spec: NormSpec) -> nn.Module:
    """The norm over the last `dim` features that `spec` describes."""
    norm: nn.RMSNorm | nn.LayerNorm
    if spec.kind == "affine":
        return Affine(dim)
    if spec.gate is not None:
        return GatedNorm(dim, spec.eps, spec.gate)
    if spec.kind == "rms":
        of = OffsetRMSNorm if spec.offset else nn.RMSNorm
        norm = of(dim, eps=spec.eps, elementwise_affine=spec.weight)
    else:
        kind = OffsetLayerNorm if spec.offset else nn.LayerNorm
        norm = kind(dim, eps=spec.eps, elementwise_affine=spec.weight, bias=spec.bias)
    if isinstance(norm, (OffsetRMSNorm, OffsetLayerNorm)):
        norm.offset = spec.offset
    return norm
