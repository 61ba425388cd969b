"""Operators of com.microsoft on integers with a scale and a zero point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.basis.dtype import float32, int32, int64
from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.element_types import FLOAT, INT32, UINT8, ElementType
from rushlight.core.onnx.operators.linear_algebra import exact_sums
from rushlight.core.onnx.operators.microsoft.attention import merged_attention
from rushlight.core.onnx.operators.microsoft.entering import contrib, like
from rushlight.core.onnx.operators.microsoft.norms import mask_index
from rushlight.core.onnx.operators.quantization import quantized
from rushlight.core.onnx.registry import Call


def _single(x: Any) -> Any:
    """A tensor of one element without dims; others stay."""
    return x.reshape(()) if x is not None and x.numel() == 1 else x


def real(x: Any, scale: Any, zero: Any) -> Any:
    """The numbers that integers stand for, float32."""
    wide = x.to(float32)
    if zero is not None:
        wide = wide - _single(zero).to(float32)
    return wide * _single(scale)


def _again(call: Call, y: Any, scale: Any, zero: Any, kind: ElementType | None) -> Any:
    """Numbers as integers of a kind, uint8 by default."""
    kind = kind or UINT8
    call.result_kinds = [kind]
    return quantized(y / _single(scale), _single(zero), kind)


@contrib("QuantizeLinear")
def quantize_linear(call: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    """x divided by the scale, rounded, plus the zero point, held in the range of the type."""
    return like(call, "QuantizeLinear", x, scale, zero)


@contrib("DequantizeLinear", keeps_bytes=True)
def dequantize_linear(call: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    """x less the zero point, times the scale."""
    return like(call, "DequantizeLinear", x, scale, zero)


# Products.


def _product(a: Any, a_zero: Any, b: Any, b_zero: Any) -> Any:
    """The product of integers less their zero points, float32."""
    return exact_sums(a, b, a_zero, b_zero).to(float32)


@contrib("MatMulIntegerToFloat")
def matmul_integer_to_float(
    call: Call,
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    a_zero: Any = None,
    b_zero: Any = None,
    bias: Any = None,
) -> Any:
    """The product of two quantized matrices as floats, plus a bias."""
    call.result_kinds = [call.kinds[2]]
    result = _product(a, a_zero, b, b_zero) * (_single(a_scale) * _single(b_scale))
    return result if bias is None else result + bias


@contrib("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(
    call: Call, a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None
) -> Any:
    """The product with a quantized matrix of floats that are quantized to eight bits first."""
    levels, scale, zero = like(call, "DynamicQuantizeLinear", a)
    call.result_kinds = [call.kinds[0]]
    result = _product(levels, zero, b, b_zero) * (scale * _single(b_scale))
    return result if bias is None else result + bias


@contrib("QGemm")
def quantized_gemm(
    call: Call,
    a: Any,
    a_scale: Any,
    a_zero: Any,
    b: Any,
    b_scale: Any,
    b_zero: Any,
    c: Any = None,
    scale: Any = None,
    zero: Any = None,
) -> Any:
    """alpha a b + c of quantized matrices; quantized again where there is a scale for it."""
    alpha = call.float("alpha", 1.0)
    a = a.t() if call.flag("transA") else a
    b = b.t() if call.flag("transB") else b
    total = exact_sums(a, b, a_zero, b_zero)
    if c is not None:
        total = total.to(int32) + c
    result = total.to(float32) * (_single(a_scale) * _single(b_scale) * alpha)
    if scale is None:
        call.result_kinds = [FLOAT]
        return result
    return _again(call, result, scale, zero, call.kinds[8] if zero is not None else UINT8)


@contrib("MatMulInteger16")
def matmul_integer16(call: Call, a: Any, b: Any) -> Any:
    """The product of matrices of 16-bit integers, int32."""
    call.result_kinds = [INT32]
    return rl.matmul(a.to(int32), b.to(int32))


@contrib("MulInteger")
def mul_integer(call: Call, a: Any, a_zero: Any, b: Any, b_zero: Any = None) -> Any:
    """The product of integers less their zero points, int32."""
    call.result_kinds = [INT32]
    left = a.to(int32) if a_zero is None else a.to(int32) - _single(a_zero).to(int32)
    right = b.to(int32) if b_zero is None else b.to(int32) - _single(b_zero).to(int32)
    return left * right


@contrib("ReduceSumInteger")
def reduce_sum_integer(call: Call, x: Any) -> Any:
    """The sum over dims, int32."""
    call.result_kinds = [INT32]
    return rl.sum(x.to(int32), call.ints("axes"), keepdim=call.flag("keepdims")).to(int32)


@contrib("QLinearConv", stored=())
def quantized_conv(call: Call, x: Any, *rest: Any) -> Any:
    """A convolution of integers, quantized again; channels lie last with channels_last."""
    last = call.flag("channels_last")
    result = like(call, "QLinearConv", rl.movedim(x, -1, 1) if last else x, *rest)
    return rl.movedim(result, 1, -1) if last else result


# Element by element.


def _binary(call: Call, inputs: tuple[Any, ...], run: Callable[[Any, Any], Any]) -> Any:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, *zero = inputs
    result = run(real(a, a_scale, a_zero), real(b, b_scale, b_zero))
    return _again(call, result, scale, zero[0] if zero else None, call.kinds[0])


@contrib("QLinearAdd")
def quantized_add(call: Call, *inputs: Any) -> Any:
    """The sum of quantized tensors, quantized again."""
    return _binary(call, inputs, rl.add)


@contrib("QLinearMul")
def quantized_mul(call: Call, *inputs: Any) -> Any:
    """The product of quantized tensors, quantized again."""
    return _binary(call, inputs, rl.mul)


@contrib("QLinearSigmoid")
def quantized_sigmoid(
    call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None
) -> Any:
    """The logistic function of a quantized tensor, quantized again."""
    return _again(call, rl.sigmoid(real(x, x_scale, x_zero)), scale, zero, call.kinds[0])


@contrib("QLinearLeakyRelu")
def quantized_leaky_relu(
    call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None
) -> Any:
    """x where positive, else alpha x, of a quantized tensor, quantized again."""
    result = F.leaky_relu(real(x, x_scale, x_zero), call.float("alpha", 0.01))
    return _again(call, result, scale, zero, call.kinds[0])


@contrib("QLinearSoftmax")
def quantized_softmax(
    call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None
) -> Any:
    """Softmax of a quantized tensor, quantized again: over `axis`, before opset 13 all from it."""
    version = call.int("opset")
    axis = call.int("axis", -1)
    axis = axis % x.ndim if x.ndim else 0
    values = real(x, x_scale, x_zero)
    if version < 13 and x.ndim:
        lead = x.shape[:axis]
        rows = values.reshape(*lead, -1) if x.numel() else values
        result = rl.softmax(rows, -1).reshape(x.shape)
    else:
        result = rl.softmax(values, axis)
    return _again(call, result, scale, zero, call.kinds[0])


@contrib("QLinearWhere")
def quantized_where(
    call: Call,
    condition: Any,
    x: Any,
    x_scale: Any,
    x_zero: Any,
    y: Any,
    y_scale: Any,
    y_zero: Any,
    scale: Any,
    zero: Any,
) -> Any:
    """Elements of one quantized tensor or another, quantized again."""
    result = rl.where(condition, real(x, x_scale, x_zero), real(y, y_scale, y_zero))
    return _again(call, result, scale, zero, call.kinds[1])


@contrib("QLinearConcat")
def quantized_concat(call: Call, scale: Any, zero: Any, *inputs: Any) -> Any:
    """Quantized tensors one after another, quantized again."""
    values = [real(*inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    return _again(call, rl.cat(values, call.int("axis")), scale, zero, call.kinds[1])


# Means.


@contrib("QLinearReduceMean")
def quantized_mean(
    call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None
) -> Any:
    """The mean over dims of a quantized tensor, quantized again."""
    axes = call.ints("axes", None) or list(range(x.ndim))
    result = rl.mean(real(x, x_scale, x_zero), axes, keepdim=call.flag("keepdims", True))
    return _again(call, result, scale, zero, call.kinds[0])


@contrib("QLinearGlobalAveragePool")
def quantized_global_pool(
    call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None
) -> Any:
    """The mean of each channel of a quantized tensor, quantized again."""
    dims = list(range(1, x.ndim - 1)) if call.flag("channels_last") else list(range(2, x.ndim))
    result = rl.mean(real(x, x_scale, x_zero), dims, keepdim=True)
    return _again(call, result, scale, zero, call.kinds[0])


@contrib("QLinearAveragePool")
def quantized_pool(
    call: Call, x: Any, x_scale: Any, x_zero: Any, scale: Any, zero: Any = None
) -> Any:
    """The means of windows of a quantized tensor, quantized again."""
    last = call.flag("channels_last")
    values = real(rl.movedim(x, -1, 1) if last else x, x_scale, x_zero)
    result = like(call, "AveragePool", values)
    result = rl.movedim(result, 1, -1) if last else result
    return _again(call, result, scale, zero, call.kinds[0])


# Layers.


@contrib("QAttention", host=())
def quantized_attention(
    call: Call,
    x: Any,
    weight: Any,
    bias: Any,
    x_scale: Any,
    weight_scale: Any,
    mask: Any = None,
    x_zero: Any = None,
    weight_zero: Any = None,
    past: Any = None,
) -> Any:
    """Attention of a sequence to itself, whose projection is a product of integers."""
    kind = call.kinds[3]
    total = _product(x, x_zero, weight, weight_zero) * (_single(x_scale) * _single(weight_scale))
    total = total if bias is None else total + bias
    parts = list(rl.chunk(total, 3, -1))
    result = merged_attention(call, parts, mask, past, None, None)
    call.result_kinds = [kind] * len(result)
    return result


@contrib("QEmbedLayerNormalization")
def quantized_embed_norm(call: Call, ids: Any, segments: Any, *rest: Any) -> Any:
    """The layer norm of the sum of quantized embeddings of words, positions and segments."""
    tables, gamma, beta, mask = rest[:3], rest[3], rest[4], rest[5]
    scales, zeros = rest[6:11], rest[11:16]
    length = ids.shape[1]
    places = rl.arange(length, device=ids.device, dtype=int64)
    total: Any = 0.0
    for index, table, scale, zero in zip(
        (ids, places, segments), tables, scales, zeros, strict=False
    ):
        if index is None or table is None:
            continue
        rows = rl.index_select(table, 0, index.reshape(-1).to(int64))
        total = total + real(rows, scale, zero).reshape(*index.shape, table.shape[1])
    weights = (real(gamma, scales[3], zeros[3]), real(beta, scales[4], zeros[4]))
    result = F.layer_norm(total, weights[0].shape, *weights, call.float("epsilon", 1e-12))
    call.result_kinds = [call.kinds[8], INT32]
    return [result, mask_index(ids, mask)][: len(call.wanted)]


@contrib("DynamicQuantizeLSTM")
def quantized_lstm(
    call: Call,
    x: Any,
    w: Any,
    r: Any,
    bias: Any = None,
    lengths: Any = None,
    h: Any = None,
    c: Any = None,
    peepholes: Any = None,
    *scales: Any,
) -> Any:
    """A long short-term memory of quantized weights, whose inputs stay floats.

    onnxruntime rounds inputs and states to eight bits as well.
    """
    w_scale, w_zero, r_scale, r_zero = scales

    def matrix(stored: Any, scale: Any, zero: Any) -> Any:
        """(directions, 4 hidden, inputs) of (directions, inputs, 4 hidden)."""
        spread = (t.reshape(stored.shape[0], 1, -1) for t in (scale, zero))
        scale, zero = spread
        values = (stored.to(float32) - zero.to(float32)) * scale
        return values.transpose(1, 2)

    wide = matrix(w, w_scale, w_zero), matrix(r, r_scale, r_zero)
    return like(call, "LSTM", x, *wide, bias, lengths, h, c, peepholes)
