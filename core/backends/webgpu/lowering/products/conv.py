"""Lowerings of convolution and its two gradients: products with windows that are not copied."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs, view
from rushlight.core.backends.webgpu.lowering import creation, reduce
from rushlight.core.backends.webgpu.lowering.map import move
from rushlight.core.backends.webgpu.lowering.products.gemm import Matrix, matrix
from rushlight.core.backends.webgpu.lowering.products.windows import Geometry, Windows, product
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.layout import Layout

# Products of parts of a batch that wait to be summed: so many bytes, and so many tiles of them.
_PARTIAL_BYTES = 32 << 20
_PARTIAL_TILES = 512


def _reshaped(e: Emitter, x: Operand, layout: Layout, shape: Sequence[int]) -> Matrix:
    """`x` viewed as `shape`, or a copy if its strides do not allow a view."""
    viewed = layout.reshape(shape)
    if viewed is not None:
        return matrix(x, viewed)
    copy = e.temporary(layout.shape, x.dtype)
    move(e, view(x, layout), copy)
    return matrix(copy, Layout.contiguous(shape))


def _grouped(x: Operand, groups: int) -> Layout:
    """(n, c, h, w) as (n, groups, c / groups, h, w)."""
    (n, c, h, w), (sn, sc, sh, sw) = x.layout.shape, x.layout.strides
    per = c // groups
    return Layout((n, groups, per, h, w), (sn, per * sc, sc, sh, sw), x.layout.offset)


def _flat(x: Operand, groups: int) -> Layout | None:
    """(n, c, h, w) as (n, groups, c / groups, h * w), where rows lie together."""
    layout = _grouped(x, groups)
    return layout.reshape((*layout.shape[:3], layout.shape[3] * layout.shape[4]))


def _result(out: Operand, shape: Sequence[int]) -> Matrix:
    return matrix(out, Layout(tuple(shape), Layout.contiguous(shape).strides, out.layout.offset))


def _is_plain(attrs: Attrs, kernel: Sequence[int]) -> bool:
    """Whether each window is one element, with one window per element."""
    return (tuple(kernel), attrs["stride"], attrs["padding"]) == ((1, 1), (1, 1), (0, 0))


def conv2d(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """out[n, o, y, x] = the sum over c, i, j of weight[o, c, i, j] times a window of x."""
    x, weight, bias = inputs
    assert x is not None and weight is not None
    groups, (pad_y, pad_x) = attrs["groups"], attrs["padding"]
    n, filters, h, w = out.layout.shape
    _, c, *kernel = weight.layout.shape
    per, taps = filters // groups, c * kernel[0] * kernel[1]
    a = _reshaped(e, weight, weight.layout, (groups, per, taps))
    a = matrix(a.operand, a.layout.expand((n, groups, per, taps)))
    planes, flat = _grouped(x, groups), _flat(x, groups)
    if flat is not None and _is_plain(attrs, kernel):
        b = matrix(x, flat)
    else:
        b = Windows(
            x,
            Layout((n, groups, taps, h * w), (*planes.strides[:3], 0), planes.offset),
            Geometry(
                (kernel[0], kernel[1]),
                (h, w),
                attrs["dilation"],
                attrs["stride"],
                (-pad_y, -pad_x),
                (1, 1),
                (planes.shape[3], planes.shape[4]),
                (planes.strides[3], planes.strides[4]),
            ),
        )
    target = _result(out, (n, groups, per, h * w))
    more = None
    if bias is not None:
        step = bias.layout.strides[0]
        layout = Layout(target.layout.shape, (0, per * step, step, 0), bias.layout.offset)
        more = matrix(bias, layout)
    product(e, a, b, target, more)


def conv2d_input(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """The gradient to x: each element gathers from the windows that contain it."""
    g, weight = inputs
    assert g is not None and weight is not None
    groups, stride, dilation = attrs["groups"], attrs["stride"], attrs["dilation"]
    n, _, h, w = out.layout.shape
    filters, c, *kernel = weight.layout.shape
    per = filters // groups
    taps = per * kernel[0] * kernel[1]
    # The weight turned to (groups, c, filters of the group and their taps): a copy of its size.
    s = weight.layout.strides
    turned = Layout(
        (groups, c, per, *kernel), (per * s[0], s[1], s[0], *s[2:]), weight.layout.offset
    )
    a = _reshaped(e, weight, turned, (groups, c, taps))
    a = matrix(a.operand, a.layout.expand((n, groups, c, taps)))
    planes, flat = _grouped(g, groups), _flat(g, groups)
    if flat is not None and _is_plain(attrs, kernel):
        b = matrix(g, flat)
    else:
        b = Windows(
            g,
            Layout((n, groups, taps, h * w), (*planes.strides[:3], 0), planes.offset),
            Geometry(
                (kernel[0], kernel[1]),
                (h, w),
                (-dilation[0], -dilation[1]),
                (1, 1),
                attrs["padding"],
                stride,
                (planes.shape[3], planes.shape[4]),
                (planes.strides[3], planes.strides[4]),
            ),
        )
    product(e, a, b, _result(out, (n, groups, c, h * w)))


def conv2d_weight(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """The gradient to the weight: a product per image; some are stored and then summed."""
    x, g = inputs
    assert x is not None and g is not None
    groups, (pad_y, pad_x) = attrs["groups"], attrs["padding"]
    n, _, h, w = g.layout.shape
    filters, c, *kernel = out.layout.shape
    per, taps = filters // groups, c * kernel[0] * kernel[1]
    layout = _grouped(g, groups)
    a = _reshaped(e, g, layout, (*layout.shape[:3], h * w))
    planes, flat = _grouped(x, groups), _flat(x, groups)
    b: Matrix
    if flat is not None and _is_plain(attrs, kernel):
        b = matrix(x, flat).turned
    else:
        s = planes.strides
        b = Windows(
            x,
            Layout((n, groups, h * w, taps), (*s[:2], 0, s[2]), planes.offset),
            Geometry(
                (h, w),
                (kernel[0], kernel[1]),
                attrs["stride"],
                attrs["dilation"],
                (-pad_y, -pad_x),
                (1, 1),
                (planes.shape[3], planes.shape[4]),
                (s[3], s[4]),
            ),
        )
    if n == 0:
        creation.LOWERINGS["full"](e, [], out, {"value": 0})
        return
    size = filters * taps
    tiles = -(-per // 64) * -(-taps // 64) * groups
    at_once = max(min(n, _PARTIAL_BYTES // (4 * size), -(-_PARTIAL_TILES // tiles)), 1)
    direct = at_once == 1 and out.dtype is float32
    shape = (at_once, groups, per, taps)
    sums = _result(out, shape) if direct else matrix(e.temporary(shape, float32))
    for start in range(0, n, at_once):
        stop = min(start + at_once, n)
        batch_sums = sums.part(0, 0, stop - start)
        product(e, a.part(0, start, stop), b.part(0, start, stop), batch_sums, add=start > 0)
    if direct:
        return
    summed = Emitter("sum", e.recorder, e.pool, e.status)
    parts = view(sums.operand, Layout.contiguous((at_once, *out.layout.shape)))
    reduce.LOWERINGS["sum"](summed, [parts], out, {"dim": (0,), "keepdim": False})


LOWERINGS = {"conv2d": conv2d, "conv2d_input": conv2d_input, "conv2d_weight": conv2d_weight}
