"""Polynomials, numbers as tensors, and a rule of integration for special functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.functional.creation import of_data

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """c0 + x (c1 + x (c2 + ...))."""
    out: Tensor = x * coefficients[-1] + (coefficients[-2] if coefficients[1:] else 0)
    for c in coefficients[-3::-1]:
        out = out * x + c
    return out


def numbers_like(x: Tensor, values: Sequence[float]) -> Tensor:
    """The numbers along a new last dim, in the dtype and on the device of x."""
    return of_data(list(values), dtype=x.dtype, device=x.device)


def half_line(step: float = 0.1, low: float = -3.5, high: float = 7.0) -> list[tuple[float, float]]:
    """Places and weights of the double exponential rule for integrals from 0 to infinity of
    functions that decay like exp(-w) (Takahasi and Mori, 1974)."""
    result = []
    for i in range(round((high - low) / step) + 1):
        t = low + i * step
        w = math.exp(t - math.exp(-t))
        result.append((w, step * w * (1 + math.exp(-t))))
    return result
