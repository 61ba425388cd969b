"""The windows of images as a virtual matrix operand of the product kernels.

Row p and column q of the matrix are three numbers each: a plane, and a place (y, x) of a grid. The
element is that of the image in plane p0 + q0 at (p1, p2) * A + (q1, q2) * B + C, divided by D where
that leaves no rest; outside the image, and where it does, zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from rushlight.core.backends.webgpu.codegen import access, quads
from rushlight.core.backends.webgpu.emit import Emitter, fill, grid
from rushlight.core.backends.webgpu.lowering.products.gemm import Matrix, gemm, matrix
from rushlight.core.backends.webgpu.lowering.products.product import Side, window_lines
from rushlight.core.backends.webgpu.runtime.recorder import Kernel, Slice
from rushlight.core.basis.dtype import DType, float32
from rushlight.core.basis.layout import Layout
from rushlight.wgsl_kernels import compose, text

Pair = tuple[int, int]
# Bytes of windows that are copied at once, on adapters that copy them.
_AT_ONCE = 16 << 20


class Geometry(NamedTuple):
    """Grids of rows and columns, the map from their positions to the image, image sizes."""

    p_grid: Pair
    q_grid: Pair
    a: Pair
    b: Pair
    c: Pair
    d: Pair
    size: Pair
    strides: Pair


@dataclass(frozen=True, slots=True)
class Windows(Matrix):
    """The matrix of windows; the last two strides of `layout` are those of the planes."""

    geometry: Geometry
    first: Pair = (0, 0)  # the row and column of the whole matrix that this part begins at

    def part(self, dim: int, start: int, stop: int) -> Windows:
        """A range of rows, columns or batches."""
        side_ = dim - (self.layout.ndim - 2)
        layout = self.layout.slice(dim, start, stop)
        if side_ < 0:
            return replace(self, layout=layout)
        layout = Layout(layout.shape, layout.strides, self.layout.offset)
        first = list(self.first)
        first[side_] += start
        return replace(self, layout=layout, first=(first[0], first[1]))

    def _ends(self, side_: int) -> tuple[Pair, Pair, Pair]:
        """First and last plane, row and column of the grid that rows or columns reach."""
        grid = self.geometry.p_grid if side_ == 0 else self.geometry.q_grid
        low = self.first[side_]
        high = low + max(self.layout.shape[side_ - 2], 1) - 1
        plane = grid[0] * grid[1]
        if low // plane != high // plane:
            return (low // plane, high // plane), (0, grid[0] - 1), (0, grid[1] - 1)
        rows = low % plane // grid[1], high % plane // grid[1]
        return (low // plane,) * 2, rows, (0, grid[1] - 1)

    @property
    def far_columns(self) -> bool:
        """Whether a part of the columns reaches less of the image than a part of the rows."""
        planes = [ends[0][1] - ends[0][0] for ends in (self._ends(0), self._ends(1))]
        return planes[1] > 0 or (planes[0] == 0 and self.geometry.d[0] * self.geometry.b[0] > 0)

    def _reach(self) -> Layout:
        """The part of the operand that is read, as one dim."""
        g, (p, q) = self.geometry, (self._ends(0), self._ends(1))
        corners = [(i * g.a[0] + j * g.b[0] + g.c[0]) // g.d[0] for i in p[1] for j in q[1]]
        low, high = (min(max(f(corners), 0), g.size[0] - 1) for f in (min, max))
        start = self.layout.offset + low * g.strides[0]
        stop = self.layout.offset + high * g.strides[0] + (g.size[1] - 1) * g.strides[1] + 1
        for ends, step in ((p[0], self.layout.strides[-2]), (q[0], self.layout.strides[-1])):
            start, stop = start + ends[0] * step, stop + ends[1] * step
        stop += sum(
            (n - 1) * s for n, s in zip(self.layout.shape, self.layout.strides[:-2], strict=False)
        )
        return Layout((max(stop - start, 0),), (1,), start)

    def fits(self, e: Emitter) -> bool:
        """Whether the part that is read can be bound at once."""
        return e.fits(self.operand, self._reach())

    def side(self, dense: int, other: int) -> Side:
        """Read an element at a time."""
        return Side(self.dtype, False, self.layout.strides[-1] != 0, 1 + (max(self.geometry.d) > 1))

    def bind(self, e: Emitter) -> tuple[list[Slice], int, dict[int, Sequence[int]]]:
        """Bindings, where the image begins in them, and the parameters of the geometry."""
        g, reach = self.geometry, self._reach()
        bound, offset = e.bind(self.operand, reach)
        return (
            [bound],
            offset + self.layout.offset - reach.offset,
            {
                18: [
                    g.p_grid[0] * g.p_grid[1],
                    g.p_grid[1],
                    g.q_grid[0] * g.q_grid[1],
                    g.q_grid[1],
                    *self.first,
                ],
                26: [*g.a, *g.b, *g.c],
                34: [*g.size, *g.strides, *g.d],
            },
        )


@cache
def _kernel(dtype: DType, divided: bool) -> Kernel:
    lines = [
        *quads.lines("b", 0, dtype, False, False),
        "var<private> b_base: u32;",
        *window_lines(divided),
        access.writer(1, dtype),
        text("windows"),
    ]
    return Kernel(compose("map", *lines), "rw", "windows")


def copied(e: Emitter, x: Windows) -> Matrix:
    """The windows as a matrix in memory."""
    *batch, k, m = x.layout.shape
    columns = -(-m // 4) * 4  # so that four are read at once
    windows = e.temporary((*batch, k, columns), x.dtype)
    bound, offset, more = x.bind(e)
    sizes, (steps,) = e.walk(tuple(batch), [x.layout.strides[:-2]])
    count = windows.layout.numel
    p = [0] * 56
    more[0] = [count, 0, columns, k, m, len(sizes), 0, offset, *x.layout.strides[-2:]]
    for base, words in more.items():
        fill(p, base, words)
    fill(p, 40, sizes, steps)
    kernel = _kernel(x.dtype, max(x.geometry.d) > 1)
    groups = grid(-(-count // access.per_word(x.dtype) // 64))
    e.dispatch(kernel, [*bound, e.bind(windows)[0]], p, groups)
    return matrix(windows, windows.layout.slice(len(batch) + 1, 0, m))


def product(
    e: Emitter, a: Matrix, b: Matrix, out: Matrix, bias: Matrix | None = None, add: bool = False
) -> None:
    """`gemm` with windows, which adapters that run on a CPU want copied out: some at a time."""
    if not isinstance(b, Windows) or e.recorder.port.info["type"] != "CPU":
        gemm(e, a, b, out, bias, add)
        return
    *batch, k, m = b.layout.shape
    most = min(_AT_ONCE, e.binding_limit)
    size = -(-m // 4) * 16 * k
    for n in batch:
        size *= n
    fits = b.fits(e)
    if fits and size <= most:
        gemm(e, a, copied(e, b), out, bias, add)
        return
    d = next((d for d, n in enumerate(batch) if n > 1), None)
    last = b.layout.ndim - 1
    if d is not None:
        for s, t in ((0, batch[d] // 2), (batch[d] // 2, batch[d])):
            product(
                e,
                a.part(d, s, t),
                b.part(d, s, t),
                out.part(d, s, t),
                bias and bias.part(d, s, t),
                add,
            )
    elif m > 1 and (m >= k if fits else b.far_columns or k == 1):
        half = m // 2 // 4 * 4 or m // 2
        for s, t in ((0, half), (half, m)):
            product(
                e, a, b.part(last, s, t), out.part(last, s, t), bias and bias.part(last, s, t), add
            )
    elif k > 1 and out.dtype is float32:
        half = k // 2 // 4 * 4 or k // 2
        product(e, a.part(last, 0, half), b.part(last - 1, 0, half), out, bias, add)
        product(e, a.part(last, half, k), b.part(last - 1, half, k), out, None, True)
    else:
        gemm(e, a, b, out, bias, add)
