"""Activations under torch's names; `inplace` is accepted and writes over the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import float64
from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.pointwise import clamp
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import maximum, where
from rushlight.core.ops.common import floating
from rushlight.core.ops.creation import zeros
from rushlight.core.ops.declare import method, network, public
from rushlight.core.ops.inplace import copy_
from rushlight.core.ops.norm import softmax
from rushlight.core.ops.random import rand
from rushlight.core.ops.unary import abs, exp, expm1, log, log1p, sigmoid, tanh
from rushlight.core.ops.unary import relu as _relu
from rushlight.core.ops.unary import silu as _silu
from rushlight.core.tensor.autograd import needs_gradient

if TYPE_CHECKING:
    from rushlight.core.backends import Generator
    from rushlight.core.basis.dtype import DType
    from rushlight.core.tensor.tensor import Tensor


_ALPHA, _SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def done(x: Tensor, out: Tensor, inplace: bool) -> Tensor:
    """The result, written over `x` if `inplace`."""
    return copy_(x, out) if inplace else out


def before(x: Tensor, inplace: bool) -> Tensor:
    """What a function that saves its input computes with: a copy of what will be written over."""
    return x.clone() if inplace and needs_gradient(x) else x


@network
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return done(input, _relu(input), inplace)


@network
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x) (Elfwing et al., 2017)."""
    return done(input, _silu(before(input, inplace)), inplace)


@network
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, and negative_slope * x below zero.

    `input` is any floating tensor (Maas et al., 2013). `inplace` writes the result over the input,
    and raises RuntimeError for a leaf that needs a gradient.
    """
    return done(input, where(input > 0, input, input * negative_slope), inplace)


@public
@network
@method()
@casts("low")
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x, and weight * x below zero; one weight, or one per channel (dim 1)."""
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise ShapeError(f"prelu: weight is {weight.shape}; it must hold 1 or {channels} numbers")
    if weight.numel() != 1 and input.ndim > 1:
        weight = weight.reshape(*[-1 if d == 1 else 1 for d in range(input.ndim)])
    elif weight.numel() == 1:
        weight = weight.reshape()
    # Of positive numbers no gradient is multiplied by the weight, which may be nan or infinite.
    above = input > 0
    return where(above, input, input.masked_fill(above, 0.0) * weight)


@network
def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """`leaky_relu` with a random slope per element in training, the mean slope otherwise.

    `input` is any floating tensor; slopes are from `lower` to `upper` (Xu et al., 2015). `inplace`
    writes the result over it. Raises ValueError for bounds in the wrong order.
    """
    if lower > upper:
        raise ValueError(f"rrelu: lower {lower} is more than upper {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = rand(*input.shape, dtype=input.dtype, device=input.device) * (upper - lower) + lower
    return done(input, where(input > 0, input, input * slope), inplace)


@network
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x) - 1) below zero (Clevert et al., 2016).

    `input` is any floating tensor. `inplace` writes the result over the input, and raises
    RuntimeError for a leaf that needs a gradient.
    """
    below = alpha * expm1(where(input > 0, 0.0, input))
    return done(input, where(input > 0, input, below), inplace)


@public
@network
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu` scaled so that means and variances keep (Klambauer et al., 2017)."""
    return done(input, elu(input, _ALPHA) * _SCALE, inplace)


@public
@network
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x / alpha) - 1) below zero (Barron, 2017).

    `input` is any floating tensor. `inplace` writes the result over the input, and raises
    RuntimeError for a leaf that needs a gradient. Raises ValueError for an alpha of 0.
    """
    if alpha == 0:
        raise ValueError("celu: alpha is 0; x / alpha is not defined")
    below = alpha * expm1(where(input > 0, 0.0, input) / alpha)
    return done(input, where(input > 0, input, below), inplace)


@network
def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x limited to [min_val, max_val]; at a bound there is no gradient.

    `input` is any tensor; `inplace` writes the result over it. Raises ValueError for bounds in the
    wrong order.
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is more than max_val {max_val}")
    if needs_gradient(input):
        out = where(input <= min_val, min_val, where(input >= max_val, max_val, input))
    else:
        out = clamp(input, min_val, max_val)
    return done(input, out.to(input.dtype), inplace)


@network
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


@network
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(x + 3) / 6 limited to [0, 1]."""
    return done(input, hardtanh(input + 3, 0.0, 6.0) / 6, inplace)


@network
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x times `hardsigmoid` (Howard et al., 2019)."""
    x = before(input, inplace)
    return done(input, x * hardtanh(x + 3, 0.0, 6.0) / 6, inplace)


@network
@casts(accelerator="float32")
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold.

    `input` is any floating tensor. It raises nothing of its own.
    """
    x = input if beta == 1 else input * beta
    # The gradient of maximum is half each at equality, which is right at x = 0.
    smooth = maximum(x, zeros(dtype=x.dtype, device=x.device)) + log1p(exp(-abs(x)))
    if beta == 1 and threshold >= 17 and x.dtype is not float64:
        return smooth  # beyond 17 what is added is less than half a step of x
    return where(x > threshold, input, smooth if beta == 1 else smooth / beta)


@network
def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)) without overflow."""
    return where(input < 0, input, 0.0) - log1p(exp(-where(input < 0, -input, input)))


@network
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x)) (Misra, 2020)."""
    x = before(input, inplace)
    return done(input, x * tanh(softplus(x)), inplace)


@network
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return input / (1 + abs(input))


@network
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    return input - tanh(input)


@network
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved by lambd towards zero, zero where it is nearer."""
    if lambd < 0:
        raise ValueError(f"softshrink: lambd is {lambd}; it must not be negative")
    zero = input * 0.0
    return where(input > lambd, input - lambd, where(input < -lambd, input + lambd, zero))


@public
@network
@method()
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, and zero where |x| <= lambd."""
    return where(abs(input) <= lambd, 0.0, input).to(input.dtype)


@public
@network
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x where it is above `threshold`, else `value`.

    `input` is any tensor; `inplace` writes the result over it, and raises RuntimeError for a leaf
    that needs a gradient.
    """
    return done(input, where(input <= threshold, value, input).to(input.dtype), inplace)


@network
@casts(accelerator="float32")
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | str | None = None
) -> Tensor:
    """softmax of -x; -x is converted to `dtype` where that is given.

    `input` is floating; `dim` as in softmax. Raises IndexError for a dim that there is not.
    """
    return softmax(-input, dim, dtype=dtype)


@network
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b) of the two halves of `dim` (Dauphin et al., 2017)."""
    d = normalize_dim("glu", dim, input.shape)
    if input.ndim == 0 or input.shape[d] % 2:
        raise ShapeError(f"glu: dim {dim} of {input.shape} is not even")
    a, b = input.chunk(2, d)
    return a * sigmoid(b)


@network
def gumbel_softmax(
    logits: Tensor,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
    generator: Generator | None = None,
) -> Tensor:
    """softmax((logits + Gumbel noise) / tau); `hard` gives one-hot rows with its gradient.

    eps is not used, as in torch.

    `dim` has the classes. `generator` draws the numbers, the device's unless set. Raises IndexError
    for a dim that there is not (Jang et al., 2016).
    """
    logits = floating("gumbel_softmax", logits)
    u = rand(*logits.shape, dtype=logits.dtype, device=logits.device, generator=generator)
    noise = -log(-log(u.clamp(1e-20, 1 - 6e-8)))
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.detach().argmax(dim, True)
    return soft.detach().zeros_like().scatter(dim, index, 1.0) - soft.detach() + soft


def _in_place(fn: Any) -> Any:
    def call(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return copy_(input, fn(input, *args, **kwargs))

    call.__name__ = call.__qualname__ = f"{fn.__name__}_"
    call.__doc__ = (
        f"`{fn.__name__}`, with its `args` and `kwargs`, written over the input. Raises "
        "RuntimeError for a leaf that needs a gradient."
    )
    return network(call)


celu_, elu_, hardtanh_, relu_ = (_in_place(f) for f in (celu, elu, hardtanh, relu))


leaky_relu_, rrelu_ = _in_place(leaky_relu), _in_place(rrelu)


selu_, threshold_ = _in_place(selu), _in_place(threshold)
