"""NumPy kernels of convolution and its two gradients, as matrix products over windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends.elementwise import ELEMENTWISE

Array = npt.NDArray[Any]
Pair = tuple[int, int]


def _padded(x: Array, padding: Pair) -> Array:
    a, b = padding
    return np.pad(x, ((0, 0), (0, 0), (a, a), (b, b))) if a or b else x


def _windows(x: Array, kernel: Pair, out: Pair, stride: Pair, dilation: Pair) -> Array:
    """(n, c, oh, ow, kh, kw): a view of the windows of padded `x`."""
    n, c, h, w = x.strides
    shape = (*x.shape[:2], *out, *kernel)
    strides = (n, c, h * stride[0], w * stride[1], h * dilation[0], w * dilation[1])
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def _conv2d(
    out: Array,
    x: Array,
    weight: Array,
    bias: Array | None,
    *more: Array,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    tail: Sequence[tuple[str, int, int]] = (),
) -> None:
    n, o, oh, ow = out.shape
    c, kernel = weight.shape[1], (weight.shape[2], weight.shape[3])
    if out.size == 0:
        return
    views = _windows(_padded(x, padding), kernel, (oh, ow), stride, dilation)
    per = o // groups
    for g in range(groups):
        group = views[:, g * c : (g + 1) * c].transpose(0, 2, 3, 1, 4, 5)
        columns = group.reshape(n * oh * ow, c * kernel[0] * kernel[1])
        rows = weight[g * per : (g + 1) * per].reshape(per, -1)
        result = np.matmul(columns, rows.T).reshape(n, oh, ow, per)
        out[:, g * per : (g + 1) * per] = result.transpose(0, 3, 1, 2)
    if bias is not None:
        out += bias.reshape(1, -1, 1, 1)
    values = [out]
    for name, *operands in tail:
        op = ELEMENTWISE[name]
        read = [more[i] if i >= 0 else values[~i] for i in operands[: op.arity]]
        values.append(np.empty_like(out))
        op.numpy(*read, out=values[-1])
    if tail:
        out[...] = values[-1]


def _conv2d_input(
    out: Array,
    grad: Array,
    weight: Array,
    *,
    size: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> None:
    n, o, oh, ow = grad.shape
    c, kh, kw = weight.shape[1:]
    per = o // groups
    full = np.zeros((n, c * groups, size[0] + 2 * padding[0], size[1] + 2 * padding[1]), out.dtype)
    for g in range(groups):
        rows = grad[:, g * per : (g + 1) * per].transpose(0, 2, 3, 1).reshape(n * oh * ow, per)
        flat = weight[g * per : (g + 1) * per].reshape(per, c * kh * kw)
        columns = np.matmul(rows, flat).reshape(n, oh, ow, c, kh, kw).transpose(0, 3, 1, 2, 4, 5)
        target = full[:, g * c : (g + 1) * c]
        for i in range(kh):
            for j in range(kw):
                y, x = i * dilation[0], j * dilation[1]
                target[
                    :,
                    :,
                    y : y + (oh - 1) * stride[0] + 1 : stride[0],
                    x : x + (ow - 1) * stride[1] + 1 : stride[1],
                ] += columns[..., i, j]
    a, b = padding
    out[...] = full[:, :, a : a + size[0], b : b + size[1]]


def _conv2d_weight(
    out: Array,
    x: Array,
    grad: Array,
    *,
    size: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> None:
    n, o, oh, ow = grad.shape
    c, per = out.shape[1], o // groups
    views = _windows(_padded(x, padding), size, (oh, ow), stride, dilation)
    for g in range(groups):
        group = views[:, g * c : (g + 1) * c].transpose(0, 2, 3, 1, 4, 5)
        columns = group.reshape(n * oh * ow, c * size[0] * size[1])
        rows = grad[:, g * per : (g + 1) * per].transpose(1, 0, 2, 3).reshape(per, n * oh * ow)
        out[g * per : (g + 1) * per] = np.matmul(rows, columns).reshape(per, c, *size)


KERNELS: dict[str, Callable[..., None]] = {
    "conv2d": _conv2d,
    "conv2d_input": _conv2d_input,
    "conv2d_weight": _conv2d_weight,
}
