"""Samples of the ops of core/ops/shifts.py."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from .base import INTS, Array, Sample, Samples

SAMPLES: dict[str, Samples] = {}


def _shift_left(a: int, b: int, bits: int = 64) -> int:
    return a << b if 0 <= b < bits else 0


def _shift_right(a: int, b: int, bits: int = 64) -> int:
    return a >> b if 0 <= b < bits else -(a < 0)


def _by_bits(fn: Callable[[int, int, int], int]) -> Callable[..., Array]:
    """The reference of a shift: the numbers wrapped to their dtype."""

    def reference(x: Array, y: Array) -> Array:
        bits = 8 * x.dtype.itemsize
        pairs = zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True)
        found = [fn(a, b, bits) % 2**bits for a, b in pairs]
        unsigned = np.array(found, np.dtype(f"u{x.dtype.itemsize}"))
        return unsigned.view(x.dtype).reshape(x.shape)

    return reference


def _far_shifts(v: Array) -> Array:
    """Numbers and by how much they are shifted; of int64 those whose results fit in 32 bits."""
    wide = v.dtype == np.int64
    values = [0, 1, -7, 300] if wide else v
    by = [0, 1, 5, 7, 20, 64, 70, -9] if wide else [0, 1, 5, 7, 8, 9, 31, 32, 33, 63, 64, 70, 127]
    by += [200] if v.dtype.kind == "u" else [-1, -128]
    return np.array(list(itertools.product(values, by)), v.dtype).T


for _name, _shift in {
    "bitwise_left_shift": _shift_left,
    "bitwise_right_shift": _shift_right,
}.items():
    _ints = np.arange(91, dtype=np.int32).reshape(7, 13) - 40
    _far = {n: tuple(_far_shifts(v)) for n, v in INTS.items()}
    SAMPLES[_name] = Samples(
        _by_bits(_shift),
        "exact",
        (
            Sample("odd", (_ints, np.abs(_ints) % 9)),
            Sample("empty", (_ints[:0], _ints[:0])),
            Sample("0-d", (np.array(12, np.uint8), np.array(2, np.uint8))),
            *(Sample(n, pair) for n, pair in _far.items()),
        ),
        without={"nan": "integers only"},
        whole=_shift,
    )
