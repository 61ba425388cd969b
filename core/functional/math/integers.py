"""Functions of integers, elementwise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.basis.errors import TypeMismatch
from rushlight.core.ops.binary import floor_divide, remainder, where
from rushlight.core.ops.common import operands
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.unary import abs

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def gcd(x: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor of integers, by Euclid's steps; not negative."""
    a, b = (abs(v) for v in operands("gcd", x, other))
    if a.dtype.is_floating_point or a.dtype.name == "bool":
        raise TypeMismatch(f"gcd: {a.dtype.name} is not an integer dtype")
    # Each two steps halve the smaller number, so 1.45 steps per bit suffice.
    for _ in range(math.ceil(1.45 * 8 * a.dtype.itemsize) + 1):
        done = b == 0
        a, b = where(done, a, b), where(done, b, remainder(a, where(done, 1, b)))
    return a


@public
@method()
def lcm(x: Tensor, other: Tensor) -> Tensor:
    """The least common multiple of integers; 0 where one is 0."""
    a, b = operands("lcm", x, other)
    divisor = gcd(a, b)
    return abs(floor_divide(a, where(divisor == 0, 1, divisor)) * b)
