"""Convolutions and products of quantized tensors in integers: what several steps are fused to."""

from __future__ import annotations

from math import prod
from typing import Any

from rushlight.core.basis.dtype import float32, int32
from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import ElementType, of_dtype
from rushlight.core.onnx.operators.convolution import convolved, padded, window_of
from rushlight.core.onnx.operators.linear_algebra import (
    matmul_integer,
    of_columns,
    of_rows,
    takes_bytes,
)
from rushlight.core.onnx.operators.quantization import dequantized, quantized
from rushlight.core.onnx.registry import Call, operator
from rushlight.core.ops.integers import BYTE_PRODUCT, MOST_TAPS, byte_depthwise, byte_product

_EXACT = 1 << 24  # integers up to here are exact in float32


def _number(x: Any) -> Any:
    return None if x is None else x.reshape(1, 1)


def scaled_product(
    call: Call, a: Any, b: Any, a_zero: Any, b_zero: Any, scale: Any, bias: Any
) -> Any:
    """MatMulInteger as float32, times a scale of all or of each column, plus a bias."""
    fits = takes_bytes(a, b, a_zero, b_zero) and not scale.requires_grad
    if fits and (bias is None or not bias.requires_grad):
        return byte_product(
            a,
            b,
            of_rows(a_zero),
            of_columns(b_zero),
            of_columns(bias),
            of_columns(scale),
            None,
            "float32",
        )
    out = matmul_integer(call, a, b, a_zero, b_zero).to("float32") * scale
    return out if bias is None else out + bias


def dequantized_product(
    call: Call,
    a: Any,
    a_scale: Any,
    a_zero: Any,
    b: Any,
    b_scale: Any,
    b_zero: Any,
    bias: Any,
    scale: Any,
    zero: Any,
) -> Any:
    """The product of two quantized matrices as float32, plus a bias, quantized again by `scale`.

    b_scale and b_zero: one or one of each column. `transB` of a Gemm is followed.
    """
    if call.node.op == "Gemm" and call.flag("transB"):
        b = b.t()
    factor = _number(a_scale) * of_columns(b_scale)
    kind = "float32" if scale is None else zero.dtype.name
    if takes_bytes(a, b, a_zero, b_zero):
        if scale is not None:
            factor = factor / _number(scale)
            bias = None if bias is None else bias / scale.reshape(())
        zeros = _number(a_zero), of_columns(b_zero)
        return byte_product(a, b, *zeros, of_columns(bias), factor, _number(zero), kind)
    column = b_scale.ndim == 1 and b_scale.numel() > 1
    left = dequantized(a, a_scale, a_zero)
    right = dequantized(b, b_scale, b_zero, b.ndim - 1 if column else None)
    out = rl.matmul(left, right)
    out = out if bias is None else out + bias
    if scale is None:
        return out
    return quantized(out / scale.reshape(()), zero.reshape(()), _kind(zero))


def _kind(zero: Any) -> ElementType:
    return of_dtype(zero.dtype)


def quantized_conv(
    call: Call,
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    bias: Any,
    scale: Any,
    zero: Any,
) -> Any:
    """The convolution of a quantized tensor, plus a float32 bias, quantized again by `scale`.

    w_scale and w_zero: one or one of each filter.
    """
    call.result_kinds = [_kind(zero)]
    factor = x_scale.reshape(()) * w_scale / scale.reshape(())
    bias = None if bias is None else bias / scale.reshape(())
    if in_bytes(call, x, w):
        kind = zero.dtype.name
        ends = of_rows(bias), of_rows(factor), _number(zero)
        return convolved_bytes(call, x, w, _number(x_zero), w_zero, ends, kind)
    left, right = _whole(x, x_zero, None), _whole(w, w_zero, 0)
    y = convolved(call, left, right, None)
    y = y * _per_filter(factor, y.ndim)
    y = y if bias is None else y + _per_filter(bias, y.ndim)
    return quantized(y, zero.reshape(()), _kind(zero))


def _per_filter(x: Any, ndim: int) -> Any:
    return x.reshape(()) if x.numel() == 1 else x.reshape([1, -1, *[1] * (ndim - 2)])


def _whole(x: Any, zero: Any, dim: int | None) -> Any:
    """Whole numbers less their zero point, as float32."""
    wide = x.to("float32")
    if zero is None:
        return wide
    if zero.numel() == 1:
        return wide - zero.to("float32").reshape(())
    return wide - zero.to("float32").reshape([-1 if i == dim else 1 for i in range(x.ndim)])


def in_bytes(call: Call, x: Any, w: Any) -> bool:
    """Whether the device convolves these bytes as bytes: all channels, or each by itself."""
    plain = x.ndim == 4 and 0 not in (*x.shape, *w.shape)
    plain = plain and (call.int("group", 1) == 1 or of_each_channel(call, x, w))
    bytes_too = all(t.dtype.name in ("uint8", "int8") for t in (x, w))
    return plain and bytes_too and x.storage.device.backend.supports(BYTE_PRODUCT.name)


def of_each_channel(call: Call, x: Any, w: Any) -> bool:
    """Whether each channel has filters of its own, which `byte_depthwise` sums exactly."""
    groups = call.int("group", 1)
    alone = groups == x.shape[1] and groups > 1 and w.shape[1] == 1 and w.shape[0] % groups == 0
    return bool(alone and prod(w.shape[2:]) <= MOST_TAPS)


def convolved_bytes(
    call: Call, x: Any, w: Any, x_zero: Any, w_zero: Any, ends: Any, dtype: str
) -> Any:
    """The convolution of (n, c, h, w) in bytes; `ends` and `dtype` as in `byte_product`.

    x_zero: (1, 1) or None. w_zero: one or one of each filter, or None.
    """
    bias, scale, zero = ends
    if call.int("group", 1) > 1:
        return _each_channel(call, x, w, [x_zero, of_rows(w_zero), bias, scale, zero], dtype)
    columns, sizes = _columns(call, x, list(w.shape[2:]), x_zero)
    flat = w.reshape(w.shape[0], prod(w.shape[1:]))
    y = byte_product(flat, columns, of_rows(w_zero), x_zero, bias, scale, zero, dtype)
    return y.reshape(x.shape[0], w.shape[0], *sizes)


def _each_channel(call: Call, x: Any, w: Any, ends: Any, dtype: str) -> Any:
    window = window_of(call, 2, call.ints("kernel_shape", None) or list(w.shape[2:]))
    (top, bottom), (left, right) = padded(window, tuple(x.shape[2:]))
    for dim, before, after in ((2, top, bottom), (3, left, right)):
        x = _widened(x, dim, min(before, 0), min(after, 0), None)
    strides, dilations = window.stride, window.dilation
    x_zero, w_zero, bias, scale, zero = ends
    return byte_depthwise(
        x.contiguous(),
        w,
        x_zero,
        w_zero,
        bias,
        scale,
        zero,
        (strides[0], strides[1]),
        (max(top, 0), max(left, 0), max(bottom, 0), max(right, 0)),
        (dilations[0], dilations[1]),
        dtype,
    )


def _columns(call: Call, x: Any, kernel: list[int], fill: Any) -> tuple[Any, list[int]]:
    """The windows of an image as columns (n, c * taps, places), and the result's sizes.

    fill: (1, 1), what the padding holds; None for zero.
    """
    kernel = call.ints("kernel_shape", None) or kernel
    window = window_of(call, 2, kernel)
    pads = padded(window, tuple(x.shape[2:]))
    for dim, (before, after) in zip((2, 3), pads, strict=True):
        x = _widened(x, dim, before, after, fill)
    n, c, *sizes = x.shape
    outs = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, d, s in zip(sizes, kernel, window.dilation, window.stride, strict=True)
    ]
    if kernel == [1, 1]:
        if window.stride != [1, 1]:
            x = x[:, :, :: window.stride[0], :: window.stride[1]]
        return x.reshape(n, c, prod(outs)), outs
    x = x.contiguous()
    down, across = x.stride()[2:]
    steps = [
        *x.stride()[:2],
        window.dilation[0] * down,
        window.dilation[1] * across,
        window.stride[0] * down,
        window.stride[1] * across,
    ]
    windows = rl.as_strided(x, (n, c, *kernel, *outs), steps)
    return windows.reshape(n, c * prod(kernel), prod(outs)), outs


def _widened(x: Any, dim: int, before: int, after: int, fill: Any) -> Any:
    """`x` with edges of `fill` along a dim; negative numbers cut."""
    cut = max(-before, 0), max(-after, 0)
    if any(cut):
        x = x.narrow(dim, cut[0], x.shape[dim] - sum(cut))
    if before <= 0 and after <= 0:
        return x
    pieces = [_edge(x, dim, before, fill), x, _edge(x, dim, after, fill)]
    return rl.cat([piece for piece in pieces if piece is not None], dim)


def _edge(x: Any, dim: int, size: int, fill: Any) -> Any:
    if size <= 0:
        return None
    shape = [size if d == dim else k for d, k in enumerate(x.shape)]
    if fill is None:
        return rl.zeros(shape, dtype=x.dtype, device=x.device)
    return fill.reshape(1, 1, 1, 1).expand(*shape)


def _per_channel(values: Any, dim: int, ndim: int) -> Any:
    """A scalar or (channels,) that broadcasts along `dim`."""
    if values.numel() == 1:
        return values.reshape([1] * ndim)
    return values.reshape([-1 if d == dim else 1 for d in range(ndim)])


def _sums(call: Call, x: Any, w: Any, x_zero: Any, w_zero: Any) -> Any:
    """The convolution of integers of 8 bits less their zero points, exact.

    It is summed in float32, and in int32 where float32 is exact for some of the channels only.
    """
    largest = 1
    for operand, zero in ((x, x_zero), (w, w_zero)):
        largest *= 255 if zero is not None or operand.dtype.name == "uint8" else 128
    xf, wf = x.to(float32), w.to(float32)
    if x_zero is not None:
        xf = xf - _per_channel(x_zero.to(float32), 1, x.ndim)
    if w_zero is not None:
        wf = wf - _per_channel(w_zero.to(float32), 0, w.ndim)
    taps = 1
    for n in w.shape[2:]:
        taps *= int(n)
    groups, channels = call.int("group", 1), int(w.shape[1])
    step = max(_EXACT // (largest * max(taps, 1)), 1)
    if step >= channels:
        return convolved(call, xf, wf, None)
    grouped = xf.reshape(x.shape[0], groups, channels, *x.shape[2:])
    total = None
    for start in range(0, channels, step):
        some = grouped[:, :, start : start + step]
        some = some.reshape(x.shape[0], -1, *x.shape[2:])
        term = _rounded(convolved(call, some, wf[:, start : start + step], None))
        total = term if total is None else total + term
    return total


def _rounded(x: Any) -> Any:
    return x.round().to(int32)


@operator("ConvInteger")
def conv_integer(call: Call, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    """The convolution of integers of 8 bits less their zero points, in int32."""
    if in_bytes(call, x, w) and _one(x_zero):
        return convolved_bytes(call, x, w, _number(x_zero), w_zero, (None, None, None), "int32")
    total = _sums(call, x, w, x_zero, w_zero)
    return total if total.dtype is int32 else _rounded(total)


def _one(x: Any) -> bool:
    return x is None or bool(x.numel() == 1)


@operator("QLinearConv")
def qlinear_conv(
    call: Call,
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    y_scale: Any,
    y_zero: Any,
    bias: Any = None,
) -> Any:
    """The convolution of quantized elements, quantized again; bias is int32."""
    call.result_kinds = [call.kinds[7]]
    if in_bytes(call, x, w) and all(map(_one, (x_scale, x_zero, y_scale, y_zero))):
        factor = of_rows(x_scale.reshape(()) * w_scale / y_scale.reshape(()))
        ends = of_rows(bias), factor, _number(y_zero)
        return convolved_bytes(call, x, w, _number(x_zero), w_zero, ends, y_zero.dtype.name)
    total = _sums(call, x, w, x_zero, w_zero)
    if total.dtype is not float32:
        total = total if bias is None else total + _per_channel(bias, 1, x.ndim)
        total = total.to(float32)
    elif bias is not None:
        total = total + _per_channel(bias, 1, x.ndim).to(float32)
    factor = _per_channel(x_scale * w_scale / y_scale, 1, x.ndim)
    low, high = (0, 255) if y_zero.dtype.name == "uint8" else (-128, 127)
    y = (total * factor).round() + _per_channel(y_zero.to(float32), 1, x.ndim)
    return y.clamp(low, high).to(y_zero.dtype)
