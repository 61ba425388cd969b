"""Elementwise functions: torch's, positional, promoting as the standard does."""

from __future__ import annotations

from typing import Any

from rushlight.core.array_api.common import F, Function, promoted
from rushlight.core.array_api.complex import COMPLEX
from rushlight.core.tensor.tensor import Tensor

_UNARY = (
    "abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf "
    "isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit "
    "sin sinh square sqrt tan tanh trunc bitwise_invert=bitwise_not"
)
_BINARY = (
    "add atan2 bitwise_and bitwise_left_shift=bitwise_left_shift bitwise_or bitwise_right_shift "
    "bitwise_xor copysign divide equal=eq floor_divide greater greater_equal hypot less less_equal "
    "logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow "
    "remainder subtract"
)
_WHOLE = ("ceil", "floor", "round", "trunc")  # nothing to do for integers


def _unary(name: str, fn: Function) -> Function:
    def call(x: Tensor, /) -> Any:
        if name in _WHOLE and x.dtype.kind in "ui":
            return x.clone()
        return COMPLEX.get(name, fn)(x) if x.dtype.kind == "c" else fn(x)

    return call


def _binary(name: str, fn: Function) -> Function:
    def call(x1: Any, x2: Any, /) -> Any:
        a, b = promoted(x1, x2)
        return (COMPLEX.get(name, fn) if a.dtype.kind == "c" else fn)(a, b)

    return call


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Any:
    """The elements within bounds, which are numbers or tensors; of x's dtype."""
    low, high = (b.to(x.dtype) if isinstance(b, Tensor) else b for b in (min, max))
    return x.clone() if low is high is None else F["clip"](x, low, high).to(x.dtype)


for _make, _names in ((_unary, _UNARY), (_binary, _BINARY)):
    for _name in _names.split():
        _name, _, _torch = _name.partition("=")
        _fn = globals()[_name] = _make(_name, F[_torch or _name])
        _fn.__name__ = _fn.__qualname__ = _name
        _fn.__doc__ = F[_torch or _name].__doc__

__all__ = ["clip", *(n.partition("=")[0] for n in f"{_UNARY} {_BINARY}".split())]
