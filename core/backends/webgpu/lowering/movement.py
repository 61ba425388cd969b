"""Lowerings of the ops that copy elements, as bits for any dtype, so that every nan is kept."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs, grid, view
from rushlight.core.backends.webgpu.lowering import creation
from rushlight.core.backends.webgpu.lowering.map import emit_map, move, scatter_narrow
from rushlight.core.backends.webgpu.runtime.recorder import Kernel
from rushlight.core.basis.dtype import uint32
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout
from rushlight.wgsl_kernels import compose, text


def given(*inputs: Operand | None) -> list[Operand]:
    """The inputs of an op without optional ones."""
    return [x for x in inputs if x is not None]


def whole_words(x: Operand) -> bool:
    """Whether the elements fill whole words."""
    per = access.per_word(x.dtype)
    return per == 1 or (
        x.layout.is_contiguous and x.layout.offset % per == 0 and x.layout.numel % per == 0
    )


def words_view(x: Operand) -> TensorView | None:
    """`x` as whole 32-bit words along its last dim, or None if it is not aligned to words."""
    per, layout = access.per_word(x.dtype), x.layout
    if per == 1:
        return view(x, layout, uint32)
    fits = layout.shape and layout.strides[-1] == 1
    if not fits or any(n % per for n in (layout.shape[-1], layout.offset, *layout.strides[:-1])):
        return None
    shape = (*layout.shape[:-1], layout.shape[-1] // per)
    strides = (*(s // per for s in layout.strides[:-1]), 1)
    return view(x, Layout(shape, strides, layout.offset // per), uint32)


def place(e: Emitter, x: Operand, region: Operand) -> None:
    """Copy `x` to `region`, of the same shape, and write nothing else.

    Elements of narrow dtypes that share a word with others are written by atomic operations.
    """
    if 0 in region.layout.shape:
        return
    words, target = words_view(x), words_view(region)
    if words is not None and target is not None:
        move(e, words, target)
    elif whole_words(region):
        move(e, x, region)
    else:
        scatter_narrow(e, x, region)


def apart(e: Emitter, x: Operand, out: Operand) -> Operand:
    """`x`, or a copy of it if it lies in the buffer that will be written."""
    if x.buffer is not out.buffer or 0 in x.layout.shape:
        return x
    copy = e.temporary(x.layout.shape, x.dtype)
    move(e, x, copy)
    return copy


def begin(e: Emitter, x: Operand, out: Operand) -> None:
    """Copy `x` to `out`, unless the op runs in place."""
    if x.buffer is not out.buffer:
        place(e, x, out)


def region(out: Operand, ranges: Sequence[tuple[int, int, int]]) -> TensorView:
    """The part of `out` at (start, stop, step) of every dim."""
    layout = out.layout
    for d, (start, stop, step) in enumerate(ranges):
        layout = layout.slice(d, start, stop, step)
    return view(out, layout)


def assign(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """A region of the first input replaced; in place only the region is written."""
    x, value = given(*inputs)
    value = apart(e, value, out)
    begin(e, x, out)
    target = region(out, attrs["ranges"])
    if 0 in target.layout.shape:
        return
    # The same elements, with dims of size one added or removed.
    layout = target.layout.reshape(value.layout.shape)
    assert layout is not None
    place(e, value, view(out, layout))


def slice_backward(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Zeros outside a region."""
    (g,) = given(*inputs)
    creation.full(e, [], out, {"value": 0})
    place(e, g, region(out, attrs["ranges"]))


def pad(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """One value outside a region."""
    (x,) = given(*inputs)
    creation.full(e, [], out, {"value": attrs["value"]})
    ranges = [(a, a + n, 1) for n, (a, _) in zip(x.layout.shape, attrs["pads"], strict=True)]
    place(e, x, region(out, ranges))


def cat(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """One dispatch per input, so any number of them."""
    dim, start = attrs["dim"], 0
    for x in given(*inputs):
        stop = start + x.layout.shape[dim]
        place(e, x, view(out, out.layout.slice(dim, start, stop)))
        start = stop


def flip(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """A copy of a view whose strides are negative."""
    (x,) = given(*inputs)
    strides, offset = list(x.layout.strides), x.layout.offset
    for d in attrs["dims"]:
        offset += (x.layout.shape[d] - 1) * strides[d]
        strides[d] = -strides[d]
    move(e, view(x, Layout(x.layout.shape, tuple(strides), offset)), out)


def where(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """A choice between two values, each element by a bool."""
    condition, a, b = given(*inputs)
    bits = access.as_bits(out.dtype)
    chosen = [condition, view(a, a.layout, bits), view(b, b.layout, bits)]
    emit_map(e, "select(c, b, a != 0u)", chosen, view(out, out.layout, bits), "where")


def unfold_backward(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """The sum of a gradient over the windows that contain each element.

    Every element of the result gathers its own, window after window: the same sum on every run.
    """
    (g,) = given(*inputs)
    dim, shape = attrs["dim"], out.layout.shape
    per = access.value_type(out.dtype)
    kernel = Kernel(
        compose(
            "map",
            access.reader("g", 0, g.dtype),
            access.writer(1, out.dtype),
            text("unfold_backward"),
        ),
        "rw",
        "unfold_backward",
    )
    assert per == access.value_type(g.dtype)
    outer = inner = 1
    for n in shape[:dim]:
        outer *= n
    for n in shape[dim + 1 :]:
        inner *= n
    steady = contiguous(e, g)
    bound, start = e.bind(steady)
    bound_out, offset = e.bind(out)
    parameters = [0] * 48
    count = out.layout.numel
    parameters[:3] = count, offset, start
    parameters[8:14] = [
        shape[dim],
        inner,
        g.layout.shape[dim],
        attrs["size"],
        attrs["step"],
        attrs["dilation"],
    ]
    words = -(-count // access.per_word(out.dtype))
    e.dispatch(kernel, [bound, bound_out], parameters, grid(-(-words // 64)))


def contiguous(e: Emitter, x: Operand) -> Operand:
    """`x`, or a copy of it that lies row-major."""
    if x.layout.is_contiguous:
        return x
    copy = e.temporary(x.layout.shape, x.dtype)
    move(e, x, copy)
    return copy


LOWERINGS = {
    "assign": assign,
    "slice_backward": slice_backward,
    "pad": pad,
    "cat": cat,
    "flip": flip,
    "where": where,
    "unfold_backward": unfold_backward,
}
IN_PLACE = frozenset({"assign"})
