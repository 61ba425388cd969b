"""Exact products and convolutions of 8-bit integers, as sums, scaled, or quantized again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import DTYPES
from rushlight.core.basis.layout import broadcast_shapes
from rushlight.core.ops.movement import owned
from rushlight.core.tensor.op import Meta, Op

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer_byte_product(
    a: Meta,
    b: Meta,
    a_zero: Meta | None = None,
    b_zero: Meta | None = None,
    bias: Meta | None = None,
    scale: Meta | None = None,
    zero: Meta | None = None,
    *,
    dtype: str = "int32",
) -> Meta:
    return a.fresh((*a.shape[:-1], b.shape[-1]), DTYPES[dtype])


BYTE_PRODUCT: Op = Op("byte_product", infer=_infer_byte_product, differentiable=False)


def byte_product(
    a: Tensor,
    b: Tensor,
    a_zero: Tensor | None = None,
    b_zero: Tensor | None = None,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    zero: Tensor | None = None,
    dtype: str = "int32",
) -> Tensor:
    """(a - a_zero) @ (b - b_zero) of uint8 and int8: (..., m, k), (..., k, n) -> (..., m, n).

    The sums are exact, in int32, which wraps around. Without a scale they are the result. For
    "float32" it is sums * scale + bias, for "uint8" and "int8" that rounded, plus zero, within the
    dtype's range; an int32 bias is added to their sums instead. a_zero: (m or 1, 1), of any 8-bit
    dtype; b_zero: (1, n or 1); bias and scale: (m or 1, n or 1); zero: (1, 1). For `a` of more dims
    than `b`, numbers of rows must be one for all.
    """
    of_rows = any(x is not None and x.shape[0] > 1 for x in (a_zero, bias, scale))
    if b.ndim == 2 and a.ndim > 2 and not of_rows:
        rows = 1
        for n in a.shape[:-1]:
            rows *= n
        flat = a.reshape(rows, a.shape[-1])
        out = BYTE_PRODUCT(flat, b, a_zero, b_zero, bias, scale, zero, dtype=dtype)
        return owned(out.reshape(*a.shape[:-1], b.shape[-1]))
    batch = broadcast_shapes("byte_product", a.shape[:-2], b.shape[:-2])
    a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
    return BYTE_PRODUCT(a, b, a_zero, b_zero, bias, scale, zero, dtype=dtype)


def _infer_byte_depthwise(
    x: Meta,
    w: Meta,
    x_zero: Meta | None = None,
    w_zero: Meta | None = None,
    bias: Meta | None = None,
    scale: Meta | None = None,
    zero: Meta | None = None,
    *,
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    dtype: str = "int32",
) -> Meta:
    sizes = [
        (x.shape[2 + d] + padding[d] + padding[2 + d] - dilation[d] * (w.shape[2 + d] - 1) - 1)
        // stride[d]
        + 1
        for d in (0, 1)
    ]
    return x.fresh((x.shape[0], w.shape[0], *sizes), DTYPES[dtype])


BYTE_DEPTHWISE: Op = Op("byte_depthwise", infer=_infer_byte_depthwise, differentiable=False)
MOST_TAPS = 256  # of a filter


def byte_depthwise(
    x: Tensor,
    w: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    zero: Tensor | None = None,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    dtype: str = "int32",
) -> Tensor:
    """The convolution of uint8 and int8 in which each channel has filters of its own.

    x (n, channels, h, w) less x_zero (1, 1), and w (filters, 1, kh, kw) less w_zero (filters or 1,
    1): sums of at most 256 taps, exact; filters is a multiple of channels. padding: above, on the
    left, below, on the right; what is there is x_zero. bias and scale (filters or 1, 1), zero and
    dtype make the result of the sums as in `byte_product`.
    """
    return BYTE_DEPTHWISE(
        x,
        w,
        x_zero,
        w_zero,
        bias,
        scale,
        zero,
        stride=stride,
        padding=padding,
        dilation=dilation,
        dtype=dtype,
    )
