"""Integers of a formula: sums of multiples of named numbers, so that positions are known.

In a run of 32 elements i is 32 times a number plus a constant plus the lane. So `i // 16 % 2` is a
constant, and `i % 16` differs from lane to lane by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rushlight.core.backends.webgpu.codegen.numbers import (
    DiffersPerLane,
    FourBytes,
    Lines,
    SharedFloat,
    SharedNumber,
    ShiftedWord,
    Vector,
)


def named(lines: Lines, text: str, low: int, high: int) -> AffineInt:
    """A new integer, the same in all lanes, and the range that it lies in."""
    name = lines.let(text)
    lines.ranges[name] = low, high
    return AffineInt(lines, {name: 1}, 0)


class AffineInt(SharedNumber):
    """An integer: the sum of `terms` (name to factor), `const` and `lane` times the lane."""

    __slots__ = ("const", "lane", "terms")

    def __init__(self, lines: Lines, terms: Mapping[str, int], const: int, lane: int = 0) -> None:
        super().__init__(lines)
        self.terms, self.const, self.lane = {n: c for n, c in terms.items() if c}, const, lane

    def like(self, other: Any) -> AffineInt:
        """`other`, an integer or a literal."""
        return other if isinstance(other, AffineInt) else AffineInt(self.lines, {}, other)

    @property
    def text(self) -> str:
        """WGSL of it as i32; the same in all lanes."""
        if self.lane:
            raise DiffersPerLane("a position is asked for as one number")
        addends = [_times(n, c) for n, c in self.terms.items()]
        if self.const or not addends:
            addends.append(str(self.const))
        return addends[0] if len(addends) == 1 else f"({' + '.join(addends)})"

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest value in any lane."""
        low, high = self.const, self.const + 3 * self.lane
        for name, factor in self.terms.items():
            ends = sorted(factor * end for end in self.lines.ranges[name])
            low, high = low + ends[0], high + ends[1]
        return low, high

    def vector(self) -> Vector:
        if self.lane:
            raise DiffersPerLane("a position as a value")
        return Vector(self.lines, f"vec4<f32>(f32({self.text}))", True)

    def real(self) -> SharedFloat:
        """It as a float."""
        return SharedFloat(
            self.lines, f"f32({self.text})" if self.terms else f"{float(self.const)!r}"
        )

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, (int, AffineInt)):
            return other + self
        other = self.like(other)
        terms = dict(self.terms)
        for name, factor in other.terms.items():
            terms[name] = terms.get(name, 0) + factor
        return AffineInt(self.lines, terms, self.const + other.const, self.lane + other.lane)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, (int, AffineInt)):
            return other * self
        other = self.like(other)
        if self.terms and other.terms:
            ends = [x * y for x in self.bounds for y in other.bounds]
            return named(self.lines, f"{self.text} * {other.text}", min(ends), max(ends))
        some, by = (self, other.const) if not other.terms else (other, self.const)
        if self.lane and other.lane:
            raise DiffersPerLane("a product of positions")
        terms = {n: c * by for n, c in some.terms.items()}
        lane = self.lane * other.const + other.lane * self.const
        if (self.lane and other.terms) or (other.lane and self.terms):
            raise DiffersPerLane("a product of positions")
        return AffineInt(self.lines, terms, some.const * by, lane)

    def _split(self, n: int) -> tuple[AffineInt, int, int, AffineInt]:
        """self = n * first + unit * number + rest, where 0 <= rest in each lane < unit, unit | n.

        Gives first, unit, rest without the lane, and number.
        """
        first = {name: c // n for name, c in self.terms.items() if c % n == 0}
        other = {name: c for name, c in self.terms.items() if c % n}
        unit = math.gcd(n, *other.values())
        number, rest = divmod(self.const, unit)
        if self.lane and rest + 3 * self.lane >= unit:
            raise DiffersPerLane("positions with a border between them")
        terms = {name: c // unit for name, c in other.items()}
        return (AffineInt(self.lines, first, 0), unit, rest, AffineInt(self.lines, terms, number))

    # Nothing that is divided or shifted is negative.
    def __floordiv__(self, n: Any) -> Any:
        n = self.like(n)
        if n.terms:
            return named(self.lines, f"{self.text} / {n.text}", 0, self.bounds[1])
        n = n.const
        if n == 1:
            return self
        first, unit, _, number = self._split(n)
        by = n // unit
        low, high = number.bounds
        if low // by == high // by:
            return first + low // by
        if by.bit_count() == 1:
            text = f"{number.text} >> {by.bit_length() - 1}u"
        else:
            text = f"{number.text} / {by}"
        return first + (number if by == 1 else named(self.lines, text, low // by, high // by))

    def __mod__(self, n: Any) -> Any:
        n = self.like(n)
        if n.terms:
            return named(self.lines, f"{self.text} % {n.text}", 0, n.bounds[1] - 1)
        n = n.const
        _, unit, rest, number = self._split(n)
        by = n // unit
        low, high = number.bounds
        if low // by == high // by:
            number = number - low // by * by
        else:
            power = by.bit_count() == 1
            text = f"{number.text} & {by - 1}" if power else f"{number.text} % {by}"
            number = named(self.lines, text, 0, by - 1)
        return number * unit + AffineInt(self.lines, {}, rest, self.lane)

    def __rshift__(self, n: Any) -> Any:
        n = self.like(n)
        if n.lane:
            return ShiftedWord(
                self.lines, f"u32({self.text})", n - AffineInt(self.lines, {}, 0, n.lane), n.lane
            )
        if not n.terms:
            return self // (1 << n.const)
        return named(self.lines, f"{self.text} >> u32({n.text})", 0, self.bounds[1])

    def __lshift__(self, n: Any) -> Any:
        n = self.like(n)
        if not n.terms:
            return self * (1 << n.const)
        high = self.bounds[1] << n.bounds[1]
        return named(self.lines, f"{self.text} << u32({n.text})", 0, high)

    def __and__(self, other: Any) -> Any:
        other = self.like(other)
        mask = other.const
        if not other.terms and mask & mask + 1 == 0:
            return self % (mask + 1)
        high = min(self.bounds[1], other.bounds[1])
        return named(self.lines, f"{self.text} & {other.text}", 0, high)

    def __or__(self, other: Any) -> Any:
        if isinstance(other, FourBytes):
            return other | self
        other = self.like(other)
        for low, high in ((self, other), (other, self)):
            unit = math.gcd(high.const, *high.terms.values())
            if low.bounds[0] >= 0 and low.bounds[1] < unit & -unit:
                return low + high  # they share no bit
        most = (1 << max(self.bounds[1], other.bounds[1]).bit_length()) - 1
        return named(self.lines, f"{self.text} | {other.text}", 0, most)

    def __lt__(self, n: Any) -> Any:
        """A condition that is the same in all lanes, as WGSL, or known."""
        if isinstance(n, AffineInt):
            return self - n < 0
        low, high = self.bounds
        if high < n or low >= n:
            return high < n
        unit = math.gcd(n, *self.terms.values())
        number, rest = divmod(self.const, unit)
        if self.lane and rest + 3 * self.lane >= unit:
            raise DiffersPerLane("a condition that holds in some lanes")
        terms = {name: c // unit for name, c in self.terms.items()}
        return self.lines.let(f"{AffineInt(self.lines, terms, number).text} < {n // unit}")


def _times(name: str, factor: int) -> str:
    if factor == 1:
        return name
    power = factor > 0 and factor.bit_count() == 1
    return f"({name} << {factor.bit_length() - 1}u)" if power else f"({name} * {factor})"
