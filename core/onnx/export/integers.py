"""Integers that depend on the sizes of inputs: how one is found from what it was in several traces.

An `Int` is an expression over dims of values. `Finder` looks for one that gives the right number in
every trace, the likeliest first: a dim of the op's own inputs, a size with a name, a multiple, sum,
product or quotient of these, a dim of any earlier value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Series = tuple[int, ...]


@dataclass(frozen=True)
class Dim:
    """The size of a dim of the value of this number."""

    value: int
    axis: int


@dataclass(frozen=True)
class Combined:
    """op ("Add", "Sub", "Mul", "Div") of two integers; Div rounds down, of positive numbers."""

    op: str
    a: Int
    b: Int


@dataclass(frozen=True)
class Real:
    """A number that is a power of an integer: 1, -1, 1/2 or -1/2."""

    base: Int
    power: float


Int = int | Dim | Combined


def combined(op: str, a: Int, b: Int) -> Int:
    """The expression, without what changes nothing."""
    if isinstance(b, int):
        if (op in ("Add", "Sub") and b == 0) or (op in ("Mul", "Div") and b == 1):
            return a
        if op == "Add" and b < 0:
            return Combined("Sub", a, -b)
    if isinstance(a, int):
        if (op == "Add" and a == 0) or (op == "Mul" and a == 1):
            return b
    return Combined(op, a, b)


def _affine(series: Series, by: Series) -> tuple[int, int, int] | None:
    """(m, c, d) with series == (m * by + c) / d, exactly; None where there is none."""
    pairs = sorted(set(zip(by, series, strict=True)))
    if len(pairs) < 2 or len({p[0] for p in pairs}) < 2:
        return None
    (x0, y0), (x1, y1) = pairs[0], pairs[-1]
    rise, run = y1 - y0, x1 - x0
    if rise == 0:
        return None
    if rise % run == 0:
        m, d = rise // run, 1
    elif run % rise == 0 and run // rise > 0:
        m, d = 1, run // rise
    else:
        return None
    c = y0 * d - m * x0
    fits = all((m * x + c) == y * d for x, y in pairs)
    return (m, c, d) if fits else None


def _floored(series: Series, by: Series) -> tuple[int, int, int, int] | None:
    """(c, d, m, e) with series == (by + c) // d * m + e, where m is 1 or d; None where none is.

    The smallest d is taken.
    """
    pairs = sorted(set(zip(by, series, strict=True)))
    if len({p[0] for p in pairs}) < 3:
        return None
    for d in range(2, 65):
        for m in (1, d):
            for c in sorted(range(-d, d), key=lambda c: (abs(c), c < 0)):
                e = pairs[0][1] - (pairs[0][0] + c) // d * m
                if all(x + c >= 0 and (x + c) // d * m + e == y for x, y in pairs):
                    return c, d, m, e
    return None


def _by_floor(series: Series, sources: Iterable[tuple[Series, Int]]) -> Iterator[Int]:
    for s, e in sources:
        floor = _floored(series, s)
        if floor is not None:
            c, d, m, more = floor
            quotient = combined("Div", combined("Add", e, c), d)
            yield combined("Add", combined("Mul", quotient, m), more)


class Finder:
    """Expressions for series of integers, one integer per trace.

    symbols: the series and expression of each named size. add: enters the dims of a value, which
    later searches may use.
    """

    def __init__(self, symbols: Sequence[tuple[Series, Int]]) -> None:
        self.symbols = list(symbols)
        self.pool: dict[Series, Int] = {}
        self._found: dict[Series, Int | None] = {}

    def add(self, value: int, shapes: Sequence[Sequence[int]]) -> None:
        """Enter the dims of a value, of which `shapes` are the shapes in the traces."""
        for axis in range(len(shapes[0])):
            series = tuple(shape[axis] for shape in shapes)
            if len(set(series)) > 1 and series not in self.pool:
                self.pool[series] = Dim(value, axis)
                if self._found.get(series, 0) is None:
                    del self._found[series]

    def find(self, series: Series, near: Iterable[tuple[Series, Int]] = ()) -> Int | None:
        """An expression of this series; near: that of the op's own inputs, tried first."""
        if len(set(series)) == 1:
            return series[0]
        local = [(s, e) for s, e in near if len(set(s)) > 1]
        for s, e in (*local, *self.symbols):
            if s == series:
                return e
        if series in self._found and self._found[series] is not None:
            return self._found[series]
        for sources in (self.symbols, local, list(self.pool.items())):
            for e in _candidates(series, sources):
                self._found[series] = e
                return e
        self._found[series] = None
        return None

    def find_real(self, series: Sequence[float]) -> Real | None:
        """A power of an integer that gives these numbers, up to a rounding to float32."""
        if not all(v > 0 and math.isfinite(v) for v in series):
            return None
        for power in (1.0, -1.0, 0.5, -0.5):
            bases = [v ** (1 / power) for v in series]
            whole = tuple(round(b) for b in bases)
            if all(n and abs(b - n) <= 4e-7 * n for b, n in zip(bases, whole, strict=True)):
                base = self.find(whole)
                if base is not None:
                    return Real(base, power)
        return None


def _candidates(series: Series, sources: Sequence[tuple[Series, Int]]) -> Iterator[Int]:
    """Expressions of a series by one or two of these, the simplest first."""
    for s, e in sources:
        if s == series:
            yield e
    for s, e in sources:
        fit = _affine(series, s)
        if fit is not None:
            m, c, d = fit
            yield combined("Div", combined("Add", combined("Mul", e, m), c), d)
    few = sources[:24]
    for (s, a), (t, b) in itertools.combinations_with_replacement(few, 2):
        product = tuple(x * y for x, y in zip(s, t, strict=True))
        fit = _affine(series, product)
        if fit is not None:
            m, c, d = fit
            scaled = combined("Mul", combined("Mul", a, b), m)
            yield combined("Div", combined("Add", scaled, c), d)
    for (s, a), (t, b) in itertools.permutations(few, 2):
        for sign, op in ((1, "Add"), (-1, "Sub")):
            rest = tuple(n - sign * y for n, y in zip(series, t, strict=True))
            fit = _affine(rest, s)
            if fit is not None and fit[2] == 1:
                m, c, _ = fit
                yield combined("Add", combined(op, combined("Mul", a, m), b), c)
    yield from _by_floor(series, sources)
    products = (
        (tuple(x * y for x, y in zip(s, t, strict=True)), combined("Mul", a, b))
        for (s, a), (t, b) in itertools.combinations_with_replacement(few[:8], 2)
    )
    yield from _by_floor(series, products)
    if len(few) >= 3:
        for (s, a), (t, b), (u, c3) in itertools.combinations(few[:8], 3):
            product = tuple(x * y * z for x, y, z in zip(s, t, u, strict=True))
            fit = _affine(series, product)
            if fit is not None:
                m, c, d = fit
                scaled = combined("Mul", combined("Mul", combined("Mul", a, b), c3), m)
                yield combined("Div", combined("Add", scaled, c), d)
    for (s, a), (t, b) in itertools.permutations(few, 2):
        if all(y and x % y == 0 for x, y in zip(s, t, strict=True)):
            quotient = tuple(x // y for x, y in zip(s, t, strict=True))
            fit = _affine(series, quotient)
            if fit is not None and fit[2] == 1:
                yield combined("Add", combined("Mul", combined("Div", a, b), fit[0]), fit[1])


def evaluate(e: Int, shapes: Sequence[Sequence[int]]) -> int:
    """The number of an expression, where shapes[n] is the shape of value n."""
    if isinstance(e, int):
        return e
    if isinstance(e, Dim):
        return shapes[e.value][e.axis]
    a, b = evaluate(e.a, shapes), evaluate(e.b, shapes)
    if e.op == "Add":
        return a + b
    return a - b if e.op == "Sub" else a * b if e.op == "Mul" else a // b
