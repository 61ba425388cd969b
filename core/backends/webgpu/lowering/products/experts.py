"""Lowerings of `linear_experts` and its transpose: rows that each name the matrix they go through.

A few rows are taken one by one. Of many, those of one expert are put together first, so that a
weight is read once for a tile of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.webgpu.codegen import access
from rushlight.core.backends.webgpu.emit import Attrs, Emitter, Inputs, fill, grid
from rushlight.core.backends.webgpu.lowering.creation import cast_expression
from rushlight.core.backends.webgpu.lowering.map import emit_map
from rushlight.core.backends.webgpu.lowering.products.gemm import (
    Matrix,
    choose,
    configuration,
    matrix,
    middle,
)
from rushlight.core.backends.webgpu.lowering.products.product import product_kernel
from rushlight.core.basis.dtype import float32, uint32
from rushlight.core.basis.graph import TensorView

_MOST_EXPERTS = 1024  # the most experts that experts_sort.wgsl counts


def _pieces(e: Emitter, a: Matrix, b: Matrix) -> Iterator[tuple[Matrix, Matrix, int, int, int]]:
    """Parts of the weight that can be bound: (a, b, first expert, first column, first of k)."""
    todo = [(a, b, 0, 0, 0)]
    while todo:
        a, b, expert, column, start = todo.pop()
        count, k, m = b.layout.shape
        if b.fits(e) or (count, k, m) == (1, 1, 1):
            yield a, b, expert, column, start
        elif count > 1:
            half = count // 2
            todo += [
                (a, b.part(0, half, count), expert + half, column, start),
                (a, b.part(0, 0, half), expert, column, start),
            ]
        elif m > 1 and (b.far_columns or k == 1):
            half = middle(m, b)
            todo += [
                (a, b.part(2, half, m), expert, column + half, start),
                (a, b.part(2, 0, half), expert, column, start),
            ]
        else:
            half, last = middle(k, b), a.layout.ndim - 1
            todo += [
                (a.part(last, half, k), b.part(1, half, k), expert, column, start + half),
                (a.part(last, 0, half), b.part(1, 0, half), expert, column, start),
            ]


def _product(
    e: Emitter, x: Operand, weight: Matrix, index: Operand, bias: Operand | None, out: Operand
) -> None:
    """out[r] = x[r] @ weight[index[r]] + bias[index[r]]; weight (experts, k, m)."""
    m = out.layout.shape[-1]
    parts = list(_pieces(e, matrix(x), weight))
    if access.per_word(out.dtype) > 1 and (m % 4 or any(p[4] for p in parts)):
        # Words would be shared between rows, or sums rounded on the way.
        wide = e.temporary(out.layout.shape, float32)
        _product(e, x, weight, index, bias, wide)
        emit_map(e, cast_expression(float32, out.dtype), [wide], out, "cast")
        return
    todo = [(x.layout, index.layout, out.layout)]
    while todo:
        source, named, target = todo.pop()
        dim = next((d for d, n in enumerate(named.shape) if n > 1), None)
        if dim is None or (e.fits(x, source) and e.fits(out, target)):
            for a, b, *firsts in parts:
                left = source.slice(source.ndim - 1, firsts[2], firsts[2] + a.layout.shape[-1])
                _emit(
                    e,
                    matrix(x, left),
                    b,
                    TensorView(index.buffer, named, index.dtype),
                    bias,
                    matrix(out, target),
                    weight.layout.shape[0],
                    firsts,
                )
            continue
        size = named.shape[dim]
        todo += [
            (source.slice(dim, s, t), named.slice(dim, s, t), target.slice(dim, s, t))
            for s, t in ((size // 2, size), (0, size // 2))
        ]


def _emit(
    e: Emitter,
    a: Matrix,
    b: Matrix,
    index: TensorView,
    bias: Operand | None,
    out: Matrix,
    experts: int,
    firsts: Sequence[int],
) -> None:
    """One part: of the experts, of the columns and of k from `firsts` on."""
    rows, columns = index.layout.numel, out.layout.shape[-1]
    count, k, m = b.layout.shape
    first, column, start = firsts
    sizes, steps = e.walk(index.layout.shape, [a.layout.strides[:-1], index.layout.strides])
    bias = bias if start == 0 else None
    left, right = matrix(a.operand, a.layout.unsqueeze(0)).side(-1, -2), b.side(-1, -2)
    if left.turned:  # rows of a tile may lie anywhere
        left = left._replace(quads=False, turned=False)
    each = max(-(-rows // experts), 2)  # rows of an expert, as a guess
    if rows < 2 * experts or experts > _MOST_EXPERTS:
        each = 1
    config = configuration(choose(e, each, m, k, 1, right, tiles=False), right)
    single = config.rows == 1
    bound_out, out_at = e.bind(out.operand, out.layout)
    wide = not any(n % 4 for n in (m, columns, column, out.layout.offset))
    kernel = product_kernel(
        config.file,
        config.lines,
        left,
        right,
        out.dtype,
        wide,
        None if bias is None else bias.dtype,
        start > 0,
        "shader-f16" in e.features,
        k % 4 != 0,
        "index" if single else "table",
        index.dtype if single else uint32,
    )
    a_bound, a_at, _ = a.bind(e)
    b_bound, b_at, more = b.bind(e)
    bindings = [*a_bound, *b_bound, bound_out]
    across = -(-m // config.columns)
    tiles = rows if single else -(-rows // config.rows) + min(experts, rows)
    p: list[int] = [0] * 63
    p[0:13] = [
        rows, m, k, len(sizes), a_at, 0, a.layout.strides[-1], b_at, *b.layout.strides[1:],
        out_at + column, columns, 1,
    ]  # fmt: skip
    if bias is not None:
        bound, offset = e.bind(bias)
        bindings.append(bound)
        step = bias.layout.strides
        p[14:16], p[60] = [offset + column * step[1], step[1]], step[0]
    fill(p, 16, sizes, *steps)
    p[51:58] = [tiles, across, tiles * across, b.layout.strides[0], experts, first, first + count]
    for base, words in more.items():
        fill(p, base, words)
    if single:
        named, p[59] = e.bind(index)
        p[58] = e.status.code(e.op, "index")
        bindings += [named, e.status.slice()]
    else:
        table = _sorted(e, index, sizes, steps, experts, config.rows, tiles)
        bindings.append(e.bind(table)[0])
        p[59] = tiles * 3
    e.dispatch(kernel, bindings, p, grid(tiles * across))


def _sorted(
    e: Emitter,
    index: TensorView,
    sizes: Sequence[int],
    steps: Sequence[Sequence[int]],
    experts: int,
    tile: int,
    slots: int,
) -> TensorView:
    """The table of the tiles and their rows; see experts_sort.wgsl."""
    rows = index.layout.numel
    table = e.temporary((3 * slots + 2 * rows,), uint32)
    bound, offset = e.bind(index)
    p = [0] * 40
    p[0:7] = [rows, offset, experts, len(sizes), e.status.code(e.op, "index"), tile, slots]
    fill(p, 16, sizes, *steps)
    kernel = e.kernel(
        "experts_sort",
        "rww",
        access.reader("index", 0, index.dtype),
        "@group(0) @binding(1) var<storage, read_write> table: array<u32>;",
        access.status(2),
    )
    e.dispatch(kernel, [bound, e.bind(table)[0], e.status.slice()], p, (1, 1, 1))
    return table


def linear_experts(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """x[r] @ weight[index[r]].T + bias[index[r]]."""
    x, weight, index, bias = inputs
    assert x is not None and weight is not None and index is not None
    _product(e, x, matrix(weight).turned, index, bias, out)


def linear_experts_t(e: Emitter, inputs: Inputs, out: Operand, attrs: Attrs) -> None:
    """grad[r] @ weight[index[r]]."""
    grad, weight, index = inputs
    assert grad is not None and weight is not None and index is not None
    _product(e, grad, matrix(weight), index, None, out)


LOWERINGS = {"linear_experts": linear_experts, "linear_experts_t": linear_experts_t}
