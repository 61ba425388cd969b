"""Products of com.microsoft with what is fused to them: transposition, scale, activation."""

from __future__ import annotations

from typing import Any

from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.operators.microsoft.activations import by_name
from rushlight.core.onnx.operators.microsoft.entering import contrib, like
from rushlight.core.onnx.registry import Call


def _turned(x: Any, last: bool, batch: bool) -> Any:
    """A matrix, or its batch dims, transposed as FusedMatMul says.

    batch: the dim before the last comes first, and the others follow in order.
    """
    if batch and x.ndim > 2:
        order = [*range(1, x.ndim - 1), 0, x.ndim - 1]
        x = x.permute(*order)
    return x.transpose(-1, -2) if last and x.ndim > 1 else x


def _fused_matmul(call: Call, a: Any, b: Any) -> Any:
    alpha = call.float("alpha", 1.0)
    a = _turned(a, call.flag("transA"), call.flag("transBatchA"))
    b = _turned(b.to(a.dtype), call.flag("transB"), call.flag("transBatchB"))
    result = rl.matmul(a, b)
    return result if alpha == 1.0 else result * alpha


@contrib("FusedMatMul", "TransposeMatMul", "SparseToDenseMatMul", stored=(1,))
def fused_matmul(call: Call, a: Any, b: Any) -> Any:
    """The product of matrices, which may be transposed, times alpha."""
    return _fused_matmul(call, a, b)


@contrib("FusedMatMulActivation", stored=(1,))
def fused_matmul_activation(call: Call, a: Any, b: Any) -> Any:
    """An activation of the product of matrices, which may be transposed, times alpha."""
    names = ("activation_alpha", "activation_beta", "activation_gamma", "activation_axis")
    call.ignore(*names)
    params = [call.float(n) for n in names[:3] if call.has(n)]
    name = call.text("activation", "")
    if name == "Softmax":
        return rl.softmax(_fused_matmul(call, a, b), call.int("activation_axis", -1))
    return by_name(call, name, params)(_fused_matmul(call, a, b))


@contrib("FusedGemm", stored=(1,))
def fused_gemm(call: Call, a: Any, b: Any, c: Any = None) -> Any:
    """An activation of alpha a b + beta c."""
    alpha, beta = call.float("alpha", 1.0), call.float("beta", 1.0)
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    params = [call.float(n) for n in names if call.has(n)]
    a = a.t() if call.flag("transA") else a
    b = b.t() if call.flag("transB") else b
    total = rl.matmul(a, b.to(a.dtype))
    total = total if alpha == 1.0 else total * alpha
    if c is not None:
        total = total + (c if beta == 1.0 else c * beta)
    return by_name(call, call.text("activation", ""), params)(total)


@contrib("GemmFastGelu", stored=(1,))
def gemm_fast_gelu(call: Call, x: Any, weight: Any, bias: Any = None) -> Any:
    """Gelu by its tanh formula of a product and a bias."""
    total = rl.matmul(x, weight.to(x.dtype))
    return F.gelu(total if bias is None else total + bias, approximate="tanh")


def _fused_conv(call: Call, x: Any, weight: Any, bias: Any, more: Any, last: bool) -> Any:
    """An activation of a convolution and a residual; last: channels lie last."""
    params = call.floats("activation_params", [])
    name = call.text("activation", "")
    first = rl.movedim(x, -1, 1) if last else x
    total = like(call, "Conv", first, weight, bias)
    total = rl.movedim(total, 1, -1) if last else total
    total = total if more is None else total + more
    return by_name(call, name, list(params))(total)


@contrib("FusedConv", stored=(1,))
def fused_conv(call: Call, x: Any, weight: Any, bias: Any = None, more: Any = None) -> Any:
    """An activation of a convolution plus a residual."""
    return _fused_conv(call, x, weight, bias, more, False)


@contrib("NhwcConv", "NhwcFusedConv", stored=(1,))
def nhwc_fused_conv(call: Call, x: Any, weight: Any, bias: Any = None, more: Any = None) -> Any:
    """An activation of a convolution plus a residual, with channels last."""
    return _fused_conv(call, x, weight, bias, more, True)
