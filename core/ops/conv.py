"""Convolution in two dims, and its transpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.ops.declare import network, public
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

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
    # With an output padding there are more windows than elements.
    return y if y.shape[2:] == size else y[:, :, : size[0], : size[1]]


# Convolution is linear in x and in the weight, so these three ops are each other's gradients.
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


def pair_of(name: str, what: str, value: Size, least: int) -> Pair:
    """An option for two dims, passed as one or two ints of at least `least`."""
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or any(not isinstance(n, int) or n < least for n in pair):
        raise ValueError(f"{name}: {what} is {value!r}; it must be one or two ints >= {least}")
    return pair[0], pair[1]


@public
@network
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

    `padding` zeros surround x; taps are `dilation` apart; channels are split into `groups`.
    Raises ValueError naming the shapes that do not fit.
    """
    stride, padding = (
        pair_of("conv2d", "stride", stride, 1),
        pair_of("conv2d", "padding", padding, 0),
    )
    dilation = pair_of("conv2d", "dilation", dilation, 1)
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


@public
@network
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
        pair_of("conv_transpose2d", "stride", stride, 1),
        pair_of("conv_transpose2d", "padding", padding, 0),
    )
    d, extra = (
        pair_of("conv_transpose2d", "dilation", dilation, 1),
        pair_of("conv_transpose2d", "output_padding", output_padding, 0),
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
