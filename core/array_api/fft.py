"""The extension `fft`: torch's transforms, with the standard's names of arguments."""

from __future__ import annotations

from typing import Any

from rushlight.core.array_api.common import Function
from rushlight.core.backends import HOST
from rushlight.core.functional import declared as _declared
from rushlight.core.ops.declare import FFT as _T
from rushlight.core.tensor.tensor import Tensor

assert _declared.__all__  # the import has run every declaration
_ONE = "fft ifft rfft irfft hfft ihfft"
_MANY = "fftn ifftn rfftn irfftn"
__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq", *f"{_ONE} {_MANY}".split()]


def _one(fn: Function) -> Function:
    def call(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        return fn(x, n, axis, norm)

    return call


def _many(fn: Function) -> Function:
    def call(x: Tensor, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
        return fn(x, s, axes, norm)

    return call


for _make, _names in ((_one, _ONE), (_many, _MANY)):
    for _name in _names.split():
        _fn = globals()[_name] = _make(_T[_name])
        _fn.__name__ = _fn.__qualname__ = _name
        _fn.__doc__ = _T[_name].__doc__


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of `fft` of n samples that lie d apart."""
    return _T["fftfreq"](n, d, dtype=dtype or "float32", device=device or HOST)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of `rfft` of n samples that lie d apart."""
    return _T["rfftfreq"](n, d, dtype=dtype or "float32", device=device or HOST)


def fftshift(x: Tensor, /, *, axes: Any = None) -> Any:
    """Frequency zero moved to the middle."""
    return _T["fftshift"](x, axes)


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Any:
    """What `fftshift` undoes."""
    return _T["ifftshift"](x, axes)
