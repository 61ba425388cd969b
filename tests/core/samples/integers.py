"""Samples of the ops of core/ops/integers.py."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from .base import Array, Sample, Samples

SAMPLES: dict[str, Samples] = {}


def _loop_bytes(
    a: Array,
    b: Array,
    a_zero: Array | None = None,
    b_zero: Array | None = None,
    bias: Array | None = None,
    scale: Array | None = None,
    zero: Array | None = None,
    *,
    dtype: str = "int32",
) -> Array:
    """By Python's integers, and one rounding to float32 after each step."""
    out = np.zeros((*a.shape[:-1], b.shape[-1]), dtype)
    one = np.float32

    def at(x: Array | None, i: int, j: int) -> Any:
        return 0 if x is None else x[min(i, x.shape[0] - 1), min(j, x.shape[1] - 1)]

    for place in np.ndindex(out.shape):
        *batch, i, j = place
        row, column = a[(*batch, i)], b[(*batch, slice(None), j)]
        left, right = int(at(a_zero, i, 0)), int(at(b_zero, 0, j))
        sums = sum(
            (p - left) * (q - right) for p, q in zip(map(int, row), map(int, column), strict=True)
        )
        if dtype == "int32":
            out[place] = sums
            continue
        more = at(bias, i, j)
        whole = bias is not None and bias.dtype == np.int32
        y = one(sums + int(more) if whole else sums) * one(at(scale, i, j))
        y = y if whole or bias is None else y + one(more)
        if dtype != "float32":
            info = np.iinfo(dtype)
            near = round(float(y)) + int(at(zero, 0, 0))
            y = one(min(max(near, int(info.min)), int(info.max)))
        out[place] = y
    return out


def _bytes(seed: int, shape: tuple[int, ...], dtype: Any) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


_A, _B = _bytes(1, (5, 7), np.uint8), _bytes(2, (7, 3), np.int8)
_ROWS, _COLUMNS = _bytes(3, (5, 1), np.uint8), _bytes(4, (1, 3), np.int8)
_SCALE = np.array([[0.0625, 0.03125, 0.125]])
_BIAS = np.array([[1.5, -2.0, 0.25]])
SAMPLES["byte_product"] = Samples(
    _loop_bytes,
    "exact",
    (
        Sample("odd", (_A, _B)),
        Sample("zero points", (_A, _B, _ROWS, _COLUMNS)),
        Sample("batch", (_bytes(5, (2, 3, 5), np.int8), _bytes(6, (2, 5, 4), np.uint8))),
        Sample("empty", (_A[:0], _B)),
        Sample("of none", (_A[:, :0], _B[:0])),
        Sample("floats", (_A, _B, _ROWS, None, _BIAS, _SCALE), {"dtype": "float32"}),
        Sample(
            "quantized",
            (_A, _B, _ROWS[:1], _COLUMNS, np.full((5, 1), 77, np.int32), _SCALE, _ROWS[1:2]),
            {"dtype": "uint8"},
        ),
    ),
    floats=("float32",),
    without={"0-d": "a product needs rows", "nan": "elements are whole numbers"},
)


def _loop_depthwise(
    x: Array,
    w: Array,
    x_zero: Array | None = None,
    w_zero: Array | None = None,
    bias: Array | None = None,
    scale: Array | None = None,
    zero: Array | None = None,
    *,
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    dtype: str = "int32",
) -> Array:
    """Each filter as a product of its taps with the windows of its channel."""
    n, channels, height, width = x.shape
    filters, _, *kernel = w.shape
    taps = list(np.ndindex(*kernel))
    sizes = [
        (size + padding[d] + padding[2 + d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1
        for d, size in enumerate((height, width))
    ]
    out = np.zeros((n, filters, *sizes), dtype)
    blank = 0 if x_zero is None else x_zero[0, 0]
    for i, f in np.ndindex(n, filters):
        image = x[i, f // (filters // channels)]
        windows = np.full((len(taps), sizes[0] * sizes[1]), blank, x.dtype if n else np.uint8)
        for (t, (a, b)), (p, (y, z)) in product(enumerate(taps), enumerate(np.ndindex(*sizes))):
            row = y * stride[0] + a * dilation[0] - padding[0]
            column = z * stride[1] + b * dilation[1] - padding[1]
            if 0 <= row < height and 0 <= column < width:
                windows[t, p] = image[row, column]
        blanks, added, factor = (
            None if v is None else v[min(f, v.shape[0] - 1)][None] for v in (w_zero, bias, scale)
        )
        values = _loop_bytes(
            w[f].reshape(1, -1), windows, blanks, x_zero, added, factor, zero, dtype=dtype
        )
        out[i, f] = values.reshape(sizes)
    return out


_IMAGE, _FILTERS = _bytes(7, (2, 3, 5, 7), np.uint8), _bytes(8, (6, 1, 3, 2), np.int8)
_BLANK, _ZEROS = np.full((1, 1), 131, np.uint8), _bytes(9, (6, 1), np.int8)
_PLAIN = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1)}
_AROUND = {"stride": (2, 1), "padding": (1, 2, 0, 1), "dilation": (1, 2)}
_EACH = np.linspace(0.01, 0.06, 6).reshape(6, 1)
SAMPLES["byte_depthwise"] = Samples(
    _loop_depthwise,
    "exact",
    (
        Sample("odd", (_IMAGE, _FILTERS), _PLAIN),
        Sample("padding", (_IMAGE, _FILTERS, _BLANK, _ZEROS), _AROUND),
        Sample("empty", (_IMAGE[:0], _FILTERS), _PLAIN),
        Sample(
            "floats",
            (_IMAGE, _FILTERS[:3], None, None, _EACH[:3] * 100, _EACH[:1]),
            {**_AROUND, "dtype": "float32"},
        ),
        Sample(
            "quantized",
            (_IMAGE, _FILTERS, _BLANK, None, np.full((6, 1), 77, np.int32), _EACH, _BLANK),
            {**_AROUND, "dtype": "uint8"},
        ),
    ),
    floats=("float32",),
    without={"0-d": "a convolution needs images", "nan": "elements are whole numbers"},
)
