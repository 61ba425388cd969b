"""Activations of networks made of elementwise ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.functional.clamping import clamp
from rushlight.core.ops.binary import where
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.inplace import copy_

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _into(x: Tensor, out: Tensor, inplace: bool) -> Tensor:
    return copy_(x, out) if inplace else out


@network
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above zero, alpha * (exp(x) - 1) below."""
    # The exponential of positive x would overflow, and its gradient with it.
    low = clamp(input, max=0).expm1() * alpha
    return _into(input, where(input > 0, input, low), inplace)


@public
@network
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x above zero, alpha * (exp(x / alpha) - 1) below."""
    low = (clamp(input, max=0) / alpha).expm1() * alpha
    return _into(input, where(input > 0, input, low), inplace)


@public
@network
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu with the two constants of Klambauer et al. (2017)."""
    scale, alpha = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
    return _into(input, elu(input, alpha) * scale, inplace)


@network
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x above zero, negative_slope * x below."""
    return _into(input, where(input > 0, input, input * negative_slope), inplace)


@public
@network
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x above zero, weight * x below; one weight, or one for each channel (dim 1)."""
    if weight.numel() != 1 and input.ndim > 1:
        weight = weight.reshape(-1, *[1] * (input.ndim - 2))
    elif weight.ndim and not input.ndim:
        weight = weight.reshape(())
    return where(input > 0, input, input * weight)


@network
def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x limited to [min_val, max_val]; no gradient at the bounds."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is above max_val {max_val}")
    low, high = input <= min_val, input >= max_val
    return _into(input, input.masked_fill(low, min_val).masked_fill(high, max_val), inplace)


@network
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


@network
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1 / 2, limited to [0, 1]."""
    return _into(input, hardtanh(input + 3, 0.0, 6.0) / 6, inplace)


@network
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x)."""
    return _into(input, input * hardsigmoid(input), inplace)


@network
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, zero within [-lambd, lambd]."""
    return input.masked_fill((input >= -lambd).logical_and(input <= lambd), 0)


@network
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved by lambd towards zero, zero within [-lambd, lambd]."""
    moved = input - where(input > 0, lambd, -lambd).to(input.dtype)
    return moved.masked_fill((input >= -lambd).logical_and(input <= lambd), 0)


@network
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - input.tanh()


@network
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    big = input * beta > threshold
    soft = (input.masked_fill(big, 0) * beta).exp().log1p() / beta
    return where(big, input, soft)


@network
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


@network
def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)) without overflow."""
    # (x - |x|) / 2 is min(x, 0), with half the gradient at zero, which is right for the sum.
    return (input - input.abs()) * 0.5 - (-input.abs()).exp().log1p()


@network
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)) (Misra, 2019)."""
    return _into(input, input * softplus(input).tanh(), inplace)


@public
@network
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above the threshold, `value` elsewhere."""
    return _into(input, input.masked_fill(input <= threshold, value), inplace)


@network
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of `dim` times the sigmoid of the second."""
    if not input.ndim or input.shape[dim] % 2:
        raise ValueError(f"glu: dim {dim} of shape {input.shape} cannot be halved")
    first, second = input.chunk(2, dim)
    return first * second.sigmoid()


@network
def softmin(input: Tensor, dim: int = -1) -> Tensor:
    """softmax of -x."""
    return (-input).softmax(dim)
