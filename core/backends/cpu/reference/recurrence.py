"""NumPy kernels of recurrences along a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def _selective_scan(
    out: Array, x: Array, dt: Array, a: Array, b: Array, c: Array, state: Array | None = None,
    last: Array | None = None,
) -> None:  # fmt: skip
    (batch, length, channels), n = x.shape, a.shape[1]
    h = np.zeros((batch, channels, n), x.dtype) if state is None else state
    for t in range(length):
        # (batch, groups, n) -> (batch, channels, n)
        write, read = (np.repeat(y[:, t], channels // max(y.shape[2], 1), 1) for y in (b, c))
        step = dt[:, t, :, None]
        h = np.exp(step * a) * h + step * x[:, t, :, None] * write
        out[:, t] = (h * read).sum(-1)
    (out[:, length:] if last is None else last)[...] = h.transpose(0, 2, 1)


def _delta_scan(
    out: Array, r: Array, decay: Array, k: Array, v: Array, a: Array | None, b: Array | None,
    state: Array | None = None, last: Array | None = None, *, before: bool,
) -> None:  # fmt: skip
    batch, heads, length, keys = k.shape
    s = np.zeros((batch, heads, keys, v.shape[3]), v.dtype) if state is None else state
    for t in range(length):
        now = decay[:, :, t, :, None] * s + k[:, :, t, :, None] * v[:, :, t, None]
        if a is not None and b is not None:
            now += b[:, :, t, :, None] * (a[:, :, t, :, None] * s).sum(-2, keepdims=True)
        out[:, :, t] = (r[:, :, t, :, None] * (s if before else now)).sum(-2)
        s = now
    (out[:, :, length:] if last is None else last)[...] = s


KERNELS: dict[str, Callable[..., None]] = {
    "selective_scan": _selective_scan,
    "delta_scan": _delta_scan,
}
