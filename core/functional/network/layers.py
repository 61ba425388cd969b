"""Convolutions of one and three dims, norms, dropouts and bags of embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.functional.network.pooling import avg_pool2d, each
from rushlight.core.functional.normalization import batch_norm
from rushlight.core.functional.random import dropout
from rushlight.core.ops.conv import conv2d, conv_transpose2d
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.inplace import copy_
from rushlight.core.ops.movement import pad
from rushlight.core.ops.random import rand

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Size = int | Sequence[int]
_ALPHA = -1.7580993408473766  # what SELU gives for -infinity


@public
@network
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Size = 1, padding: Any = 0,
    dilation: Size = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of (n, c, d, h, w) with (out, c / groups, kd, kh, kw).

    The sum over the depth of the window of convolutions over the other two dims.
    """
    x = input if input.ndim == 5 else input.unsqueeze(0)
    s, d = each("conv3d", stride, 3), each("conv3d", dilation, 3)
    k = weight.shape[2:]
    if isinstance(padding, str):
        x, p = pad(x, same_pads("conv3d", k, s, d, padding)), (0, 0, 0)
    else:
        p = each("conv3d", padding, 3)  # type: ignore[assignment]
    x = pad(x, (0, 0, 0, 0, p[0], p[0])) if p[0] else x
    n, c, depth, h, w = x.shape
    out = (depth - d[0] * (k[0] - 1) - 1) // s[0] + 1
    if out < 1:
        raise ValueError(f"conv3d: the window {k} is larger than padded x {x.shape}")
    total = None
    for i in range(k[0]):
        # Slices of the depth become rows of a batch.
        part = x[:, :, i * d[0] : i * d[0] + (out - 1) * s[0] + 1 : s[0]]
        rows = part.transpose(1, 2).reshape(n * out, c, h, w)
        one = conv2d(rows, weight[:, :, i], None, s[1:], p[1:], d[1:], groups)
        total = one if total is None else total + one
    assert total is not None
    found = total.reshape(n, out, *total.shape[1:]).transpose(1, 2)
    if bias is not None:
        found = found + bias.reshape(-1, 1, 1, 1)
    return found if input.ndim == 5 else found.squeeze(0)


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


@public
@network
def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Size = 1,
    padding: Size = 0, output_padding: Size = 0, groups: int = 1, dilation: Size = 1,
) -> Tensor:  # fmt: skip
    """The gradient of a convolution over one dim: (n, c, length) -> (n, out, length')."""
    x = input if input.ndim == 3 else input.unsqueeze(0)
    (s,), (p,), (o,), (d,) = (each("conv_transpose1d", v, 1)
                              for v in (stride, padding, output_padding, dilation))  # fmt: skip
    out = conv_transpose2d(x.unsqueeze(2), weight.unsqueeze(2), bias, (1, s), (0, p), (0, o),
                           groups, (1, d)).squeeze(2)  # fmt: skip
    return out if input.ndim == 3 else out.squeeze(0)


@network
def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Each channel of each row normalized over its own elements (Ulyanov et al., 2016)."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    n, c = input.shape[:2]
    rows = input.reshape(1, n * c, *input.shape[2:])
    mean = None if running_mean is None else running_mean.repeat(n)
    var = None if running_var is None else running_var.repeat(n)
    out = batch_norm(rows, mean, var, None, None, True, momentum, eps).reshape(*input.shape)
    for kept, found in ((running_mean, mean), (running_var, var)):
        if kept is not None and found is not None:
            kept.copy_(found.reshape(n, c).mean(0))
    shape = [-1 if d == 1 else 1 for d in range(input.ndim)]
    out = out if weight is None else out * weight.reshape(*shape)
    return out if bias is None else out + bias.reshape(*shape)


@network
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * the mean square of `size` neighbouring channels)^beta."""
    if input.ndim < 3:
        raise ValueError(f"local_response_norm: x is {input.shape}; it must have 3 dims or more")
    squares = input.square()
    n, c = input.shape[:2]
    flat = squares.reshape(n, 1, c, -1)
    padded = pad(flat, (0, 0, size // 2, (size - 1) // 2))
    mean = avg_pool2d(padded, (size, 1), 1).reshape(*input.shape)
    return input / (mean * alpha + k) ** beta


def _by_channel(name: str, x: Tensor, p: float, training: bool, least: int) -> Tensor:
    """Whole channels set to zero."""
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: p is {p}; it must be between 0 and 1")
    if not training or p == 0:
        return x
    batched = x.ndim > least
    shape = x.shape[: 2 if batched else 1]
    ones = x.detach().new_ones(*shape)
    kept: Tensor = dropout(ones, p).reshape(*shape, *[1] * (x.ndim - len(shape)))
    return x * kept


@network
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (n, c, length) set to zero, the others divided by 1 - p."""
    out = _by_channel("dropout1d", input, p, training, 2)
    return copy_(input, out) if inplace and out is not input else out


@network
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (n, c, h, w) set to zero, the others divided by 1 - p."""
    out = _by_channel("dropout2d", input, p, training, 3)
    return copy_(input, out) if inplace and out is not input else out


@network
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Whole channels of (n, c, d, h, w) set to zero, the others divided by 1 - p."""
    out = _by_channel("dropout3d", input, p, training, 4)
    return copy_(input, out) if inplace and out is not input else out


@network
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Elements set to SELU's lower end, scaled so that mean and variance keep."""
    if not 0 <= p <= 1:
        raise ValueError(f"alpha_dropout: p is {p}; it must be between 0 and 1")
    if not training or p == 0:
        return input
    if p == 1:
        return copy_(input, input * 0) if inplace else input * 0
    kept = (rand(*input.shape, dtype=input.dtype, device=input.device) >= p).to(input.dtype)
    a = ((1 - p) * (1 + p * _ALPHA**2)) ** -0.5
    out: Tensor = (input * kept + _ALPHA * (1 - kept)) * a - a * _ALPHA * p
    return copy_(input, out) if inplace else out


@public
@network
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, mode: str = "mean",
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sums, means or maxima of rows of `weight`: of each row of (n, k), or from `offsets` on.

    per_sample_weights multiply the rows ("sum" only). Rows at padding_idx do not count.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f'embedding_bag: mode is {mode!r}; it must be "sum", "mean" or "max"')
    if per_sample_weights is not None and mode != "sum":
        raise ValueError(f'embedding_bag: per_sample_weights need mode="sum", not {mode!r}')
    if input.ndim == 2:
        bags = list(input.unbind(0))
        shares = list(per_sample_weights.unbind(0)) if per_sample_weights is not None else None
    else:
        if offsets is None:
            raise ValueError("embedding_bag: 1-d input needs offsets")
        starts = [int(v) for v in offsets.tolist()]
        starts += [] if include_last_offset else [input.shape[0]]
        pairs = list(zip(starts, starts[1:], strict=False))
        bags = [input[a:b] for a, b in pairs]
        flat = per_sample_weights
        shares = None if flat is None else [flat[a:b] for a, b in pairs]
    from rushlight.core.functional.pieces import stack
    from rushlight.core.ops.indexing import embedding

    found = []
    for i, bag in enumerate(bags):
        if padding_idx is not None:
            used = (bag != padding_idx).nonzero().reshape(-1)
            bag = bag[used]
        rows = embedding(weight, bag)
        if shares is not None:
            share = shares[i] if padding_idx is None else shares[i][used]
            rows = rows * share.unsqueeze(1)
        if not bag.shape[0]:
            found.append(weight.new_zeros(weight.shape[1]))
        elif mode == "max":
            found.append(rows.amax(0))
        else:
            found.append(rows.sum(0) if mode == "sum" else rows.mean(0))
    return stack(found)
