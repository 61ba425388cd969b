"""Parts of floating-point numbers and neighbours, norms of slices, parts of flat indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rushlight.core.basis.dtype import int32, int64
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.basis.limits import finfo
from rushlight.core.ops.binary import floor_divide, mul, remainder, where
from rushlight.core.ops.common import operands
from rushlight.core.ops.creation import full
from rushlight.core.ops.declare import also, method, public
from rushlight.core.ops.indexing import nonzero
from rushlight.core.ops.join import cat
from rushlight.core.ops.movement import pad
from rushlight.core.ops.reduce import widened
from rushlight.core.ops.unary import abs, floor, isfinite, isnan, log2, turned

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


class Frexp(NamedTuple):
    """x = mantissa * 2 ** exponent, with the mantissa in [0.5, 1)."""

    mantissa: Tensor
    exponent: Tensor


def _power(exponent: Tensor) -> Tensor:
    """2 ** exponent as two factors, neither of which overflows."""
    half = floor(exponent / 2)
    return mul(2.0**half, 2.0 ** (exponent - half))


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    a = abs(x.detach())
    odd = (a == 0) | ~isfinite(a)
    e = floor(log2(where(odd, 1.0, a).to(x.dtype))) + 1
    half = floor(e / 2)
    scale = (2.0**-half, 2.0 ** (half - e))
    share = where(odd, 0.5, a * scale[0] * scale[1])  # the logarithm may be off by one
    e = where(odd, 0.0, e + (share >= 1).to(x.dtype) - (share < 0.5).to(x.dtype))
    return odd, e.to(x.dtype)


@public
@method()
def frexp(x: Tensor) -> Frexp:
    """(mantissa, exponent), the exponent int32; 0, inf and nan are mantissas with exponent 0."""
    if not x.dtype.is_floating_point:
        raise TypeMismatch(f"frexp: {x.dtype.name} is not a floating dtype")
    wide = widened(x)
    _, e = _parts(wide)
    half = floor(e / 2)
    return Frexp((wide * 2.0**-half * 2.0 ** (half - e)).to(x.dtype), e.to(int32))


@public
@method()
def nextafter(x: Tensor, other: Tensor) -> Tensor:
    """The next number of the dtype from x towards `other`; float32 and float64."""
    a, b = operands("nextafter", x, other)
    if a.dtype.name not in ("float32", "float64"):
        raise TypeMismatch(
            f"nextafter: {a.dtype.name} is not supported; supported: float32, float64"
        )
    info = finfo(a.dtype)
    digits = 53 if a.dtype.itemsize == 8 else 24
    low = math.frexp(info.tiny)[1]
    odd, e = _parts(a)
    away = (b > a) == (a > 0)
    power = abs(a) == 0.5 * _power(e)  # below a power of two the steps are half as long
    e = e - ((power & ~away) & (e > low)).to(a.dtype)
    e = where(e < low, low, e)
    half = floor((e - digits) / 2)
    # Its factors are exact, also where the step is the smallest number of all.
    step = (2.0**half) * 2.0 ** (e - digits - half)
    least = full((), info.tiny, dtype=a.dtype, device=a.device) * 2.0 ** (1 - digits)
    moved = where(b > a, a + step, a - step)
    moved = where(a == 0, where(b > 0, least, -least), moved)
    most = full((), info.max, dtype=a.dtype, device=a.device)
    edge = where(a > 0, most, -most)
    moved = where(odd & (a != 0), where(a == b, a, edge), moved)
    found = where(a == b, b, moved)
    return where(isnan(a) | isnan(b), math.nan, found).to(a.dtype)


@public
@method()
def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """x with each slice of `dim` whose p-norm is above `maxnorm` scaled down to it."""
    d = normalize_dim("renorm", dim, x.shape)
    if x.ndim < 2:
        raise ShapeError(f"renorm: x is {x.shape}; it must have at least 2 dims")
    size = widened(x).norm(p, [k for k in range(x.ndim) if k != d], True)
    scale = where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return (x * scale).to(x.dtype)


@public
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The index (int64) along each dim of `shape` of flat indices."""
    if indices.dtype.kind not in "ui":
        raise TypeMismatch(f"unravel_index: {indices.dtype.name} is not an integer dtype")
    found, indices = [], indices.to(int64)
    for n in reversed([shape] if isinstance(shape, int) else list(shape)):
        found.append(remainder(indices, n))
        indices = floor_divide(indices, n)
    return tuple(reversed(found))


@public
@method()
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """`nonzero` cut or filled with rows of `fill_value` to `size` rows."""
    rows = nonzero(x)[:size]
    fill = full((size - len(rows), x.ndim), fill_value, dtype=int64, device=x.device)
    return cat([rows, fill], 0) if len(fill) else rows


@public
def constant_pad_nd(x: Tensor, pad_: Sequence[int], value: float = 0) -> Tensor:
    """`nn.functional.pad` with a constant."""
    return pad(x, pad_, "constant", value).clone()


@public
@also("conj")
@method()
def conj_physical(x: Tensor) -> Tensor:
    """The complex conjugate, in new memory; x itself where it is real."""
    return turned(x)


@public
@also("resolve_neg")
@method()
def resolve_conj(x: Tensor) -> Tensor:
    """x itself: a conjugate is never put off."""
    return x


@public
@method()
def is_nonzero(x: Tensor) -> bool:
    """Whether the one element is not zero; reads it."""
    if x.numel() != 1:
        raise ShapeError(f"is_nonzero: x is {x.shape}; it must have one element")
    return bool(x.item())
