"""Lowerings of sorting: the ordered indices of a row, or the first of them."""

from __future__ import annotations

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.emit import (
    Attrs,
    Emitter,
    Inputs,
    fill,
    grid,
    view,
    word,
)
from rushlight.core.backends.webgpu.lowering.map import move
from rushlight.core.backends.webgpu.lowering.scan import scan
from rushlight.core.backends.webgpu.runtime.recorder import Slice
from rushlight.core.basis.dtype import int64, uint32
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout, contiguous_strides

_BLOCK = 1024  # pairs that a workgroup's memory holds: 8 KiB
# A radix sort goes over the pairs eight times, whatever their number; it pays beyond this: on a GPU
# by the count of dispatches, on a CPU as measured on llvmpipe.
_LONG, _LONG_CPU = 1 << 15, 1 << 12
_PLACED = 2048  # pairs that a workgroup puts in place


def argsort(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Indices that sort `x` along `dim`; stable, nan counts as the largest."""
    _all(e, inputs[0], out, attrs["dim"], attrs["descending"])


def topk(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """Indices of the `k` largest, or smallest, in order."""
    _all(e, inputs[0], out, attrs["dim"], attrs["largest"])


def _all(e: Emitter, x: Operand | None, out: Operand, dim: int, down: bool) -> None:
    assert x is not None
    layout = x.layout
    if not e.fits(x, layout):
        # A copy with its rows side by side, of which some can be bound.
        dims = [d for d in range(layout.ndim) if d != dim] + [dim]
        apart = view(x, layout.permute(dims))
        x = e.temporary(apart.layout.shape, x.dtype)
        move(e, apart, x)
        layout = x.layout.permute([dims.index(d) for d in range(layout.ndim)])
    _order(e, x, layout, out, out.layout, dim, down)


def _order(
    e: Emitter, x: Operand, layout: Layout, out: Operand, to: Layout, dim: int, down: bool
) -> None:
    """The first of the sorted indices of each row of `layout`, as many as `to` has along `dim`."""
    n = layout.shape[dim]
    rows = layout.numel // n
    radix = n > (_LONG_CPU if e.on_cpu else _LONG) and 4 * to.shape[dim] > n
    width = -(-n // _PLACED) * _PLACED if radix else 1 << (n - 1).bit_length()
    if rows > 1 and not (e.fits(x, layout) and rows * width * 8 <= e.binding_limit // 2):
        d = next(d for d, size in enumerate(layout.shape) if size > 1 and d != dim)
        half = layout.shape[d] // 2
        for a, b in ((0, half), (half, layout.shape[d])):
            _order(e, x, layout.slice(d, a, b), out, to.slice(d, a, b), dim, down)
        return
    pairs = e.temporary((rows, width, 2), int64)
    _keys(e, x, layout, dim, e.bind(pairs)[0], rows, width, down)
    few = 1 << (to.shape[dim] - 1).bit_length()
    while (
        width > _BLOCK >= 2 * few and not radix
    ):  # only the first few of a block can be among them
        count = width // _BLOCK
        _near(e, e.bind(pairs)[0], (2, _BLOCK), _BLOCK, rows * width, _BLOCK)
        kept_pairs = e.temporary((rows, count, 2 * few), int64)
        first = Layout((rows, count, 2 * few), (2 * width, 2 * _BLOCK, 1))
        move(e, TensorView(pairs.buffer, first, int64), kept_pairs)
        pairs, width = kept_pairs, count * few
    if radix:
        pairs = _by_digits(e, pairs, rows, width)
    else:
        _sort(e, e.bind(pairs)[0], rows, width)
    # The indices as a tensor of the result's shape: rows go over the other dims, row-major.
    kept_shape = [size for d, size in enumerate(to.shape) if d != dim]
    strides = [2 * width * s for s in contiguous_strides(kept_shape)]
    strides.insert(dim, 2)
    move(
        e,
        TensorView(pairs.buffer, Layout(to.shape, tuple(strides), 1), int64),
        TensorView(out.buffer, to, int64),
    )


def _keys(
    e: Emitter,
    x: Operand,
    layout: Layout,
    dim: int,
    bound: Slice,
    rows: int,
    width: int,
    down: bool,
) -> None:
    others = [d for d in range(len(layout.shape)) if d != dim]
    sizes, (steps,) = e.walk(
        tuple(layout.shape[d] for d in others), [tuple(layout.strides[d] for d in others)]
    )
    source, first = e.bind(x, layout)
    p = [0] * 26
    p[0:6] = [rows * width, 0, first, layout.shape[dim], width, word(layout.strides[dim])]
    p[8] = len(sizes)
    fill(p, 10, sizes, steps)
    kind = access.value_type(x.dtype)
    # Sorting downwards is sorting the keys turned round: equal ones stay in order.
    value = f"{'~' if down else ''}key_{kind[0]}(v)"
    kernel = e.kernel(
        "sort_keys",
        "rw",
        access.reader("x", 0, x.dtype),
        "@group(0) @binding(1) var<storage, read_write> pairs: array<vec2<u32>>;",
        f"fn key(v: {kind}) -> u32 {{ return {value}; }}",
    )
    e.dispatch(kernel, [source, bound], p, grid(-(-rows * width // 64)))


def _by_digits(e: Emitter, pairs: TensorView, rows: int, width: int) -> TensorView:
    """Rows of pairs in order: a radix sort from the lowest digit of 4 bits on (Knuth, 5.2.5)."""
    blocks = width // _PLACED
    count = e.kernel("sort_count", "rw")
    place = e.kernel("sort_place", "rrw")
    other = e.temporary((rows, width, 2), int64)
    for bit in range(0, 32, 4):
        counts = e.temporary((rows, 16 * blocks), uint32)
        p = [rows * blocks, blocks, bit, width]
        e.dispatch(count, [e.bind(pairs)[0], e.bind(counts)[0]], p, grid(rows * blocks))
        sums = e.temporary((rows, 16 * blocks), uint32)
        scan(e, counts, counts.layout, sums, sums.layout, 1)
        bound = [e.bind(x)[0] for x in (pairs, sums, other)]
        e.dispatch(place, bound, p, grid(rows * blocks))
        pairs, other = other, pairs
    return pairs


def _sort(e: Emitter, bound: Slice, rows: int, width: int) -> None:
    """Sort each row of pairs."""
    if width == 1:
        return
    count = rows * width
    block = min(_BLOCK, max(width, 2))
    _near(e, bound, (2, block), width, count, block)
    run = 2 * block
    while run <= width:
        step = run // 2
        while step >= block:
            _step(e, bound, run, step, width, count)
            step //= 2
        _near(e, bound, (run, run), width, count, block)
        run *= 2


def _near(
    e: Emitter, bound: Slice, runs: tuple[int, int], width: int, count: int, block: int
) -> None:
    """The steps within blocks, of merging runs of the first length to the last."""
    if not e.on_cpu:
        local = e.kernel("sort_block", "w", f"const BLOCK = {block}u;")
        e.dispatch(local, [bound], [*runs, width, count], grid(-(-count // block)))
        return
    # A dispatch takes less time there than a workgroup's invocations wait for each other.
    run = runs[0]
    while run <= runs[1]:
        step = min(run, block) // 2
        while step:
            _step(e, bound, run, step, width, count)
            step //= 2
        run *= 2


def _step(e: Emitter, bound: Slice, run: int, step: int, width: int, count: int) -> None:
    e.dispatch(
        e.kernel("sort_step", "w"), [bound], [run, step, width, count], grid(-(-count // 128))
    )


LOWERINGS = {"argsort": argsort, "topk": topk}
