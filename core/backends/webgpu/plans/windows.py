"""An operand of the shared product that is never made: the windows of images as a matrix.

Row p and column q of the matrix are three numbers each: a plane, and a place (y, x) of a grid. The
element is that of the image in plane p0 + q0 at (p1, p2) * A + (q1, q2) * B + C, divided by D where
that leaves no rest; outside the image, and where it does, zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rushlight.core.backends.webgpu.emit import Emitter
from rushlight.core.backends.webgpu.plans.gemm import Matrix
from rushlight.core.backends.webgpu.plans.product import Side
from rushlight.core.backends.webgpu.recorder import Slice
from rushlight.core.layout import Layout

Pair = tuple[int, int]


class Geometry(NamedTuple):
    """The grids of rows and columns, what takes their places to one of the image, its sizes."""

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
        """Some rows or columns, or some of a batch."""
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
        """What of the operand is read, as one dim."""
        g, (p, q) = self.geometry, (self._ends(0), self._ends(1))
        corners = [
            (i * g.a[0] + j * g.b[0] + g.c[0]) // g.d[0] for i in p[1] for j in q[1]
        ]  # fmt: skip
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
        """Whether what is read can be bound at once."""
        return e.fits(self.operand, self._reach())

    def side(self, dense: int, other: int) -> Side:
        """Read an element at a time."""
        return Side(self.dtype, False, self.layout.strides[-1] != 0, 1 + (max(self.geometry.d) > 1))

    def bind(self, e: Emitter) -> tuple[list[Slice], int, dict[int, Sequence[int]]]:
        """Bindings, where the image begins in them, and the parameters of the geometry."""
        g, reach = self.geometry, self._reach()
        bound, at = e.bind(self.operand, reach)
        return [bound], at + self.layout.offset - reach.offset, {
            18: [g.p_grid[0] * g.p_grid[1], g.p_grid[1], g.q_grid[0] * g.q_grid[1], g.q_grid[1],
                 *self.first],
            26: [*g.a, *g.b, *g.c],
            34: [*g.size, *g.strides, *g.d],
        }  # fmt: skip
