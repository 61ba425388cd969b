"""Complex numbers from their parts, parts of complex numbers, conjugates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.basis.errors import TypeMismatch
from rushlight.core.functional.joining import stack
from rushlight.core.functional.shape import broadcast_tensors
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import where
from rushlight.core.ops.complex import imag, view_as_complex, view_as_real
from rushlight.core.ops.declare import also, method, public
from rushlight.core.ops.unary import cos, isnan, sin, turned

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


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


@also("is_neg", "is_distributed")
@public
@method()
def is_conj(x: Tensor) -> bool:
    """False: no tensor is a lazy view of another's conjugate or negative."""
    return False


def _pair(name: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    if a.dtype is not b.dtype or a.dtype.name not in ("float32", "float64"):
        raise TypeMismatch(
            f"{name}: {a.dtype.name} and {b.dtype.name}; both must be float32, or both float64"
        )
    x, y = broadcast_tensors(a, b)
    return x, y


@public
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """real + i imag: complex64 of float32, complex128 of float64. Only on cpu."""
    return view_as_complex(stack(_pair("complex", real, imag), -1))


@public
@casts(cpu="float32")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """abs * exp(i angle): complex numbers from their size and direction. Only on cpu."""
    size, way = _pair("polar", abs, angle)
    return view_as_complex(stack([size * cos(way), size * sin(way)], -1))


@public
def real(x: Tensor) -> Tensor:
    """A view of the real parts; x itself where it is real."""
    return view_as_real(x).select(-1, 0) if x.dtype.is_complex else x


@public
@method()
def angle(x: Tensor) -> Tensor:
    """The direction of complex numbers, in (-pi, pi]; of real ones 0 or pi."""
    if x.dtype.is_complex:
        return imag(x).atan2(real(x))
    x = x if x.dtype.is_floating_point else x.float()
    return where(isnan(x), x, (x < 0).to(x.dtype) * math.pi)


@public
@method()
def is_complex(x: Tensor) -> bool:
    """Whether the dtype is complex64 or complex128."""
    return x.dtype.is_complex
