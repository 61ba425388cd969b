"""The formula of a quantized row as WGSL: of four elements of a block, or of a run of 32.

The functions read the planes of `planes.py`. Positions are known up to the number of the run, so
what several elements share is computed once: scales, words, the points of codebooks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from rushlight.core.backends.webgpu.codegen.affine_int import AffineInt, named
from rushlight.core.backends.webgpu.codegen.numbers import (
    DiffersPerLane,
    FourBytes,
    Linear,
    Lines,
    Number,
    SharedFloat,
    ShiftedWord,
    Vector,
)
from rushlight.core.backends.webgpu.codegen.planes import planes_of
from rushlight.core.basis.codebooks import Codebook
from rushlight.core.basis.element import FIELD_BYTES, DType, Field

RUN = 32  # elements; every type has a multiple of them in a block
_QUADS = RUN // 4


class Reading(NamedTuple):
    """A function of WGSL, and the planes that it reads by single words, not by four."""

    lines: tuple[str, ...]
    single: frozenset[int]


class _Several:
    """Several numbers of the block, for a formula to index."""

    __slots__ = ("_block", "_field")

    def __init__(self, block: Block, field: Field) -> None:
        self._block, self._field = block, field

    def __getitem__(self, index: Any) -> Number:
        index = AffineInt(self._block.lines, {}, index) if isinstance(index, int) else index
        return self._block.load(self._field, index)


class Block:
    """The block `b` of a formula: number n0 of what is bound."""

    __slots__ = ("_dtype", "_places", "_single", "lines")

    def __init__(self, dtype: DType, lines: Lines, single: set[int]) -> None:
        self._dtype, self.lines, self._single = dtype, lines, single
        self._places = {
            field: (k, plane.nbytes, stored.at)
            for k, plane in enumerate(planes_of(dtype))
            for stored in plane.parts
            for field in dtype.fields.values()
            if field.offset == stored.start
        }

    def _word(self, plane: int, number: AffineInt) -> str:
        """Word `number` of a plane."""
        if plane in self._single:
            return self.lines.let(f"plane_{plane}[{number.text}]")
        component = number % 4
        if component.terms:  # which of four words is not known: they are read one by one
            self._single.add(plane)
            return "0u"
        return f"{self.lines.let(f'plane_{plane}[{(number // 4).text}]')}.{'xyzw'[component.const]}"

    def load(self, field: Field, index: AffineInt) -> Number:
        """Number `index` of a field; four neighbours where the index has lanes."""
        plane, nbytes, start = self._places[field]
        size = FIELD_BYTES[field.kind]
        # The number of the block in the plane, which may be bound from a later one on.
        block = named(self.lines, f"block + i32(P({48 + plane}u))", 0, 1 << 30)
        byte_at = block * nbytes + index * size + start
        if byte_at.lane:
            if byte_at.lane != 1 or (byte_at % 4).bounds != (0, 3) or (byte_at % 4).terms:
                raise DiffersPerLane("bytes that do not lie in one word")
            word = self._word(plane, byte_at // 4)
            if field.kind == "u8":
                return FourBytes(self.lines, word)
            if field.kind == "i8":
                return FourBytes(self.lines, self.lines.let(f"{word} ^ 0x808080u"), signed=True)
            raise DiffersPerLane("floats side by side")
        word, rest = self._word(plane, byte_at // 4), byte_at % 4
        let, shift = self.lines.let, f"u32({(rest * 8).text})"
        if field.kind == "i8":
            text = f"extractBits(bitcast<i32>({word}), {shift}, 8u)"
            return named(self.lines, text, -128, 127)
        if field.kind == "f32":
            return SharedFloat(self.lines, let(f"bitcast<f32>({word})"))
        if field.kind == "f16":
            if not rest.terms:
                return SharedFloat(
                    self.lines, f"{let(f'unpack2x16float({word})')}.{'x.y'[rest.const]}"
                )
            return SharedFloat(self.lines, let(f"unpack2x16float({word} >> {shift}).x"))
        byte = named(self.lines, f"i32(extractBits({word}, {shift}, 8u))", 0, 255)
        if field.kind == "u8":
            return byte
        return SharedFloat(self.lines, let(f"value_{field.kind}(u32({byte.text}))"))

    def __getattr__(self, name: str) -> Number | _Several:
        field = self._dtype.fields[name]
        if field.count is not None:
            return _Several(self, field)
        return self.load(field, AffineInt(self.lines, {}, 0))

    def where(self, condition: str | bool, x: Any, y: Any) -> Any:
        """x where the condition holds, else y; it is the same in all lanes."""
        if isinstance(condition, bool):
            return x if condition else y
        if isinstance(x, FourBytes) and isinstance(y, FourBytes):
            return x.chosen(condition, y)
        numbers = [AffineInt(self.lines, {}, n) if isinstance(n, int) else n for n in (x, y)]
        if any(isinstance(n, SharedFloat) for n in numbers):
            texts = [n.real().text for n in numbers]
            return SharedFloat(
                self.lines, self.lines.let(f"select({texts[1]}, {texts[0]}, {condition})")
            )
        low, high = zip(*(n.bounds for n in numbers), strict=True)
        text = f"select({numbers[1].text}, {numbers[0].text}, {condition})"
        return named(self.lines, text, min(low), max(high))

    def lookup(self, numbers: Sequence[int] | Codebook, index: Any) -> Any:
        """The numbers at the positions `index`."""
        let = self.lines.let
        if isinstance(numbers, Codebook):
            per = 32 // numbers.bits
            most = (1 << (numbers.levels - 1).bit_length()) - 1
            word = let(f"codebook[{(index // per).text}]")
            start = index % per * numbers.bits
            if lane := start.lane:
                return (
                    ShiftedWord(self.lines, word, start - AffineInt(self.lines, {}, 0, lane), lane)
                    & most
                )
            text = f"i32(extractBits({word}, u32({start.text}), {numbers.bits}u))"
            return named(self.lines, text, 0, most)
        if isinstance(index, FourBytes):
            return index.lookup(tuple(numbers))
        values = ", ".join(map(str, numbers))
        table = let(f"array<i32, {len(numbers)}>({values})", "var")
        return named(self.lines, f"{table}[{index.text}]", min(numbers), max(numbers))

    def as_f16(self, low: AffineInt, high: AffineInt) -> SharedFloat:
        """The float16 of two bytes."""
        return SharedFloat(
            self.lines, self.lines.let(f"unpack2x16float(u32({(low | high << 8).text})).x")
        )


def _four(block: Block, dtype: DType, first: AffineInt, even: bool) -> Any:
    """Elements `first` to `first + 3`; even: the lanes are computed by the same instructions."""
    assert dtype.value is not None, dtype
    if even:
        return dtype.value(block, first + AffineInt(block.lines, {}, 0, 1))
    values = [dtype.value(block, first + k) for k in range(4)]
    texts = ", ".join(v.real().text if isinstance(v, AffineInt) else v.text for v in values)
    return Vector(block.lines, block.lines.let(f"vec4<f32>({texts})"), True)


def _trace(
    dtype: DType, linear: bool, head: str, ends: str, build: Callable[[Block, bool], str]
) -> Reading:
    """The function `head`: the lines that `build` writes, and the result that it returns."""
    even, single = True, set[int]()
    while True:
        lines, known = Lines(linear), len(single)
        try:
            result = build(Block(dtype, lines, single), even)
        except (TypeError, AttributeError):
            if not even:
                raise
            even = False  # if it is a mistake of the formula, the elements have it, too
            continue
        if len(single) == known:
            return Reading((head, *lines.lines, f"return {result}; {ends}"), frozenset(single))


@cache
def quad(dtype: DType) -> Reading:
    """formula_quad(i): elements i to i + 3; i is a multiple of four."""
    size = dtype.block

    def build(block: Block, even: bool) -> str:
        quad_number = named(block.lines, f"i32(i % {size}u) >> 2u", 0, size // 4 - 1)
        text: str = _four(block, dtype, quad_number * 4, even).vector().text
        return text

    head = f"fn formula_quad(i: u32) -> vec4<f32> {{ let block = i32(i / {size}u);"
    return _trace(dtype, False, head, "}", build)


def _run(block: Block, dtype: DType) -> AffineInt:
    """The place of a run in its block."""
    count = dtype.block // RUN
    if count == 1:
        return AffineInt(block.lines, {}, 0)
    first: AffineInt = named(block.lines, f"i32(run % {count}u)", 0, count - 1) * RUN
    return first


@cache
def run(dtype: DType) -> Reading:
    """formula_run(run): the elements of run number `run`, in eight vectors."""

    def build(block: Block, even: bool) -> str:
        first = _run(block, dtype)
        quads = [_four(block, dtype, first + 4 * q, even).vector().text for q in range(_QUADS)]
        return f"array<vec4<f32>, {_QUADS}>({', '.join(quads)})"

    head = f"fn formula_run(run: u32) -> array<vec4<f32>, {_QUADS}> {{"
    return _trace(dtype, False, f"{head} let block = i32(run / {dtype.block // RUN}u);", "}", build)


@cache
def dot(dtype: DType) -> Reading:
    """block_dot(run, low, high, totals): the product of a run and 32 values.

    `low` are the values of elements 0 to 15, `high` those of 16 to 31; totals: the sum of `low`, of
    `high`, and of both.
    """

    def build(block: Block, even: bool) -> str:
        first, groups = _run(block, dtype), dict[Any, _Group]()
        for q in range(_QUADS):
            value = _four(block, dtype, first + 4 * q, even)
            if not isinstance(value, Linear):
                value = Linear(block.lines, SharedFloat(block.lines, "1.0"), value.vector(), None)
            group = _Group(value)
            groups.setdefault(group.key, group).add(q, value)
        return " + ".join(group.text for group in groups.values())

    head = (
        "fn block_dot(run: u32, low: mat4x4<f32>, high: mat4x4<f32>, totals: vec3<f32>) -> f32 "
        f"{{ let block = i32(run / {dtype.block // RUN}u);"
    )
    return _trace(dtype, True, head, "}", build)


@cache
def run_bytes(dtype: DType) -> Reading | None:
    """run_bytes(run): the 32 elements of a run as signed bytes, in the first two vectors.

    The third holds floats: the scale of each half, and what is added to the elements of each. None
    for a type whose elements are no bytes times a scale.
    """
    forms: list[tuple[str, str]] = []  # scale and offset of each quad

    def build(block: Block, even: bool) -> str:
        first, words = _run(block, dtype), []
        forms.clear()
        for q in range(_QUADS):
            value = _four(block, dtype, first + 4 * q, even)
            if isinstance(value, FourBytes):
                value = Linear(block.lines, SharedFloat(block.lines, "1.0"), value, None)
            if not (isinstance(value, Linear) and isinstance(value.integers, FourBytes)):
                raise DiffersPerLane("elements that are no bytes")
            word, lack = value.integers.signed_bytes()
            factor, least = value.integers.factor, value.integers.offset
            scale = value.scale * factor if factor != 1 else value.scale
            more = value.scale * (least + lack * factor) if least or lack else None
            offset = value.offset if more is None or value.offset is None else value.offset + more
            offset = offset or more
            words.append(word)
            forms.append((scale.text, offset.text if offset else "0.0"))
        half = _QUADS // 2
        (low, more_low), (high, more_high) = forms[0], forms[half]
        vectors = [f"vec4<u32>({', '.join(words[i : i + half])})" for i in (0, half)]
        floats = f"vec4<f32>({low}, {high}, {more_low}, {more_high})"
        return f"array<vec4<u32>, 3>({', '.join(vectors)}, bitcast<vec4<u32>>({floats}))"

    head = "fn run_bytes(run: u32) -> array<vec4<u32>, 3> {"
    try:
        head = f"{head} let block = i32(run / {dtype.block // RUN}u);"
        reading = _trace(dtype, True, head, "}", build)
    except (TypeError, AttributeError):
        return None
    if any(len(set(forms[i : i + _QUADS // 2])) > 1 for i in (0, _QUADS // 2)):
        return None  # scales of fewer than 16 elements
    halves, offsets = len(set(forms)) > 1, any(offset != "0.0" for _, offset in forms)
    said = (("HALVES", halves), ("OFFSETS", offsets))
    consts = (f"const {name} = {str(value).lower()};" for name, value in said)
    return reading._replace(lines=(*reading.lines, *consts))


def _factor(q: int) -> str:
    """Quad q of the values that a run is multiplied with."""
    return f"low[{q}]" if q < _QUADS // 2 else f"high[{q - _QUADS // 2}]"


class _Group:
    """The quads of a run that have scale and offset in common."""

    def __init__(self, value: Linear) -> None:
        self._value, self._quads, self._sum = value, list[int](), ""
        packed = value.integers if isinstance(value.integers, FourBytes) else None
        self._multiple, self._less = (packed.factor, packed.offset) if packed else (1, 0)
        self._fields = packed is not None
        offset = value.offset.text if value.offset else ""
        self.key = value.scale.text, offset, self._multiple, self._less, self._fields

    def add(self, q: int, value: Linear) -> None:
        """Another quad."""
        self._quads.append(q)
        factor, integers = _factor(q), value.integers
        what = integers.fields() if isinstance(integers, FourBytes) else integers.vector().text
        text = f"fma({factor}, {what}, {self._sum})" if self._sum else f"{factor} * {what}"
        self._sum = value.lines.let(text)

    @property
    def _total(self) -> str:
        """The sum of the values."""
        half = _QUADS // 2
        sums = {tuple(range(half)): "x", tuple(range(half, _QUADS)): "y", tuple(range(_QUADS)): "z"}
        if place := sums.get(tuple(self._quads)):
            return f"totals.{place}"
        total = " + ".join(_factor(q) for q in self._quads)
        return f"dot({self._value.lines.let(total)}, vec4<f32>(1.0))"

    @property
    def text(self) -> str:
        """Their part of the product."""
        units = "FIELDS" if self._fields else "vec4<f32>(1.0)"
        product = f"dot({self._sum}, {units})"
        if self._multiple != 1:
            product += f" * {float(self._multiple)!r}"
        if self._less:
            product += f" + {float(self._less)!r} * {self._total}"
        product = f"({product}) * {self._value.scale.text}"
        if self._value.offset:
            product += f" + {self._value.offset.text} * {self._total}"
        return product
