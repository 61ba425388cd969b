"""Convolutions of one and three dims, their transposes, and windows as columns and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.network.pooling import Size, each
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.conv import batched, conv2d, conv_transpose2d, same_pads
from rushlight.core.ops.creation import arange, zeros
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.movement import owned, pad
from rushlight.core.ops.movement import pad as _pad

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _sliding(
    name: str, x: Tensor, kernel: Size, dilation: Size, padding: Size, stride: Size
) -> Tensor:
    """(n, c, oh, ow, kh, kw) of (n, c, h, w)."""
    k, d, p, s = (each(name, v, 2) for v in (kernel, dilation, padding, stride))
    x = _pad(x, (p[1], p[1], p[0], p[0])) if any(p) else x
    for i in range(2):
        if (k[i] - 1) * d[i] >= x.shape[2 + i]:
            raise ShapeError(f"{name}: the window {k} is larger than padded x {x.shape}")
        x = x.unfold(2 + i, k[i], s[i], dilation=d[i])
    return x


@network
def unfold(
    input: Tensor, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
) -> Tensor:
    """Windows of (n, c, h, w) as columns: (n, c * kh * kw, count).

    `input` may lack n; `kernel_size`, `dilation`, `padding` and `stride` are an int or two. Raises
    ShapeError where no window fits.
    """
    x = input if input.ndim == 4 else input.unsqueeze(0)
    windows = _sliding("unfold", x, kernel_size, dilation, padding, stride)
    n, c, oh, ow, kh, kw = windows.shape
    columns = windows.permute(0, 1, 4, 5, 2, 3).reshape(n, c * kh * kw, oh * ow)
    return columns if input.ndim == 4 else columns.squeeze(0)


@network
def fold(
    input: Tensor,
    output_size: Size,
    kernel_size: Size,
    dilation: Size = 1,
    padding: Size = 0,
    stride: Size = 1,
) -> Tensor:
    """Columns (n, c * kh * kw, count) added up to images (n, c, h, w), where `unfold` took them.

    `input` may lack n; `output_size`, `kernel_size`, `dilation`, `padding` and `stride` are an int
    or two. Raises ShapeError for other counts of windows.
    """
    h, w = each("fold", output_size, 2)
    k = each("fold", kernel_size, 2)
    p = each("fold", padding, 2)
    x = input if input.ndim == 3 else input.unsqueeze(0)
    if x.ndim != 3 or min(k) < 1:
        raise ShapeError(
            f"fold: input is {input.shape}, kernel_size {kernel_size}; the input must "
            "have 2 or 3 dims, the kernel a size"
        )
    n, rows, count = x.shape
    c = rows // (k[0] * k[1])
    wide, tall = w + 2 * p[1], h + 2 * p[0]
    places = arange(tall * wide, device=x.device).reshape(1, 1, tall, wide)
    positions = unfold(places, kernel_size, dilation, 0, stride)
    if positions.shape[-1] != count or rows % (k[0] * k[1]):
        raise ShapeError(
            f"fold: {input.shape} does not fit output_size {(h, w)}, which has "
            f"{positions.shape[-1]} windows of {k[0] * k[1]}"
        )
    flat = x.reshape(n, c, k[0] * k[1] * count)
    out = zeros(n, c, tall * wide, dtype=x.dtype, device=x.device)
    out = out.index_add(2, positions.reshape(-1), flat).reshape(n, c, tall, wide)
    out = out[:, :, p[0] : p[0] + h, p[1] : p[1] + w]
    return out if input.ndim == 3 else out.squeeze(0)


@public
@network
@casts("low")
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of (n, c, length) or (c, length) with (out, c / groups, k).

    padding: zeros on both sides, or "same" or "valid".

    `input`, `weight` and `bias` (out,) are floating. `stride` and `dilation` are an int or one per
    dim; `groups` parts the channels. Raises ShapeError for sizes that do not fit, or groups that do
    not divide the channels.
    """
    x = batched("conv1d", input, weight, bias, 1)
    (s,), (d,) = each("conv1d", stride, 1), each("conv1d", dilation, 1)
    across = padding if isinstance(padding, str) else (0, *each("conv1d", padding, 1))
    out = conv2d(x.unsqueeze(2), weight.unsqueeze(2), bias, (1, s), across, (1, d), groups)
    return owned(out.squeeze(2) if input.ndim == 3 else out.reshape(*out.shape[1::2]))


@public
@network
@casts("low")
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size | str = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlation of (n, c, d, h, w) or (c, d, h, w) with (out, c / groups, kd, kh, kw).

    The sum over the depth of the window of convolutions over the other two dims.

    `input`, `weight` and `bias` (out,) are floating; `padding`: zeros on both sides, or "same" or
    "valid". `stride` and `dilation` are an int or one per dim; `groups` parts the channels. Raises
    ShapeError for sizes that do not fit, or groups that do not divide the channels.
    """
    x = batched("conv3d", input, weight, bias, 3)
    s, d = each("conv3d", stride, 3), each("conv3d", dilation, 3)
    k = weight.shape[2:]
    if isinstance(padding, str):
        x, p = pad(x, same_pads("conv3d", k, s, d, padding)), (0, 0, 0)
    else:
        p = each("conv3d", padding, 3)  # type: ignore[assignment]
    x = pad(x, (0, 0, 0, 0, p[0], p[0])) if p[0] else x
    n, c, depth, h, w = x.shape
    if min(s) < 1 or (out := (depth - d[0] * (k[0] - 1) - 1) // s[0] + 1) < 1:
        raise ShapeError(f"conv3d: the window {k} with stride {s} does not fit padded x {x.shape}")
    total = None
    for i in range(k[0]):
        # Slices of the depth become rows of a batch.
        slab = x[:, :, i * d[0] : i * d[0] + (out - 1) * s[0] + 1 : s[0]]
        rows = slab.transpose(1, 2).reshape(n * out, c, h, w)
        term = conv2d(rows, weight[:, :, i], None, s[1:], p[1:], d[1:], groups)
        total = term if total is None else total + term
    if total is None:
        raise ShapeError(f"conv3d: weight {weight.shape} is empty")
    result = total.reshape(n, out, *total.shape[1:]).transpose(1, 2)
    if bias is not None:
        result = result + bias.reshape(-1, 1, 1, 1)
    return result if input.ndim == 5 else result.squeeze(0)


@public
@network
@casts("low")
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """The gradient of a convolution over one dim: (n, c, length) -> (n, out, length').

    `input` with `weight` (c, out / groups, k) and `bias` (out,); `padding` cuts both ends,
    `output_padding` makes one longer. `stride` and `dilation` are an int or one per dim; `groups`
    parts the channels. Raises ShapeError for sizes that do not fit, or groups that do not divide
    the channels.
    """
    x = batched("conv_transpose1d", input, weight, bias, 1)
    (s,), (p,), (o,), (d,) = (
        each("conv_transpose1d", v, 1) for v in (stride, padding, output_padding, dilation)
    )
    out = conv_transpose2d(
        x.unsqueeze(2), weight.unsqueeze(2), bias, (1, s), (0, p), (0, o), groups, (1, d)
    ).squeeze(2)
    return out if input.ndim == 3 else out.squeeze(0)


@public
@network
@casts("low")
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
) -> Tensor:
    """The gradient of a convolution over three dims: (n, c, d, h, w) -> (n, out, d', h', w').

    `input` with `weight` (c, out / groups, kd, kh, kw) and `bias` (out,); `padding` cuts both ends,
    `output_padding` makes one longer. `stride` and `dilation` are an int or one per dim; `groups`
    parts the channels. Raises ShapeError for sizes that do not fit, or groups that do not divide
    the channels.
    """
    name = "conv_transpose3d"
    x = batched(name, input, weight, bias, 3)
    s, p, o, d = (each(name, v, 3) for v in (stride, padding, output_padding, dilation))
    n, c, depth, h, w = x.shape
    k = weight.shape[2]
    long = (depth - 1) * s[0] + d[0] * (k - 1) + 1 + o[0]
    if o[0] >= max(s[0], d[0]) or long - 2 * p[0] < 1 or depth < 1 or k < 1:
        raise ShapeError(
            f"{name}: output depth {long - 2 * p[0]} or output_padding {o} does not fit"
        )
    rows = x.transpose(1, 2).reshape(n * depth, c, h, w)
    total = None
    for i in range(k):
        # Slices of the depth become rows of a batch; each lands `s` after the one before it.
        term = conv_transpose2d(rows, weight[:, :, i], None, s[1:], p[1:], o[1:], groups, d[1:])
        term = term.reshape(n, depth, 1, *term.shape[1:])
        term = pad(term, (0, 0, 0, 0, 0, 0, 0, s[0] - 1)).reshape(n, depth * s[0], *term.shape[3:])
        term = term[:, : (depth - 1) * s[0] + 1]
        term = pad(term, (0, 0, 0, 0, 0, 0, i * d[0], long - i * d[0] - term.shape[1]))
        total = term if total is None else total + term
    assert total is not None
    result = total[:, p[0] : long - p[0]].transpose(1, 2)
    if bias is not None:
        result = result + bias.reshape(-1, 1, 1, 1)
    return result if input.ndim == 5 else result.squeeze(0)
