"""NumPy kernels of products of integers, which are exact and wrap around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_EXACT = 1 << 53  # whole numbers up to here are exact in float64
_HALF = 1 << 16
_DEEPEST = 1 << 20  # products of halves that float64 sums exactly


def whole_product(a: Array, b: Array) -> Array:
    """a @ b of integers in their dtype, by products of float64 where those are exact."""
    if not a.size or not b.size or a.dtype.kind not in "iu":
        return np.matmul(a, b)  # type: ignore[no-any-return]
    if a.shape[-2] * b.shape[-1] * a.shape[-1] < 512:  # conversions take longer
        return np.matmul(a, b)  # type: ignore[no-any-return]
    depth = a.shape[-1]
    if a.dtype.itemsize < 4 or _largest(a) * _largest(b) * depth < _EXACT:
        product: Array = np.matmul(a.astype(np.float64), b.astype(np.float64))
        return product.astype(np.int64).astype(a.dtype)
    if a.dtype.itemsize > 4 or depth > _DEEPEST:
        return np.matmul(a, b)  # type: ignore[no-any-return]
    # Of numbers in two halves, all that stays within 32 bits.
    low_a, low_b = (x & (_HALF - 1) for x in (a, b))
    parts = [(x.astype(np.float64), y.astype(np.float64))
             for x, y in ((low_a, low_b), (a >> 16, low_b), (low_a, b >> 16))]  # fmt: skip
    low, left, right = (np.matmul(x, y).astype(np.int64) for x, y in parts)
    wrapped: Array = (low + ((left + right) << 16)).astype(a.dtype)
    return wrapped


def _largest(x: Array) -> int:
    return max(abs(int(x.min())), abs(int(x.max())))


def _byte_product(
    out: Array,
    a: Array,
    b: Array,
    a_zero: Array | None = None,
    b_zero: Array | None = None,
    bias: Array | None = None,
    scale: Array | None = None,
    zero: Array | None = None,
    *,
    dtype: str = "int32",
) -> None:
    left, right = a.astype(np.float64), b.astype(np.float64)
    left = left if a_zero is None else left - a_zero
    right = right if b_zero is None else right - b_zero
    sums = np.matmul(left, right).astype(np.int64).astype(np.int32)
    _end(out, sums, bias, scale, zero)


def _end(
    out: Array, sums: Array, bias: Array | None, scale: Array | None, zero: Array | None
) -> None:
    """`out` of sums of products in int32: as they are, scaled, or quantized again."""
    if out.dtype == np.int32:
        out[...] = sums
        return
    assert scale is not None
    if out.dtype == np.float32:
        product = sums.astype(np.float32) * scale
        out[...] = product if bias is None else product + bias
        return
    whole = bias is not None and bias.dtype == np.int32
    product = (sums + bias if whole else sums).astype(np.float32) * scale
    near = np.rint(product if bias is None or whole else product + bias)
    near = near if zero is None else near + zero.astype(np.float32)
    info = np.iinfo(out.dtype)
    near = np.where(np.isnan(near), 0, np.clip(near, info.min, info.max))
    np.copyto(out, near, casting="unsafe")


def _byte_depthwise(
    out: Array,
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
) -> None:
    wide = x.astype(np.int32) - (0 if x_zero is None else int(x_zero[0, 0]))
    edges = [(padding[d], max(padding[2 + d], 0)) for d in (0, 1)]
    wide = np.pad(wide, [(0, 0), (0, 0), *edges])
    wide = wide.repeat(w.shape[0] // max(x.shape[1], 1), 1)
    taps = w[:, 0].astype(np.int32)
    if w_zero is not None:
        taps = taps - w_zero.astype(np.int32)[:, :, None]
    high, long = out.shape[2:]
    sums = np.zeros(out.shape, np.int32)
    for i, j in np.ndindex(*w.shape[2:]):
        top, left = i * dilation[0], j * dilation[1]
        seen = wide[:, :, top : top + (high - 1) * stride[0] + 1 : stride[0]]
        seen = seen[..., left : left + (long - 1) * stride[1] + 1 : stride[1]]
        sums += seen * taps[None, :, i, j, None, None]
    added, factor = (None if v is None else v[:, :, None] for v in (bias, scale))
    _end(out, sums, added, factor, zero)


KERNELS: dict[str, Callable[..., None]] = {
    "byte_product": _byte_product,
    "byte_depthwise": _byte_depthwise,
}
