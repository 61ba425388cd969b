"""Fourier transforms under the names of torch.fft, on cpu; all of them are one op.

norm: "backward" (the default: an inverse is divided by n), "forward" (the other way is), "ortho"
(both by the root of n). float32 gives complex64, float64 complex128, integers complex64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import DType, complex_of
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.complex import real
from rushlight.core.functional.shape import roll
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.complex import FFT
from rushlight.core.ops.creation import arange
from rushlight.core.ops.declare import fft as declared
from rushlight.core.ops.join import CAT
from rushlight.core.ops.movement import narrow, pad
from rushlight.core.ops.unary import turned

if TYPE_CHECKING:
    from rushlight.core.backends import Device
    from rushlight.core.tensor.tensor import Tensor


Dims = Sequence[int] | None


def _scaled(name: str, x: Tensor, norm: str | None, count: int, forward: bool) -> Tensor:
    norm = norm or "backward"
    if norm not in ("forward", "backward", "ortho"):
        raise ValueError(f'{name}: norm is {norm!r}; supported: "forward", "backward", "ortho"')
    if norm == "ortho":
        return x * (1 / math.sqrt(count))
    return x * (1 / count) if (norm == "forward") is forward else x


def _complex(name: str, x: Tensor) -> Tensor:
    if x.dtype.is_floating_point and x.dtype.itemsize < 4:
        raise TypeMismatch(f"{name}: {x.dtype.name} is not supported; use .float()")
    return x.to(complex_of(x.dtype))


def _real(name: str, x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        raise TypeMismatch(f"{name}: x is {x.dtype.name}; it must be real")
    return _complex(name, x)


def _sized(name: str, x: Tensor, n: int, d: int) -> Tensor:
    """The first n elements along a dim, zeros after them where there are fewer."""
    if n < 1:
        raise ShapeError(f"{name}: {n} elements along dim {d} of {x.shape}; at least 1 is needed")
    if n <= x.shape[d]:
        return narrow(x, d, 0, n)
    widths = [0, 0] * (x.ndim - 1 - d) + [0, n - x.shape[d]]
    return pad(x, tuple(widths))


def _dims(name: str, x: Tensor, s: Dims, dim: Any) -> tuple[list[int], list[int | None]]:
    """The dims to transform, and their sizes where they are given."""
    if isinstance(dim, int):
        dim = [dim]
    if dim is None:
        count = x.ndim if s is None else len(s)
        if count > x.ndim:
            raise ShapeError(f"{name}: s has {count} sizes, x is {x.shape}")
        dims = list(range(x.ndim - count, x.ndim))
    else:
        dims = [normalize_dim(name, d, x.shape) for d in dim]
    if len(set(dims)) != len(dims) or (s is not None and len(s) != len(dims)):
        raise ShapeError(
            f"{name}: dim {dim} and s {s} of {x.shape}: dims must differ, and there "
            "is one size for each"
        )
    return dims, [None if n == -1 else n for n in s] if s is not None else [None] * len(dims)


def _whole(
    name: str, x: Tensor, s: Dims, dim: Any, norm: str | None, forward: bool, half: bool = False
) -> Tensor:
    """From complex to complex; of the last dim only the first half, if wanted."""
    dims, sizes = _dims(name, x, s, dim)
    if half and not dims:
        raise ShapeError(f"{name}: a dim is needed")
    for d, n in zip(dims, sizes, strict=True):
        x = _sized(name, x, x.shape[d] if n is None else n, d)
    count = math.prod(x.shape[d] for d in dims)
    out = FFT(x, dim=tuple(dims), forward=forward) if dims else x
    if half:
        out = narrow(out, dims[-1], 0, out.shape[dims[-1]] // 2 + 1)
    return _scaled(name, out, norm, count, forward)


def _to_real(name: str, x: Tensor, s: Dims, dim: Any, norm: str | None, forward: bool) -> Tensor:
    """From the first half of a spectrum to real numbers."""
    dims, sizes = _dims(name, x, s, dim)
    if not dims:
        raise ShapeError(f"{name}: a dim is needed")
    last = dims[-1]
    n = 2 * (x.shape[last] - 1) if sizes[-1] is None else sizes[-1]
    if n < 1:
        raise ShapeError(f"{name}: {n} elements along dim {last}; at least 1 is needed")
    for d, size in zip(dims[:-1], sizes[:-1], strict=True):
        x = _sized(name, x, x.shape[d] if size is None else size, d)
    x = _sized(name, x, n // 2 + 1, last)
    if len(dims) > 1:
        x = FFT(x, dim=tuple(dims[:-1]), forward=forward)
    x = turned(x) if forward else x
    mirrored = turned(narrow(x, last, 1, n - n // 2 - 1).flip(last))
    out = real(FFT(CAT(x, mirrored, dim=last), dim=(last,), forward=False))
    count = n * math.prod(x.shape[d] for d in dims[:-1])
    return _scaled(name, out, norm, count, forward)


def _to_half(name: str, x: Tensor, s: Dims, dim: Any, norm: str | None) -> Tensor:
    """`ihfftn`: the conjugate of half the spectrum, then inverse transforms of the other dims."""
    return turned(_whole(name, x, s, dim, _OTHER.get(norm or "backward", norm), True, True))


_OTHER = {"backward": "forward", "forward": "backward"}


@declared()
@casts(cpu="float32")
def fft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The transform along `dim`, cut or filled with zeros to n elements.

    `x` is real or complex. `norm`: "backward" (default), "forward" or "ortho": which way, or both
    by the root, divides by n. Only on cpu. Raises ValueError for another norm or no elements,
    IndexError for a dim that there is not.
    """
    return _whole("fft.fft", _complex("fft.fft", x), None if n is None else (n,), dim, norm, True)


@declared()
@casts(cpu="float32")
def ifft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`.

    `x`, `n`, `dim` and `norm` as there. Only on cpu. Raises ValueError for another norm or no
    elements, IndexError for a dim that there is not.
    """
    s = None if n is None else (n,)
    return _whole("fft.ifft", _complex("fft.ifft", x), s, dim, norm, False)


@declared()
@casts(cpu="float32")
def rfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 elements of `fft` of real numbers, which say the others.

    `x` is real, cut or filled with zeros to n elements along `dim`. `norm` as in fft. Only on cpu.
    Raises ValueError for another norm or no elements, IndexError for a dim that there is not.
    """
    return rfftn(x, None if n is None else (n,), (dim,), norm)


@declared()
@casts(cpu="float32")
def irfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: n real numbers, by default 2 * (m - 1) of m.

    `x` is the half along `dim`; `norm` as in fft. Only on cpu. Raises ValueError for another norm
    or no elements, IndexError for a dim that there is not.
    """
    return irfftn(x, None if n is None else (n,), (dim,), norm)


@declared()
@casts(cpu="float32")
def hfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """`fft` of numbers that mirror their conjugates, of which x is the first half: real.

    n numbers along `dim`, 2 * (m - 1) of m unless set; `norm` as in fft. Only on cpu. Raises
    ValueError for another norm or no elements, IndexError for a dim that there is not.
    """
    return hfftn(x, None if n is None else (n,), (dim,), norm)


@declared()
@casts(cpu="float32")
def ihfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: the first half of the inverse transform of real numbers.

    `x` is real, of n elements along `dim`; `norm` as in fft. Only on cpu. Raises ValueError for
    another norm or no elements, IndexError for a dim that there is not.
    """
    return ihfftn(x, None if n is None else (n,), (dim,), norm)


@declared()
@casts(cpu="float32")
def fftn(x: Tensor, s: Dims = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """`fft` along several dims (all, or the last as many as s has sizes).

    `x` is real or complex, `dim` are the dims, `norm` as in fft. Only on cpu. Raises ValueError for
    another norm or no elements, IndexError for a dim that there is not.
    """
    return _whole("fft.fftn", _complex("fft.fftn", x), s, dim, norm, True)


@declared()
@casts(cpu="float32")
def ifftn(x: Tensor, s: Dims = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`.

    `x`, `s`, `dim` and `norm` as there. Only on cpu. Raises ValueError for another norm or no
    elements, IndexError for a dim that there is not.
    """
    return _whole("fft.ifftn", _complex("fft.ifftn", x), s, dim, norm, False)


@declared()
@casts(cpu="float32")
def rfftn(x: Tensor, s: Dims = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """`fftn` of real numbers, of the last dim the first half.

    `x` is real; `s` are the sizes along dim, `norm` as in fft. Only on cpu. Raises ValueError for
    another norm or no elements, IndexError for a dim that there is not.
    """
    return _whole("fft.rfftn", _real("fft.rfftn", x), s, dim, norm, True, True)


@declared()
@casts(cpu="float32")
def irfftn(x: Tensor, s: Dims = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`: real.

    `x` is the half; `s` are the sizes along `dim`, `norm` as in fft. Only on cpu. Raises ValueError
    for another norm or no elements, IndexError for a dim that there is not.
    """
    return _to_real("fft.irfftn", _complex("fft.irfftn", x), s, dim, norm, False)


@declared()
def hfftn(x: Tensor, s: Dims = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """`hfft` along the last of several dims, `fft` along the others: real.

    `x` is the half; `s` are the sizes along `dim`, `norm` as in fft. Only on cpu. Raises ValueError
    for another norm or no elements, IndexError for a dim that there is not.
    """
    return _to_real("fft.hfftn", _complex("fft.hfftn", x), s, dim, norm, True)


@declared()
def ihfftn(x: Tensor, s: Dims = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`.

    `x` is real; `s` are the sizes along `dim`, `norm` as in fft. Only on cpu. Raises ValueError for
    another norm or no elements, IndexError for a dim that there is not.
    """
    return _to_half("fft.ihfftn", _real("fft.ihfftn", x), s, dim, norm)


@declared()
@casts(cpu="float32")
def fft2(x: Tensor, s: Dims = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`fftn` along two dims.

    `x`, `s`, `dim` and `norm` as there. Only on cpu. Raises ValueError for another norm or no
    elements, IndexError for a dim that there is not.
    """
    return fftn(x, s, dim, norm)


@declared()
@casts(cpu="float32")
def ifft2(x: Tensor, s: Dims = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`ifftn` along two dims.

    `x`, `s`, `dim` and `norm` as there. Only on cpu. Raises ValueError for another norm or no
    elements, IndexError for a dim that there is not.
    """
    return ifftn(x, s, dim, norm)


@declared()
@casts(cpu="float32")
def rfft2(x: Tensor, s: Dims = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`rfftn` along two dims.

    `x`, `s`, `dim` and `norm` as there. Only on cpu. Raises ValueError for another norm or no
    elements, IndexError for a dim that there is not.
    """
    return rfftn(x, s, dim, norm)


@declared()
@casts(cpu="float32")
def irfft2(x: Tensor, s: Dims = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`irfftn` along two dims.

    `x`, `s`, `dim` and `norm` as there. Only on cpu. Raises ValueError for another norm or no
    elements, IndexError for a dim that there is not.
    """
    return irfftn(x, s, dim, norm)


@declared()
def hfft2(x: Tensor, s: Dims = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`hfftn` along two dims.

    `x`, `s`, `dim` and `norm` as there. Only on cpu. Raises ValueError for another norm or no
    elements, IndexError for a dim that there is not.
    """
    return hfftn(x, s, dim, norm)


@declared()
def ihfft2(x: Tensor, s: Dims = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """`ihfftn` along two dims.

    `x`, `s`, `dim` and `norm` as there. Only on cpu. Raises ValueError for another norm or no
    elements, IndexError for a dim that there is not.
    """
    return ihfftn(x, s, dim, norm)


@declared()
def fftfreq(
    n: int, d: float = 1.0, *, dtype: DType | str | None = None, device: Device | str | None = None
) -> Tensor:
    """The frequencies of `fft` of n elements with distance d: 0, 1, ..., -1 over n * d.

    `dtype` (floating) and `device` are the result's. Raises ValueError for a negative n.
    """
    steps = arange(n, device=device)
    return (steps - n * (steps >= (n + 1) // 2).long()).to(dtype) * _per(n, d)


@declared()
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: DType | str | None = None, device: Device | str | None = None
) -> Tensor:
    """The frequencies of `rfft` of n elements: 0 to n // 2 over n * d.

    `dtype` (floating) and `device` are the result's. Raises ValueError for a negative n.
    """
    return arange(n // 2 + 1, device=device).to(dtype) * _per(n, d)


def _per(n: int, d: float) -> float:
    """1 / (n d), infinite where that is zero."""
    return 1 / (n * d) if n * d else math.inf


def _rolled(name: str, x: Tensor, dim: Any, back: bool) -> Tensor:
    turned_dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [normalize_dim(name, d, x.shape) for d in turned_dims]
    by = [(x.shape[d] + back) // 2 for d in dims]
    return roll(x, by, dims) if dims else x


@declared()
def fftshift(x: Tensor, dim: Any = None) -> Tensor:
    """x with frequency 0 moved to the middle of `dim` (all)."""
    return _rolled("fft.fftshift", x, dim, False)


@declared()
def ifftshift(x: Tensor, dim: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _rolled("fft.ifftshift", x, dim, True)
