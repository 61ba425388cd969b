"""Convolution in two dims, and its transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import ShapeError
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.complex import view_as_complex
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.matmul import check_width
from rushlight.core.ops.movement import pad
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Pair = tuple[int, int]
Size = int | Sequence[int]


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
        rule(lambda c, g, x: CONV2D_WEIGHT(x, g.contiguous(), size=_size(c, 1), **c.attrs), 0),
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
    pair = pair * 2 if len(pair) == 1 else pair
    if len(pair) != 2 or any(not isinstance(n, int) or n < least for n in pair):
        raise ValueError(f"{name}: {what} is {value!r}; it must be one or two ints >= {least}")
    return pair[0], pair[1]


def same_pads(
    name: str, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], padding: str
) -> list[int]:
    """What `pad` takes so that sizes keep ("same"), or nothing ("valid"); ValueError otherwise."""
    if padding == "valid":
        return [0] * (2 * len(kernel))
    if padding != "same" or any(s != 1 for s in stride):
        raise ValueError(
            f"{name}: padding {padding!r} with stride {tuple(stride)} is not supported; supported: "
            'numbers, "valid", and "same" with stride 1'
        )
    totals = [d * (k - 1) for k, d in zip(reversed(kernel), reversed(dilation), strict=True)]
    return [p for total in totals for p in (total // 2, total - total // 2)]


def batched(name: str, x: Tensor, weight: Tensor, bias: Tensor | None, rank: int) -> Tensor:
    """(n, c, ...) of an input with or without n; checks what a convolution of `rank` dims takes."""
    if weight.ndim != rank + 2 or x.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{name}: input is {x.shape} and weight {weight.shape}; they must have {rank + 1} or "
            f"{rank + 2} dims and {rank + 2} dims"
        )
    for what, t in (("weight", weight), ("bias", bias)):
        if t is not None and t.dtype is not x.dtype:
            check_width(name, x, what, t)
    return x if x.ndim == rank + 2 else x.unsqueeze(0)


def _of_parts(product: Callable[[Tensor, Tensor], Tensor], x: Tensor, weight: Tensor) -> Tensor:
    """A product of complex x and weight, by those of their real and imaginary parts."""
    (a, b), (c, d) = ((v.real, v.imag) for v in (x, weight))
    parts = product(a, c) - product(b, d), product(a, d) + product(b, c)
    return view_as_complex(cat([piece.unsqueeze(-1) for piece in parts], -1))


@public
@network
@casts("low")
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of (n, c, h, w) or (c, h, w) with (out, c / groups, kh, kw).

    `padding` zeros surround the input, or "same" or "valid"; taps are `dilation` apart; channels
    are split into `groups`. Raises ShapeError naming the shapes that do not fit.

    `weight` and `bias` (out,) are floating; `stride` is how far the window moves.
    """
    x = batched("conv2d", input, weight, bias, 2)
    stride = pair_of("conv2d", "stride", stride, 1)
    dilation = pair_of("conv2d", "dilation", dilation, 1)
    if isinstance(padding, str):
        before = same_pads("conv2d", weight.shape[2:], stride, dilation, padding)
        x, padding = pad(x, before) if any(before) else x, 0
    padding = pair_of("conv2d", "padding", padding, 0)
    if groups < 1 or x.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        raise ShapeError(
            f"conv2d: x {x.shape} has {x.shape[1]} channels, weight {weight.shape} with "
            f"groups={groups} takes {weight.shape[1] * groups}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(f"conv2d: bias is {bias.shape}; it must be {weight.shape[:1]}")
    for i in range(2):
        if _out(x.shape[2 + i], weight.shape[2 + i], stride[i], padding[i], dilation[i]) < 1:
            raise ShapeError(f"conv2d: weight {weight.shape} is larger than padded x {x.shape}")
    # Kernels read weights in rows.
    weight, bias = weight.to(x.dtype).contiguous(), None if bias is None else bias.to(x.dtype)
    options: dict[str, Any] = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }
    if x.dtype.kind == "c":
        out = _of_parts(lambda a, b: CONV2D(a, b, None, **options), x, weight)
        out = out if bias is None else out + bias.reshape(1, -1, 1, 1)
    else:
        out = CONV2D(x, weight, bias, **options)
    return out if input.ndim == 4 else out.squeeze(0)


@public
@network
@casts("low")
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """The gradient of conv2d to its input as a layer: (n, c, h, w), (c, out / groups, kh, kw).

    `weight` and `bias` (out,) are floating; `stride` and `dilation` are conv2d's, `groups` parts
    the channels; `padding` cuts both ends, `output_padding` makes one longer. Raises ShapeError for
    sizes that do not fit.
    """
    x = batched("conv_transpose2d", input, weight, bias, 2)
    s, p = (
        pair_of("conv_transpose2d", "stride", stride, 1),
        pair_of("conv_transpose2d", "padding", padding, 0),
    )
    d, extra = (
        pair_of("conv_transpose2d", "dilation", dilation, 1),
        pair_of("conv_transpose2d", "output_padding", output_padding, 0),
    )
    if groups < 1 or x.shape[1] != weight.shape[0] or x.shape[1] % groups:
        raise ShapeError(
            f"conv_transpose2d: input {x.shape} has {x.shape[1]} channels, weight {weight.shape} "
            f"with groups={groups} takes {weight.shape[0]}"
        )
    h, w = (
        (x.shape[2 + i] - 1) * s[i] - 2 * p[i] + d[i] * (weight.shape[2 + i] - 1) + extra[i] + 1
        for i in range(2)
    )
    if any(e >= max(s[i], d[i]) for i, e in enumerate(extra)) or min(h, w) < 1:
        raise ShapeError(
            f"conv_transpose2d: output size ({h}, {w}) or output_padding {extra} does not fit"
        )
    weight = weight.to(x.dtype).contiguous()
    options: dict[str, Any] = {
        "size": (h, w),
        "stride": s,
        "padding": p,
        "dilation": d,
        "groups": groups,
    }
    if x.dtype.kind == "c":
        out = _of_parts(lambda a, b: CONV2D_INPUT(a, b, **options), x, weight)
    else:
        out = CONV2D_INPUT(x, weight, **options)
    out = out if bias is None else out + bias.reshape(1, -1, 1, 1)
    return out if input.ndim == 4 else out.squeeze(0)
