"""Convolution in one and two dims, and pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.op import Context, Meta, Op, rule
from rushlight.core.ops.movement import owned
from rushlight.core.ops.movement import pad as pad_

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor

Pair = tuple[int, int]
Size = int | tuple[int, ...]


def _out(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def _infer_conv(
    x: Meta,
    weight: Meta,
    bias: Meta | None,
    *,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> Meta:
    h, w = (
        _out(x.shape[2 + i], weight.shape[2 + i], stride[i], padding[i], dilation[i])
        for i in range(2)
    )
    return x.fresh((x.shape[0], weight.shape[0], h, w))


def _infer_input(
    g: Meta,
    weight: Meta,
    *,
    size: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> Meta:
    return g.fresh((g.shape[0], weight.shape[1] * groups, *size))


def _infer_weight(
    x: Meta,
    g: Meta,
    *,
    size: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> Meta:
    return x.fresh((g.shape[1], x.shape[1] // groups, *size))


def _plain(c: Context) -> dict[str, Any]:
    return {k: v for k, v in c.attrs.items() if k != "size"}


def _size(c: Context, index: int) -> Pair:
    meta = c.inputs[index]
    assert meta is not None
    return meta.shape[2], meta.shape[3]


def _first(y: Tensor, size: Pair) -> Tensor:
    # With an output padding the window fits more often than there were elements.
    return y if y.shape[2:] == size else y[:, :, : size[0], : size[1]]


# Convolution is linear in x and in the weight, so these three are one another's gradients.
CONV2D: Op = Op(
    "conv2d",
    infer=_infer_conv,
    grads=(
        rule(lambda c, g, w: CONV2D_INPUT(g, w, size=_size(c, 0), **c.attrs), 1),
        rule(lambda c, g, x: CONV2D_WEIGHT(x, g, size=_size(c, 1), **c.attrs), 0),
        rule(lambda c, g: g.sum((0, 2, 3))),
    ),
)
CONV2D_INPUT: Op = Op(
    "conv2d_input",
    infer=_infer_input,
    grads=(
        rule(lambda c, gg, w: _first(CONV2D(gg, w, None, **_plain(c)), _size(c, 0)), 1),
        rule(lambda c, gg, g: CONV2D_WEIGHT(gg, g, size=_size(c, 1), **_plain(c)), 0),
    ),
)
CONV2D_WEIGHT: Op = Op(
    "conv2d_weight",
    infer=_infer_weight,
    grads=(
        rule(lambda c, gg, g: CONV2D_INPUT(g, gg, size=_size(c, 0), **_plain(c)), 1),
        rule(lambda c, gg, x: CONV2D(x, gg, None, **_plain(c)), 0),
    ),
)


def _pair(name: str, what: str, value: Size, least: int) -> Pair:
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or any(not isinstance(n, int) or n < least for n in pair):
        raise ValueError(f"{name}: {what} is {value!r}; it must be one or two ints >= {least}")
    return pair[0], pair[1]


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of (n, c, h, w) with (out, c / groups, kh, kw): (n, out, oh, ow).

    `padding` zeros go around; taps stand `dilation` apart; channels are split into `groups`.
    Raises ValueError naming the shapes that do not fit.
    """
    stride, padding = _pair("conv2d", "stride", stride, 1), _pair("conv2d", "padding", padding, 0)
    dilation = _pair("conv2d", "dilation", dilation, 1)
    if x.ndim != 4 or weight.ndim != 4:
        raise ValueError(f"conv2d: x {x.shape} and weight {weight.shape} must have 4 dims")
    if groups < 1 or x.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        raise ValueError(
            f"conv2d: x {x.shape} has {x.shape[1]} channels, weight {weight.shape} with "
            f"groups={groups} takes {weight.shape[1] * groups}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"conv2d: bias is {bias.shape}; it must be {weight.shape[:1]}")
    for i in range(2):
        if _out(x.shape[2 + i], weight.shape[2 + i], stride[i], padding[i], dilation[i]) < 1:
            raise ValueError(f"conv2d: weight {weight.shape} is larger than padded x {x.shape}")
    dtype = x.dtype
    return CONV2D(x, weight.to(dtype), None if bias is None else bias.to(dtype), stride=stride,
                  padding=padding, dilation=dilation, groups=groups)  # fmt: skip


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of (n, c, length) with (out, c / groups, k): (n, out, olength)."""
    if x.ndim != 3 or weight.ndim != 3:
        raise ValueError(f"conv1d: x {x.shape} and weight {weight.shape} must have 3 dims")
    out = conv2d(x.unsqueeze(2), weight.unsqueeze(2), bias, (1, stride), (0, padding),
                 (1, dilation), groups)  # fmt: skip
    return owned(out.squeeze(2))


def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """The gradient of conv2d to its input as a layer: (n, c, h, w), (c, out / groups, kh, kw)."""
    s, p = (
        _pair("conv_transpose2d", "stride", stride, 1),
        _pair("conv_transpose2d", "padding", padding, 0),
    )
    d, extra = (
        _pair("conv_transpose2d", "dilation", dilation, 1),
        _pair("conv_transpose2d", "output_padding", output_padding, 0),
    )
    if x.ndim != 4 or weight.ndim != 4 or x.shape[1] != weight.shape[0] or x.shape[1] % groups:
        raise ValueError(f"conv_transpose2d: x {x.shape} and weight {weight.shape} do not fit")
    h, w = (
        (x.shape[2 + i] - 1) * s[i] - 2 * p[i] + d[i] * (weight.shape[2 + i] - 1) + extra[i] + 1
        for i in range(2)
    )
    if any(e >= max(s[i], d[i]) for i, e in enumerate(extra)) or min(h, w) < 1:
        raise ValueError(
            f"conv_transpose2d: output size ({h}, {w}) or output_padding {extra} does not fit"
        )
    out = CONV2D_INPUT(x, weight.to(x.dtype), size=(h, w), stride=s, padding=p, dilation=d,
                       groups=groups)  # fmt: skip
    return out if bias is None else out + bias.reshape(1, -1, 1, 1)


def _windows(
    name: str, x: Tensor, kernel_size: Size, stride: Size | None, padding: Size, fill: float
) -> Tensor:
    """(..., oh, ow, kh, kw): a view of the windows of the last two dims of padded `x`."""
    k = _pair(name, "kernel_size", kernel_size, 1)
    s = k if stride is None else _pair(name, "stride", stride, 1)
    p = _pair(name, "padding", padding, 0)
    if x.ndim < 3:
        raise ValueError(f"{name}: x {x.shape} must be (channels, h, w) or (n, channels, h, w)")
    if any(2 * p[i] > k[i] for i in range(2)):
        raise ValueError(f"{name}: padding {p} is more than half of the window {k}")
    if any(x.shape[i - 2] + 2 * p[i] < k[i] for i in range(2)):
        raise ValueError(f"{name}: the window {k} is larger than padded x {x.shape}")
    if any(p):
        x = pad_(x, (p[1], p[1], p[0], p[0]), value=fill)
    return x.unfold(-2, k[0], s[0]).unfold(-2, k[1], s[1])


def max_pool2d(
    x: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0
) -> Tensor:
    """Largest element of each window of the last two dims; stride defaults to the window."""
    windows = _windows("max_pool2d", x, kernel_size, stride, padding, float("-inf"))
    flat = windows.reshape(*windows.shape[:-2], windows.shape[-2] * windows.shape[-1])
    return flat.gather(-1, flat.argmax(-1, True)).squeeze(-1)


def avg_pool2d(
    x: Tensor, kernel_size: Size, stride: Size | None = None, padding: Size = 0
) -> Tensor:
    """Mean of each window of the last two dims, padding counted as zeros (as torch's default)."""
    return _windows("avg_pool2d", x, kernel_size, stride, padding, 0.0).mean((-2, -1))
