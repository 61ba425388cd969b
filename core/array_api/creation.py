"""Functions that make tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.array_api.common import F
from rushlight.core.backends import HOST
from rushlight.core.tensor.convert import as_tensor, from_dlpack, tensor
from rushlight.core.tensor.tensor import Tensor

__all__ = ["arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
           "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros",
           "zeros_like"]  # fmt: skip


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Tensor:
    """A tensor of numbers, nested lists, or memory that NumPy or DLPack can reach.

    copy: True for memory of its own, False for ValueError where that would be needed.
    """
    found = obj
    if not isinstance(obj, (Tensor, np.ndarray)) and hasattr(obj, "__dlpack__"):
        found = from_dlpack(obj)
    there = device or (found.device if isinstance(found, Tensor) else HOST)
    if copy:
        return tensor(found, dtype=dtype, device=there)
    out = as_tensor(found, dtype=dtype, device=there)
    if copy is False:
        shares = isinstance(found, Tensor) and out.storage is found.storage
        if not shares and not (isinstance(found, np.ndarray) and np.may_share_memory(out, found)):
            raise ValueError("asarray: this cannot be a tensor without a copy; use copy=None")
    return out


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """Numbers from start up to stop, `step` apart; none where stop lies the other way."""
    start, stop = (0, start) if stop is None else (start, stop)
    if (stop - start) * step <= 0:
        kind = all(isinstance(n, int) for n in (start, stop, step))
        return zeros((0,), dtype=dtype or ("int64" if kind else None), device=device)
    out: Tensor = F["arange"](start, stop, step, dtype=dtype, device=device or HOST)
    return out


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor that is not initialised."""
    return _filled("empty", shape, dtype, device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of zeros."""
    return _filled("zeros", shape, dtype, device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of ones."""
    return _filled("ones", shape, dtype, device)


def _filled(name: str, shape: Any, dtype: Any, device: Any) -> Tensor:
    size = (shape,) if isinstance(shape, int) else tuple(shape)
    out: Tensor = F[name](size, dtype=dtype or "float32", device=device or HOST)
    return out


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of one value."""
    size = (shape,) if isinstance(shape, int) else tuple(shape)
    out: Tensor = F["full"](size, fill_value, dtype=dtype, device=device or HOST)
    return out


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An uninitialised tensor of x's shape, and of its dtype and device where none is given."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros of x's shape, and of its dtype and device where none is given."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones of x's shape, and of its dtype and device where none is given."""
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One value in x's shape, and in its dtype and on its device where none is given."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    ones_ = ones((n_rows, n_rows if n_cols is None else n_cols), dtype=dtype, device=device)
    out: Tensor = F["tril"](F["triu"](ones_, k), k)
    return out


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
    endpoint: bool = True,
) -> Tensor:  # fmt: skip
    """`num` numbers of equal distance from start to stop, without stop if `endpoint` is false."""
    count = num if endpoint else num + 1
    if isinstance(start, complex) or isinstance(stop, complex):
        steps = linspace(0, 1, num, device=device, endpoint=endpoint)
        values: Tensor = start + (stop - start) * steps
        return values.to(dtype=dtype)
    out: Tensor = F["linspace"](start, stop, count, dtype=dtype or "float32", device=device or HOST)
    return out[:num]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """The coordinates of a grid; with "xy" the first two dims are exchanged."""
    return list(F["meshgrid"](*arrays, indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and below the k-th diagonal of matrices, zeros above."""
    out: Tensor = F["tril"](x, k)
    return out


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and above the k-th diagonal of matrices, zeros below."""
    out: Tensor = F["triu"](x, k)
    return out
