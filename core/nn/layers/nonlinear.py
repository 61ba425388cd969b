"""Activations, similarities and dropouts as layers; the functions say what they compute."""

from __future__ import annotations

from typing import Any

from rushlight.core.functional.network.activations import (
    celu,
    elu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    prelu,
    rrelu,
    selu,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
)
from rushlight.core.functional.network.distance import cosine_similarity, pairwise_distance
from rushlight.core.functional.network.dropout import (
    alpha_dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from rushlight.core.nn.init import constant_
from rushlight.core.nn.layers.fixed import Fixed
from rushlight.core.nn.module import Kind, Module, Place
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.norm import log_softmax
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "AlphaDropout", "CELU", "CosineSimilarity", "Dropout1d", "Dropout2d", "Dropout3d", "ELU",
    "FeatureAlphaDropout", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "PairwiseDistance", "RReLU", "ReLU6", "SELU",
    "Softmin", "Softplus", "Softshrink", "Softsign", "Tanhshrink", "Threshold",
]  # fmt: skip


class LeakyReLU(Fixed):
    """x, and negative_slope * x below zero."""

    function = staticmethod(leaky_relu)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self._fix(negative_slope=negative_slope, inplace=inplace)


class RReLU(Module):
    """`LeakyReLU` with random slopes in training.

    Slopes below zero are drawn from `lower` to `upper`; in evaluation they are their mean (Xu
    et al., 2015). `inplace` writes into the input. A call raises ValueError for a
    lower above upper.
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same."""
        return rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The bounds."""
        rest = ", inplace=True" if self.inplace else ""
        return f"lower={self.lower}, upper={self.upper}{rest}"


class ELU(Fixed):
    """Exponential linear units (Clevert et al., 2016)."""

    function = staticmethod(elu)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._fix(alpha=alpha, inplace=inplace)


class SELU(Fixed):
    """Scaled exponential linear units (Klambauer et al., 2017)."""

    function = staticmethod(selu)

    def __init__(self, inplace: bool = False) -> None:
        self._fix(inplace=inplace)


class CELU(Fixed):
    """Continuously differentiable ELU (Barron, 2017)."""

    function = staticmethod(celu)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._fix(alpha=alpha, inplace=inplace)


class Hardtanh(Fixed):
    """x limited to [min_val, max_val].

    `inplace` writes into the input. `min_value` and `max_value` are torch's old names of the
    bounds. The call raises ValueError for bounds in the wrong order.
    """

    function = staticmethod(hardtanh)

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        self._fix(min_val=min_val, max_val=max_val, inplace=inplace)


class ReLU6(Hardtanh):
    """x limited to [0, 6]."""

    _unshown = ("min_val", "max_val")

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Hardsigmoid(Fixed):
    """(x + 3) / 6 limited to [0, 1]."""

    function, _unshown = staticmethod(hardsigmoid), ("inplace",)

    def __init__(self, inplace: bool = False) -> None:
        self._fix(inplace=inplace)


class Hardswish(Fixed):
    """x times `Hardsigmoid` (Howard et al., 2019)."""

    function, _unshown = staticmethod(hardswish), ("inplace",)

    def __init__(self, inplace: bool = False) -> None:
        self._fix(inplace=inplace)


class Softplus(Fixed):
    """log(1 + exp(beta x)) / beta."""

    function = staticmethod(softplus)

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self._fix(beta=beta, threshold=threshold)


class LogSigmoid(Fixed):
    """log(sigmoid(x))."""

    function = staticmethod(logsigmoid)


class Mish(Fixed):
    """x tanh(softplus(x)) (Misra, 2020)."""

    function = staticmethod(mish)

    def __init__(self, inplace: bool = False) -> None:
        self._fix(inplace=inplace)


class Softsign(Fixed):
    """x / (1 + |x|)."""

    function = staticmethod(softsign)


class Tanhshrink(Fixed):
    """x - tanh(x)."""

    function = staticmethod(tanhshrink)


class Softshrink(Fixed):
    """x moved by lambd towards zero."""

    function = staticmethod(softshrink)

    def __init__(self, lambd: float = 0.5) -> None:
        self._fix(lambd=lambd)

    def extra_repr(self) -> str:
        """lambd."""
        return str(vars(self)["lambd"])


class Hardshrink(Softshrink):
    """x, and zero where |x| <= lambd."""

    function = staticmethod(hardshrink)


class Threshold(Fixed):
    """x where it is above the threshold, else `value`.

    `threshold` and `value` are numbers; `inplace` writes into the input. A call raises
    RuntimeError if that input is a leaf that needs a gradient.
    """

    function = staticmethod(threshold)

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self._fix(threshold=threshold, value=value, inplace=inplace)


class Softmin(Fixed):
    """softmax of -x along `dim`."""

    function = staticmethod(softmin)

    def __init__(self, dim: int | None = None) -> None:
        self._fix(dim=dim)


class LogSoftmax(Fixed):
    """log of softmax along `dim`."""

    function = staticmethod(log_softmax)

    def __init__(self, dim: int | None = None) -> None:
        self._fix(dim=dim)


class GLU(Fixed):
    """a * sigmoid(b) of the halves of `dim` (Dauphin et al., 2017)."""

    function = staticmethod(glu)

    def __init__(self, dim: int = -1) -> None:
        self._fix(dim=dim)


class CosineSimilarity(Fixed):
    """The cosine of the angle between vectors along `dim`."""

    function, _unshown = staticmethod(cosine_similarity), ("dim", "eps")

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self._fix(dim=dim, eps=eps)


class PairwiseDistance(Fixed):
    """The p-norm of the difference along the last dim.

    `p` is the norm's order, `eps` is added to the differences, `keepdim` leaves the dim with
    size 1. The call raises ShapeError for shapes that do not broadcast.
    """

    function, _unshown = staticmethod(pairwise_distance), ("p", "eps", "keepdim")

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self._fix(p=p, eps=eps, keepdim=keepdim)
        self.norm = p


class PReLU(Module):
    """x, and a learned slope times x below zero: one slope, or one per channel (dim 1).

    `num_parameters` is 1 or the count of channels, `init` the first slope (He et al., 2015).
    `device` and `dtype` are those of the parameters. The call raises ValueError where the count
    is another.
    """

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        self.num_parameters, self.init = num_parameters, init
        self.weight = parameter(num_parameters)
        self._fill(device, dtype)

    def reset_parameters(self) -> None:
        """Every slope is `init`."""
        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same."""
        return prelu(input, self.weight)

    def extra_repr(self) -> str:
        """How many slopes there are."""
        return f"num_parameters={self.num_parameters}"


class _Dropping(Module):
    function: Any

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p is {p}; it must be from 0 to 1")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape -> the same; in eval the input itself."""
        out: Tensor = self.function(input, self.p, self.training, self.inplace)
        return out

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(_Dropping):
    """Whole channels set to zero in training, the others divided by 1 - p."""

    function = staticmethod(dropout1d)


class Dropout2d(_Dropping):
    """Whole channels set to zero in training, the others divided by 1 - p."""

    function = staticmethod(dropout2d)


class Dropout3d(_Dropping):
    """Whole channels set to zero in training, the others divided by 1 - p."""

    function = staticmethod(dropout3d)


class AlphaDropout(_Dropping):
    """Dropout that keeps the mean and variance of SELU's outputs (Klambauer et al., 2017)."""

    function = staticmethod(alpha_dropout)


class FeatureAlphaDropout(_Dropping):
    """`AlphaDropout` of whole channels."""

    function = staticmethod(feature_alpha_dropout)
