"""Rules of products for batches: matrices, convolutions, windows, attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.core.basis.layout import Shape
from rushlight.core.ops.attention import ATTENTION
from rushlight.core.ops.conv import CONV2D, CONV2D_INPUT, CONV2D_WEIGHT
from rushlight.core.ops.matmul import LINEAR, LINEAR_T, MATMUL, matmul
from rushlight.core.ops.movement import EXPAND
from rushlight.core.ops.windows import RESAMPLE, WINDOW_ARGMAX, WINDOW_MAX
from rushlight.core.tensor.op import Op
from rushlight.core.tensor.tensor import Tensor

Values = Sequence[Any]
Flags = Sequence[bool]


def wide(x: Tensor, per_sample: bool, size: int) -> Tensor:
    """`x` with samples along dim 0; one that is the same for all of them is repeated as a view.

    `per_sample`: x has a dim of samples already; `size` is their number. Raises nothing.
    """
    return x if per_sample else EXPAND(x, shape=(size, *x.shape))


def shape_like(x: Tensor, per_sample: bool, ndim: int) -> Tensor:
    """`x` with dims of size one after the samples', so that it broadcasts with `ndim` dims.

    `per_sample`: x has a dim of samples; without one it stays. Raises nothing.
    """
    if not per_sample:
        return x
    return x.reshape(x.shape[0], *[1] * (ndim - x.ndim), *x.shape[1:])


def _joined(x: Tensor) -> Tensor:
    """(size, n, ...) as (size * n, ...)."""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def _parted(x: Tensor, size: int) -> Tensor:
    """(size * n, ...) as (size, n, ...)."""
    return x.reshape(size, x.shape[0] // max(size, 1), *x.shape[1:])


def _matmul(size: int, values: Values, per_sample: Flags) -> Tensor:
    a, b = values
    if not per_sample[1] and b.ndim == 2:
        return matmul(a, b)
    return MATMUL(wide(a, per_sample[0], size), wide(b, per_sample[1], size))


def _rows(x: Tensor, width: int) -> Tensor:
    """(size, ..., width) as (size, rows, width)."""
    count = 1
    for n in x.shape[1:-1]:
        count *= n
    return x.reshape(x.shape[0], count, width)


def _linear(size: int, values: Values, per_sample: Flags) -> Tensor:
    x, weight, bias = values
    if not any(per_sample[1:]):
        return LINEAR(x, weight, bias)
    x = wide(x, per_sample[0], size)
    if per_sample[1]:
        out = matmul(_rows(x, x.shape[-1]), weight.to(x.dtype).mT)
        out = out.reshape(*x.shape[:-1], weight.shape[-2])
    else:
        out = LINEAR(x, weight, None)
    return out if bias is None else out + shape_like(bias, per_sample[2], out.ndim).to(x.dtype)


def _linear_t(size: int, values: Values, per_sample: Flags) -> Tensor:
    g, weight = values
    if not per_sample[1]:
        return LINEAR_T(g, weight)
    g = wide(g, per_sample[0], size)
    out = matmul(_rows(g, g.shape[-1]), weight.to(g.dtype))
    return out.reshape(*g.shape[:-1], weight.shape[-1])


def _channels(x: Tensor) -> Tensor:
    """(size, n, c, ...) as (n, size * c, ...): the samples are groups of channels."""
    x = x.transpose(0, 1)
    return x.reshape(x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])


def _samples(x: Tensor, size: int) -> Tensor:
    """(n, size * c, ...) as (size, n, c, ...)."""
    return x.reshape(x.shape[0], size, x.shape[1] // max(size, 1), *x.shape[2:]).transpose(0, 1)


def _conv(op: Any) -> Callable[..., Tensor]:
    """A convolution, or its transpose, of (n, c, h, w) with a weight."""

    def rule(size: int, values: Values, per_sample: Flags, /, **attrs: Any) -> Tensor:
        x, weight, *bias = values
        if not any(per_sample[1:]):
            return _parted(op(_joined(x), weight, *bias, **attrs), size)
        x = wide(x, per_sample[0], size)
        none: list[None] = [None] * len(bias)
        if per_sample[1]:
            attrs["groups"] *= size
            out = _samples(op(_channels(x), _joined(weight), *none, **attrs), size)
        else:
            out = _parted(op(_joined(x), weight, *none, **attrs), size)
        if bias and bias[0] is not None:
            b = wide(bias[0], per_sample[2], size)
            out = out + b.reshape(size, 1, b.shape[1], 1, 1)
        return out

    return rule


def _conv_weight(size: int, values: Values, per_sample: Flags, /, **attrs: Any) -> Tensor:
    x, g = (_channels(wide(v, w, size)) for v, w in zip(values, per_sample, strict=True))
    attrs["groups"] *= size
    return _parted(CONV2D_WEIGHT(x, g, **attrs), size)


def _windows(op: Op) -> Callable[..., Tensor]:
    def rule(size: int, values: Values, per_sample: Flags, **attrs: Any) -> Tensor:
        return _parted(op(_joined(values[0]), **attrs), size)

    return rule


def _resample(size: int, values: Values, per_sample: Flags, *, dim: int) -> Tensor:
    if any(per_sample[1:]):  # a table for each sample
        return NotImplemented  # type: ignore[no-any-return]
    return RESAMPLE(*values, dim=dim + 1)


def _attention(size: int, values: Values, per_sample: Flags, **attrs: Any) -> Tensor:
    if per_sample[7]:  # sinks are the same for every row of a batch
        return NotImplemented  # type: ignore[no-any-return]
    q, k, v = (_joined(wide(t, w, size)) for t, w in zip(values[:3], per_sample[:3], strict=True))
    n = q.shape[0] // max(size, 1)
    rest = [_beside(t, w, size, n) for t, w in zip(values[3:], per_sample[3:], strict=True)]
    return _parted(ATTENTION(q, k, v, *rest, **attrs), size)


def _beside(t: Tensor | None, per_sample: bool, size: int, n: int) -> Tensor | None:
    """A mask or another operand with a batch of 1 or n, for a batch of size * n."""
    if t is None or (not per_sample and t.ndim == 4 and t.shape[0] == 1):
        return t
    shape: Shape = t.shape[1:] if per_sample else t.shape
    return _joined(wide(t, per_sample, size).expand(size, n, *shape[1:]))


REWRITTEN: dict[str, Callable[..., Tensor]] = {
    "matmul": _matmul,
    "linear": _linear,
    "linear_t": _linear_t,
    "conv2d": _conv(CONV2D),
    "conv2d_input": _conv(CONV2D_INPUT),
    "conv2d_weight": _conv_weight,
    "window_argmax": _windows(WINDOW_ARGMAX),
    "window_max": _windows(WINDOW_MAX),
    "resample": _resample,
    "attention": _attention,
}
