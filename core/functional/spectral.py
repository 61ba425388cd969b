"""Spectrograms and back, and the windows that they use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import device as _device
from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.complex import real
from rushlight.core.functional.creation import of_data
from rushlight.core.functional.fft import fft, ifft, irfft, rfft
from rushlight.core.functional.network.padding import pad
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.complex import view_as_complex, view_as_real
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.movement import UNFOLD_BACKWARD

if TYPE_CHECKING:
    from rushlight.core.backends import Device
    from rushlight.core.tensor.tensor import Tensor


def _window(name: str, x: Tensor, n: int, length: int | None, window: Tensor | None) -> Tensor:
    """The window of `length` elements (all ones by default) in the middle of n."""
    length = n if length is None else length
    if not 0 < length <= n:
        raise ShapeError(f"{name}: win_length is {length}; it must be from 1 to n_fft, {n}")
    if window is None:
        window = real(x).new_ones(length)
    if window.shape != (length,):
        raise ShapeError(f"{name}: window is {window.shape}; it must be ({length},)")
    left = (n - length) // 2
    return pad(window, (left, n - length - left)) if length < n else window


@public
@method()
@casts(cpu="float32")
def stft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Transforms of overlapping pieces of (length,) or (b, length): (b, frequencies, pieces).

    A piece of n_fft elements begins every hop_length (n_fft // 4) and is multiplied by `window`.
    center: the signal is padded, so that piece t is around t * hop_length. normalized: divided by
    the root of n_fft. onesided: n_fft // 2 + 1 frequencies, the default for real x.
    return_complex=False gives pairs of real numbers; it must be said for a real x. Only on cpu.

    `win_length` elements of a piece have a window, n_fft unless set. `pad_mode` is pad's.
    `align_to_window` is for center=False. Raises ValueError for sizes that do not fit, TypeError
    for a real x without return_complex.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    if x.ndim not in (1, 2) or (x.dtype.kind not in "fc"):
        raise ShapeError(
            f"stft: x is {x.dtype.name} of shape {x.shape}; it takes floating or "
            "complex numbers of 1 or 2 dims"
        )
    if align_to_window is not None and center:
        raise ValueError("stft: align_to_window is only for center=False")
    if return_complex is None:
        if not x.dtype.is_complex and not (window is not None and window.dtype.is_complex):
            raise TypeError("stft: give return_complex=True (or False, for pairs) for a real x")
        return_complex = True
    shape = x.shape
    x = x if x.ndim == 2 else x.unsqueeze(0)
    w = _window("stft", x, n_fft, win_length, window)
    if center:
        x = pad(x.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode).squeeze(1)
    elif align_to_window:
        side = (n_fft - (win_length or n_fft)) // 2
        x = pad(x, (side, side))
    if hop < 1 or not 0 < n_fft <= x.shape[1]:
        raise ShapeError(
            f"stft: n_fft {n_fft}, hop_length {hop}, a signal of {x.shape[1]}: it "
            "must have n_fft elements, and hop_length be positive"
        )
    pieces = x.unfold(1, n_fft, hop) * w
    two_sided = pieces.dtype.is_complex
    onesided = not two_sided if onesided is None else onesided
    if onesided and two_sided:
        raise ValueError("stft: onesided=True takes a real x and a real window")
    result = (rfft if onesided else fft)(pieces, norm="ortho" if normalized else None)
    result = result.transpose(1, 2)
    result = result if len(shape) == 2 else result.squeeze(0)
    return result if return_complex else view_as_real(result)


@public
@method()
def istft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal (b, length) of `stft` (b, frequencies, pieces), by least squares.

    Pieces are multiplied by the window again, added up, and divided by the sum of its squares,
    which must not be 0 anywhere (Griffin and Lim, 1984). length: cut or filled with zeros to it.

    `x`, `n_fft`, `hop_length`, `win_length`, `center`, `normalized` and `onesided` are as there;
    `return_complex`: the signal is complex. Raises ShapeError for sizes that do not fit, ValueError
    for windows that leave a gap.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    x = x if x.dtype.is_complex else view_as_complex(x)
    if x.ndim not in (2, 3) or not x.numel() or hop < 1:
        raise ShapeError(
            f"istft: x is {x.shape}, hop_length {hop}; it takes 2 or 3 dims with "
            "elements, and a positive hop_length"
        )
    flat = x.ndim == 2
    x = (x.unsqueeze(0) if flat else x).transpose(1, 2)
    high, pieces = x.shape[2], x.shape[1]
    onesided = high != n_fft if onesided is None else onesided
    if high != (n_fft // 2 + 1 if onesided else n_fft):
        raise ShapeError(f"istft: {high} frequencies do not fit n_fft {n_fft}")
    w = _window("istft", x, n_fft, win_length, window)
    if return_complex and onesided:
        raise ValueError("istft: return_complex=True takes all frequencies, onesided=False")
    norm = "ortho" if normalized else None
    if return_complex:
        parts = ifft(x, norm=norm)
    else:
        parts = irfft(x[..., : n_fft // 2 + 1], n_fft, norm=norm)
    count = n_fft + hop * (pieces - 1)
    how: dict[str, Any] = {"length": count, "dim": 1, "size": n_fft, "step": hop, "dilation": 1}
    signal = UNFOLD_BACKWARD(parts * w, **how)
    square = (w * w).to(signal.dtype) if w.dtype is not signal.dtype else w * w
    weight = UNFOLD_BACKWARD(square.expand(1, pieces, n_fft), **how)
    begin = n_fft // 2 if center else 0
    end = count - begin if length is None else min(begin + length, count)
    signal, weight = signal[:, begin:end], weight[:, begin:end]
    if not bool((weight.detach().abs() > 1e-11).all()):
        raise ValueError(
            "istft: the sum of the window's squares is 0 somewhere; use another "
            "window, hop_length or center"
        )
    signal = signal / weight
    if length is not None and length > signal.shape[1]:
        signal = pad(signal, (0, length - signal.shape[1]))
    return signal.squeeze(0) if flat else signal


def _made(
    values: Callable[[Any, int], Any],
    n: int,
    periodic: bool,
    dtype: DType | str | None,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    if n < 0:
        raise ValueError(f"window: a length of {n} is negative")
    last = n if periodic else n - 1
    # One element is 1 whatever the formula, as in torch.
    values_of_window = np.ones(n) if n < 2 else values(np.arange(n), last)
    out = (
        of_data(values_of_window, dtype="float64", device="cpu")
        .to(as_dtype(dtype))
        .to(_device(device))
    )
    return out.requires_grad_() if requires_grad else out


def _cosines(*weights: float) -> Callable[[Any, int], Any]:
    def values(k: Any, last: int) -> Any:
        turns = 2 * np.pi * k / last
        return sum((-1) ** i * a * np.cos(i * turns) for i, a in enumerate(weights))

    return values


@public
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.5 - 0.5 cos(2 pi k / n), with n - 1 for n where not `periodic`.

    `window_length` numbers, floating. `dtype` and `device` are the result's; `requires_grad`: it
    needs a gradient. Raises ValueError for a negative length.
    """
    return _made(_cosines(0.5, 0.5), window_length, periodic, dtype, device, requires_grad)


@public
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - beta cos(2 pi k / n), with n - 1 for n where not `periodic`.

    `window_length` numbers, floating. `dtype` and `device` are the result's; `requires_grad`: it
    needs a gradient. Raises ValueError for a negative length.
    """
    return _made(_cosines(alpha, beta), window_length, periodic, dtype, device, requires_grad)


@public
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n); n - 1 for n where not `periodic`.

    `window_length` numbers, floating. `dtype` and `device` are the result's; `requires_grad`: it
    needs a gradient. Raises ValueError for a negative length.
    """
    shape = _cosines(0.42, 0.5, 0.08)
    return _made(shape, window_length, periodic, dtype, device, requires_grad)


@public
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle from 0 over 1 in the middle, at n / 2, or (n - 1) / 2 where not `periodic`.

    `window_length` numbers, floating. `dtype` and `device` are the result's; `requires_grad`: it
    needs a gradient. Raises ValueError for a negative length.
    """
    return _made(
        lambda k, last: 1 - np.abs(2 * k / last - 1),
        window_length,
        periodic,
        dtype,
        device,
        requires_grad,
    )


@public
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """I0(beta sqrt(1 - (2 k / n - 1)^2)) / I0(beta), with n - 1 for n where not `periodic`.

    `window_length` numbers, floating. `dtype` and `device` are the result's; `requires_grad`: it
    needs a gradient. Raises ValueError for a negative length.
    """
    return _made(
        lambda k, last: (
            np.i0(beta * np.sqrt(np.maximum(1 - (2 * k / last - 1) ** 2, 0))) / np.i0(beta)
        ),
        window_length,
        periodic,
        dtype,
        device,
        requires_grad,
    )
