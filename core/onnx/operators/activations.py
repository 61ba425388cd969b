"""Activations, softmax and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.operators.common import as_matrix, axis_of
from rushlight.core.onnx.operators.creation import generator_of
from rushlight.core.onnx.registry import Call, operator


@operator("Celu")
def celu(call: Call, x: Any) -> Any:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    return F.celu(x, call.float("alpha", 1.0))


@operator("Elu")
def elu(call: Call, x: Any) -> Any:
    """x above zero, alpha (exp(x) - 1) below."""
    return F.elu(x, call.float("alpha", 1.0))


@operator("Gelu")
def gelu(call: Call, x: Any) -> Any:
    """x times the normal distribution function of x, exactly or by tanh."""
    return F.gelu(x, call.choice("approximate", "none", "none", "tanh"))


@operator("HardSigmoid")
def hard_sigmoid(call: Call, x: Any) -> Any:
    """alpha x + beta, between 0 and 1."""
    return rl.clamp(x * call.float("alpha", 0.2) + call.float("beta", 0.5), 0, 1)


@operator("HardSwish")
def hard_swish(call: Call, x: Any) -> Any:
    """x times x / 6 + 1/2, which is held between 0 and 1."""
    return F.hardswish(x)


@operator("LeakyRelu")
def leaky_relu(call: Call, x: Any) -> Any:
    """x above zero, alpha x below."""
    return F.leaky_relu(x, call.float("alpha", 0.01))


@operator("Mish")
def mish(call: Call, x: Any) -> Any:
    """x tanh(softplus(x))."""
    return F.mish(x)


@operator("PRelu")
def prelu(call: Call, x: Any, slope: Any) -> Any:
    """x above zero, slope x below; the slope is broadcast."""
    if call.opset < 7 and slope.ndim == 1 and x.ndim > 2:  # one slope for each channel
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    return rl.where(x < 0, x * slope, x)


@operator("SwiGLU")
def swiglu(call: Call, a: Any, b: Any) -> Any:
    """a sigmoid(alpha a) b (Shazeer, 2020)."""
    alpha = call.float("alpha", 1.0)
    return (F.silu(a) if alpha == 1 else a * rl.sigmoid(a * alpha)) * b


@operator("Selu")
def selu(call: Call, x: Any) -> Any:
    """gamma times x above zero, gamma alpha (exp(x) - 1) below."""
    alpha = call.float("alpha", 1.6732631921768188)
    return F.elu(x, alpha) * call.float("gamma", 1.0507010221481323)


@operator("Shrink")
def shrink(call: Call, x: Any) -> Any:
    """x - bias above lambd, x + bias below -lambd, zero between."""
    edge, bias = call.float("lambd", 0.5), call.float("bias", 0.0)
    if x.dtype.kind != "f":
        wide = x.to("float32")
        return _shrunk(wide, edge, bias).to(x.dtype)
    return _shrunk(x, edge, bias)


def _shrunk(x: Any, edge: float, bias: float) -> Any:
    return rl.where(x > edge, x - bias, rl.where(x < -edge, x + bias, rl.zeros_like(x)))


@operator("Softplus")
def softplus(call: Call, x: Any) -> Any:
    """log(1 + exp(x))."""
    return F.softplus(x)


@operator("Swish")
def swish(call: Call, x: Any) -> Any:
    """x sigmoid(alpha x)."""
    alpha = call.float("alpha", 1.0)
    return F.silu(x) if alpha == 1 else x * rl.sigmoid(x * alpha)


@operator("ThresholdedRelu")
def thresholded_relu(call: Call, x: Any) -> Any:
    """x above alpha, zero elsewhere."""
    return rl.where(x > call.float("alpha", 1.0), x, rl.zeros_like(x))


def _along(call: Call, x: Any, run: Any) -> Any:
    """`run` along `axis`; before opset 13 over all dims from it on, as one."""
    axis = call.int("axis", -1 if call.opset >= 13 else 1)
    if not x.ndim:
        return run(x.reshape(1), 0).reshape(())
    if call.opset >= 13:
        return run(x, axis_of(call, axis, x.ndim))
    axis = axis_of(call, axis, x.ndim) if x.ndim > 1 else 0
    if axis == x.ndim - 1:
        return run(x, axis)
    return run(as_matrix(x, axis), 1).reshape(x.shape)


@operator("Softmax")
def softmax(call: Call, x: Any) -> Any:
    """exp(x), scaled to sum to one."""
    return _along(call, x, F.softmax)


@operator("LogSoftmax")
def log_softmax(call: Call, x: Any) -> Any:
    """The logarithm of softmax."""
    return _along(call, x, F.log_softmax)


@operator("Hardmax")
def hardmax(call: Call, x: Any) -> Any:
    """One at the first largest element, zero elsewhere."""

    def largest(x: Any, dim: int) -> Any:
        if not x.numel():
            return x
        place = rl.argmax(x, dim, keepdim=True)
        count = rl.arange(x.shape[dim], device=x.device)
        count = count.reshape([-1 if d == dim else 1 for d in range(x.ndim)])
        return (count == place).to(x.dtype)

    return _along(call, x, largest)


@operator("Dropout", host=(1, 2), random=True)
def dropout(call: Call, x: Any, ratio: Any = None, training: Any = None) -> Any:
    """The input and a mask of what is kept; in training mode elements become zero at random."""
    if call.opset < 12:
        call.ignore("ratio")
    rate = float(np.asarray(ratio).reshape(-1)[0]) if ratio is not None else 0.5
    learning = training is not None and bool(np.asarray(training).reshape(-1)[0])
    generator = generator_of(call)
    if not learning or rate == 0:
        kept = rl.ones(x.shape, dtype="bool", device=x.device) if call.wanted[1:] else None
        return [x, kept if kept is None or call.opset >= 10 else kept.to(x.dtype)]
    kept = rl.rand(x.shape, device=x.device, generator=generator) >= rate
    scaled = x * kept.to(x.dtype) / (1 - rate) if rate < 1 else rl.zeros_like(x)
    return [scaled, kept]
