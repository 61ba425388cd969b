"""The linear layer."""

from __future__ import annotations

import math

from rushlight.core import ops
from rushlight.core.functional.network.linear import bilinear
from rushlight.core.nn import init
from rushlight.core.nn.module import Kind, Module, Place
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor


class _Affine(Module):
    bias: Tensor | None

    def extra_repr(self) -> str:
        """Sizes, and whether the layer has a bias."""
        sizes = [f"{n}={v}" for n, v in vars(self).items() if n.endswith("_features")]
        return ", ".join([*sizes, f"bias={self.bias is not None}"])


class Linear(_Affine):
    """x @ weight.T + bias: (..., in_features) -> (..., out_features).

    weight is (out_features, in_features) and may be of any storage dtype.

    `bias`: whether one is learned. `device` and `dtype` are those of the parameters. A call
    raises ShapeError for an input of other features.
    """

    _blocks = "matrix"

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = parameter(out_features, in_features)
        self.bias = parameter(out_features) if bias else None
        self._fill(device, dtype)

    def reset_parameters(self) -> None:
        """Uniform in +-1 / sqrt(in_features)."""
        init.default_(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return ops.linear(input, self.weight, self.bias)


class Bilinear(_Affine):
    """x1 W_k x2 + b_k for each output k.

    (..., in1_features) and (..., in2_features) -> (..., out_features). `bias`: whether one is
    learned. `device` and `dtype` are those of the parameters. A call raises ShapeError for
    inputs of other features.
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        self.weight = parameter(out_features, in1_features, in2_features)
        self.bias = parameter(out_features) if bias else None
        self._fill(device, dtype)

    def reset_parameters(self) -> None:
        """Uniform in +-1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        for p in (self.weight, self.bias):
            if p is not None:
                init.uniform_(p, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """(..., in1_features) and (..., in2_features) -> (..., out_features)."""
        return bilinear(input1, input2, self.weight, self.bias)
