"""The formula of a quantized row as WGSL: each operator on numbers writes a line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from rushlight.core.basis.codebooks import Codebook
from rushlight.core.basis.element import FIELD_BYTES, DType, Field


def _let(lines: list[str], text: str, kind: str) -> Number:
    """The number of a new line."""
    name = f"n{len(lines)}"
    lines.append(f"let {name} = {text};")
    return Number(lines, name, kind)


class Number:
    """A number of a formula (i32, f32 or bool): the name of its line, or a literal."""

    __slots__ = ("kind", "lines", "text")

    def __init__(self, lines: list[str], text: str, kind: str) -> None:
        self.lines, self.text, self.kind = lines, text, kind

    def beside(self, value: Any) -> Number:
        """`value`, a number or a literal."""
        if isinstance(value, Number):
            return value
        return Number(self.lines, repr(value), "f32" if isinstance(value, float) else "i32")

    def as_float(self) -> str:
        """WGSL of it as f32."""
        return self.text if self.kind == "f32" else f"f32({self.text})"

    def _arithmetic(self, a: Any, operator: str, b: Any) -> Number:
        a, b = self.beside(a), self.beside(b)
        if a.kind == b.kind:
            return _let(self.lines, f"{a.text} {operator} {b.text}", a.kind)
        return _let(self.lines, f"{a.as_float()} {operator} {b.as_float()}", "f32")

    def _whole(self, operator: str, other: Any, kind: str = "i32") -> Number:
        other = self.beside(other)
        if (self.kind, other.kind) != ("i32", "i32"):
            raise TypeError(f"formula: {operator} takes integers")
        right = f"u32({other.text})" if operator in ("<<", ">>") else other.text
        return _let(self.lines, f"{self.text} {operator} {right}", kind)

    def __add__(self, other: Any) -> Number:
        return self._arithmetic(self, "+", other)

    def __radd__(self, other: Any) -> Number:
        return self._arithmetic(other, "+", self)

    def __sub__(self, other: Any) -> Number:
        return self._arithmetic(self, "-", other)

    def __rsub__(self, other: Any) -> Number:
        return self._arithmetic(other, "-", self)

    def __mul__(self, other: Any) -> Number:
        return self._arithmetic(self, "*", other)

    def __rmul__(self, other: Any) -> Number:
        return self._arithmetic(other, "*", self)

    # Nothing that is divided is negative. Division takes a CPU long, and shaders check it, too.
    def __floordiv__(self, other: Any) -> Number:
        if isinstance(other, int) and other.bit_count() == 1:
            return self >> other.bit_length() - 1 if other > 1 else self
        return self._whole("/", other)

    def __mod__(self, other: Any) -> Number:
        if isinstance(other, int) and other.bit_count() == 1:
            return self & other - 1
        return self._whole("%", other)

    def __lshift__(self, other: Any) -> Number:
        return self._whole("<<", other)

    def __rshift__(self, other: Any) -> Number:
        return self._whole(">>", other)

    def __and__(self, other: Any) -> Number:
        return self._whole("&", other)

    def __or__(self, other: Any) -> Number:
        return self._whole("|", other)

    def __lt__(self, other: Any) -> Number:
        return self._whole("<", other, "bool")


class _Numbers:
    """Several numbers of the block, for a formula to index."""

    __slots__ = ("_block", "_field")

    def __init__(self, block: Block, field: Field) -> None:
        self._block, self._field = block, field

    def __getitem__(self, index: Any) -> Number:
        size = FIELD_BYTES[self._field.kind]
        place = index * size if size > 1 else index
        place = place + self._field.offset if self._field.offset else place
        return self._block.load(getattr(place, "text", repr(place)), self._field.kind)


class Block:
    """The block `b` of a row's formula: its bytes lie from the word `first` of `quants` on."""

    __slots__ = ("_dtype", "_lines", "codebook")

    def __init__(self, dtype: DType, lines: list[str]) -> None:
        self._dtype, self._lines = dtype, lines
        self.codebook: Codebook | None = None  # the one that the formula looks into

    def load(self, at: str, kind: str) -> Number:
        """The number of a kind at byte `at`."""
        whole = kind in ("u8", "i8")
        return _let(self._lines, f"block_{kind}(first, {at})", "i32" if whole else "f32")

    def __getattr__(self, name: str) -> Number | _Numbers:
        field = self._dtype.fields[name]
        if field.count is not None:
            return _Numbers(self, field)
        return self.load(repr(field.offset), field.kind)

    def where(self, condition: Number, x: Any, y: Any) -> Number:
        """x where the condition holds, else y."""
        x, y = condition.beside(x), condition.beside(y)
        if x.kind == y.kind:
            return _let(self._lines, f"select({y.text}, {x.text}, {condition.text})", x.kind)
        text = f"select({y.as_float()}, {x.as_float()}, {condition.text})"
        return _let(self._lines, text, "f32")

    def lookup(self, numbers: Sequence[int] | Codebook, index: Number) -> Number:
        """The numbers at the positions `index`."""
        if isinstance(numbers, Codebook):
            if self.codebook not in (None, numbers):
                raise TypeError(f"the formula of {self._dtype.name} has two codebooks")
            self.codebook, per = numbers, 32 // numbers.bits
            at, shift = index // per, index % per * numbers.bits
            code = f"extractBits(codebook[{at.text}], u32({shift.text}), {numbers.bits}u)"
            return _let(self._lines, f"i32({code})", "i32")
        table = f"n{len(self._lines)}"
        values = ", ".join(map(str, numbers))
        self._lines.append(f"var {table} = array<i32, {len(numbers)}>({values});")
        return _let(self._lines, f"{table}[{index.text}]", "i32")

    def as_f16(self, low: Number, high: Number) -> Number:
        """The float16 of two bytes."""
        bits = low | high << 8
        return _let(self._lines, f"unpack2x16float(u32({bits.text})).x", "f32")


def value_lines(dtype: DType) -> tuple[str, ...]:
    """WGSL of formula_value(first, i): element i of the block at word `first` of `quants`."""
    return _traced(dtype)[0]


def codebook_of(dtype: DType) -> Codebook | None:
    """What the formula reads as `codebook`, an array of u32, besides `quants`."""
    return _traced(dtype)[1]


@cache
def _traced(dtype: DType) -> tuple[tuple[str, ...], Codebook | None]:
    assert dtype.value is not None, dtype
    lines: list[str] = []
    block = Block(dtype, lines)
    found = dtype.value(block, Number(lines, "i", "i32"))
    text = (
        "fn formula_value(first: u32, i: i32) -> f32 {",
        *lines,
        f"return {found.as_float()}; }}",
    )
    return text, block.codebook
