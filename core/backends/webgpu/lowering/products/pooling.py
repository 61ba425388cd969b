"""Lowerings of the largest elements of windows, and of weighted elements along a dim."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs, fill, grid, view
from rushlight.core.backends.webgpu.lowering.movement import contiguous, given
from rushlight.core.backends.webgpu.runtime.recorder import Kernel
from rushlight.wgsl_kernels import compose, text


def _each(
    e: Emitter,
    file: str,
    x: Operand,
    tables: Sequence[Operand],
    out: Operand,
    dim: int,
    more: list[int],
    *lines: str,
) -> None:
    """A word of the result per invocation; `more`: the parameters from 8 on.

    What cannot be bound at once goes in halves along the first dim, if that is not `dim`.
    """
    rows = out.layout.shape[0]
    if not (e.fits(x, x.layout) and e.fits(out, out.layout)) and rows > 1 and dim:
        for a, b in ((0, rows // 2), (rows // 2, rows)):
            piece, target = (view(v, v.layout.slice(0, a, b)) for v in (x, out))
            _each(e, file, piece, tables, target, dim, more, *lines)
        return
    names = ("x", "at", "weight")
    read = [contiguous(e, v) for v in (x, *tables)]
    reads = [
        access.reader(n, i, v.dtype) for i, (n, v) in enumerate(zip(names, read, strict=False))
    ]
    writes = access.writer(len(read), out.dtype)
    kernel = Kernel(compose("map", *reads, writes, *lines, text(file)), "r" * len(read) + "w", file)
    bound = [e.bind(v) for v in (out, *read)]
    count = out.layout.numel
    parameters = [0] * (8 + len(more))
    fill(parameters, 0, [count, *(offset for _, offset in bound)])
    fill(parameters, 8, more)
    words = -(-count // access.per_word(out.dtype))
    e.dispatch(kernel, [b for b, _ in (*bound[1:], bound[0])], parameters, grid(-(-words // 64)))


def window_argmax(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """The place of the first largest element of each window; a NaN is larger than those before."""
    _largest(e, inputs, out, attrs, "place")


def window_max(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """The largest element of each window, or a NaN."""
    _largest(e, inputs, out, attrs, "load_x(base + u32(place))")


def _largest(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs, result: str) -> None:
    (x,) = given(*inputs)
    kind = access.value_type(x.dtype)
    names = ("kernel", "stride", "padding", "dilation")
    more = [*out.layout.shape[1:], *x.layout.shape[1:], *(n for name in names for n in attrs[name])]
    lines = (
        f"fn key(v: {kind}) -> u32 {{ return key_{kind[0]}(v); }}",
        f"const HAS_NAN = {'true' if kind == 'f32' else 'false'};",
        f"fn result(place: i32, base: u32) -> out_value {{ return {result}; }}",
    )
    _each(e, "window_argmax", x, (), out, 1, more, *lines)


def resample(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Sums of a few weighted elements along a dim, in the order of the table."""
    x, places, weight, *_ = given(*inputs)
    dim = attrs["dim"]
    inner = math.prod(out.layout.shape[dim + 1 :])
    more = [inner, out.layout.shape[dim], x.layout.shape[dim], places.layout.shape[1]]
    _each(e, "resample", x, (places, weight), out, dim, more)


LOWERINGS = {"window_argmax": window_argmax, "window_max": window_max, "resample": resample}
