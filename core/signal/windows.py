"""Window functions, under the names of torch.signal.windows (Harris, 1978; Nuttall, 1981).

A window has M points (M,) in float32 or float64. sym: symmetric, for filters; otherwise one period,
for spectra. ValueError for a negative M, another dtype, and parameters out of range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import DType, as_dtype, float32, float64
from rushlight.core.functional import declared as f
from rushlight.core.ops.creation import arange
from rushlight.core.tensor.convert import tensor

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
           "general_hamming", "hamming", "hann", "kaiser", "nuttall"]  # fmt: skip


def _place(
    name: str,
    count: int,
    dtype: DType | str | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
) -> dict[str, Any]:
    """What the function that makes the points takes; ValueError for a wrong window."""
    resolved = as_dtype(dtype)
    if resolved not in (float32, float64):
        raise ValueError(f"{name}: dtype is {resolved.name}; supported: float32, float64")
    if layout is not None and "strided" not in str(layout):
        raise ValueError(f"{name}: layout is {layout}; supported: strided")
    if count < 0:
        raise ValueError(f"{name}: M is {count}; it must not be negative")
    return {"dtype": resolved, "device": device}


def _points(count: int, first: float, step: float, place: dict[str, Any]) -> Tensor:
    return f.linspace(first * step, (first + count - 1) * step, count, **place)


def _done(window: Tensor, options: dict[str, Any]) -> Tensor:
    return window.requires_grad_() if options.get("requires_grad") else window


def _middle(count: int, sym: bool) -> float:
    return (count if not sym and count > 1 else count - 1) / 2


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Tensor:
    """exp(-|n - center| / tau); `center`, of windows that are not symmetric, is the middle.

    `M` numbers; without `sym` the window is one period, M + 1 long, less its end. `options`: dtype
    (float32 or float64), device, requires_grad. Raises ValueError for a negative M, and for another
    dtype. ValueError also for a tau that is not positive, and a center of a symmetric window.
    """
    place = _place("exponential", M, **options)
    if tau <= 0 or (sym and center is not None):
        raise ValueError(
            f"exponential: tau is {tau}, center {center}; tau must be positive, a "
            "symmetric window has no center"
        )
    middle = _middle(M, sym) if center is None else center
    return _done(f.exp(-f.abs(_points(M, -middle, 1 / tau, place))), options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """sin(pi (n + 1/2) / M): half a wave.

    Without `sym` it is one period. `options`: dtype (float32 or float64), device, requires_grad.
    Raises ValueError for a negative M, and for another dtype.
    """
    place = _place("cosine", M, **options)
    step = math.pi / max(M + 1 if not sym and M > 1 else M, 1)
    return _done(f.sin(_points(M, 0.5, step, place)), options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """exp(-(n / std)^2 / 2), from the middle.

    `M` numbers; without `sym` the window is one period, M + 1 long, less its end. `options`: dtype
    (float32 or float64), device, requires_grad. Raises ValueError for a negative M, and for another
    dtype. ValueError also for a std that is not positive.
    """
    place = _place("gaussian", M, **options)
    if std <= 0:
        raise ValueError(f"gaussian: std is {std}; it must be positive")
    k = _points(M, -_middle(M, sym), 1 / (std * math.sqrt(2)), place)
    return _done(f.exp(-k.square()), options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """I_0(beta sqrt(1 - x^2)) / I_0(beta) for x from -1 to 1 (Kaiser, 1974).

    `M` numbers; without `sym` the window is one period, M + 1 long, less its end. `options`: dtype
    (float32 or float64), device, requires_grad. Raises ValueError for a negative M, and for another
    dtype. ValueError also for a negative beta.
    """
    place = _place("kaiser", M, **options)
    if beta < 0:
        raise ValueError(f"kaiser: beta is {beta}; it must not be negative")
    if M < 2:
        return _done(f.ones(M, **place), options)
    step = 2 * beta / (M - 1 if sym else M)
    k = f.linspace(-beta, min(beta, -beta + (M - 1) * step), M, **place)
    return _done(f.i0(f.sqrt(beta * beta - k.square())) / f.i0(tensor(beta, **place)), options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """1 - |x| for x from -1 to 1: a triangle.

    `M` numbers; without `sym` the window is one period, M + 1 long, less its end. `options`: dtype
    (float32 or float64), device, requires_grad. Raises ValueError for a negative M, and for another
    dtype.
    """
    place = _place("bartlett", M, **options)
    if M < 2:
        return _done(f.ones(M, **place), options)
    step = 2 / (M - 1 if sym else M)
    return _done(1 - f.abs(f.linspace(-1, -1 + (M - 1) * step, M, **place)), options)


def _cosines(name: str, count: int, a: Any, sym: bool, options: dict[str, Any]) -> Tensor:
    place = _place(name, count, **options)
    if not isinstance(a, Iterable):
        raise TypeError(f"{name}: a is {a!r}; it must be the weights of cosines")
    weights = [w if i % 2 == 0 else -w for i, w in enumerate(a)]
    if not weights:
        raise ValueError(f"{name}: a has no weights")
    if count < 2:
        return _done(f.ones(count, **place), options)
    k = _points(count, 0, 2 * math.pi / (count - 1 if sym else count), place)
    waves = f.cos(arange(len(weights), **place).unsqueeze(-1) * k)
    return _done((tensor(weights, **place).unsqueeze(-1) * waves).sum(0), options)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """The sum over i of (-1)^i a_i cos(i x) for x from 0 to 2 pi.

    `a` are the weights. `M` numbers; without `sym` the window is one period, M + 1 long, less its
    end. `options`: dtype (float32 or float64), device, requires_grad. Raises ValueError for a
    negative M, and for another dtype.
    """
    return _cosines("general_cosine", M, a, sym, options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """alpha - (1 - alpha) cos(x) for x from 0 to 2 pi.

    `M` numbers; without `sym` the window is one period, M + 1 long, less its end. `options`: dtype
    (float32 or float64), device, requires_grad. Raises ValueError for a negative M, and for another
    dtype.
    """
    return _cosines("general_hamming", M, [alpha, 1 - alpha], sym, options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`general_hamming` with alpha = 0.54.

    `M` numbers; without `sym` the window is one period, M + 1 long, less its end. `options`: dtype
    (float32 or float64), device, requires_grad. Raises ValueError for a negative M, and for another
    dtype.
    """
    return _cosines("hamming", M, [0.54, 0.46], sym, options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`general_hamming` with alpha = 1/2.

    `M` numbers; without `sym` the window is one period, M + 1 long, less its end. `options`: dtype
    (float32 or float64), device, requires_grad. Raises ValueError for a negative M, and for another
    dtype.
    """
    return _cosines("hann", M, [0.5, 0.5], sym, options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`general_cosine` with three weights (Blackman and Tukey, 1958).

    `M` numbers; without `sym` the window is one period, M + 1 long, less its end. `options`: dtype
    (float32 or float64), device, requires_grad. Raises ValueError for a negative M, and for another
    dtype.
    """
    return _cosines("blackman", M, [0.42, 0.5, 0.08], sym, options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`general_cosine` with the four weights of Nuttall (1981).

    `M` numbers; without `sym` the window is one period, M + 1 long, less its end. `options`: dtype
    (float32 or float64), device, requires_grad. Raises ValueError for a negative M, and for another
    dtype.
    """
    return _cosines("nuttall", M, [0.3635819, 0.4891775, 0.1365995, 0.0106411], sym, options)
