"""The numbers of a formula on their way to WGSL: four neighbouring elements at a time.

A formula of a quantized type is evaluated over these numbers; its operators write lines. Most of
an element's formula does not depend on which of four neighbours it is, and is written once:

- `AffineInt` (`affine_int.py`) is an integer of which is known how it depends on the lane, 0 to 3.
- `FourBytes` holds four small integers in the bytes of a word, and computes with all at once.
- `Vector` is four numbers, `SharedFloat` a float that is the same in all lanes.
- `Linear` is scale * integers + offset, not yet multiplied: a product of blocks multiplies the
  scale with a sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.codegen.affine_int import AffineInt

_SPLAT = 0x01010101


class DiffersPerLane(TypeError):
    """The lanes need different instructions: the formula is evaluated for each element."""


class Lines:
    """The lines of a function. A text that was written already is not written again."""

    def __init__(self, linear: bool) -> None:
        self.linear = linear  # whether scales are kept apart
        self.lines: list[str] = []
        self._names: dict[str, str] = {}
        self.ranges: dict[str, tuple[int, int]] = {}  # of named integers: the least, the largest

    def let(self, text: str, how: str = "let") -> str:
        """The name of a value."""
        if text not in self._names:
            self._names[text] = name = f"n{len(self._names)}"
            self.lines.append(f"{how} {name} = {text};")
        return self._names[text]


def _bits(mask: int) -> str:
    return f"{mask * _SPLAT:#x}u"


class Number:
    """What all numbers of a formula can do."""

    __slots__ = ("lines",)

    def __init__(self, lines: Lines) -> None:
        self.lines = lines

    def vector(self) -> Vector:
        """Four floats."""
        raise DiffersPerLane(f"the values of {type(self).__name__}")

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other

    def __add__(self, other: Any) -> Any:
        raise DiffersPerLane(f"a sum of {type(self).__name__}")

    def __mul__(self, other: Any) -> Any:
        raise DiffersPerLane(f"a product of {type(self).__name__}")

    def __sub__(self, other: Any) -> Any:
        return self + other * -1


class SharedNumber(Number):
    """A number that is the same in all lanes: a SharedFloat, or an AffineInt without a lane."""

    __slots__ = ()

    @property
    def text(self) -> str:
        """WGSL of it."""
        raise NotImplementedError

    def real(self) -> SharedFloat:
        """It as a float."""
        raise NotImplementedError


class SharedFloat(SharedNumber):
    """A float, the same in all lanes."""

    __slots__ = ("_text",)

    def __init__(self, lines: Lines, text: str) -> None:
        super().__init__(lines)
        self._text = text

    @property
    def text(self) -> str:
        return self._text

    def real(self) -> SharedFloat:
        return self

    def vector(self) -> Vector:
        return Vector(self.lines, f"vec4<f32>({self.text})", True)

    def _with(self, operator: str, other: Any) -> SharedFloat:
        text = other.real().text if isinstance(other, SharedNumber) else repr(float(other))
        return SharedFloat(self.lines, self.lines.let(f"{self.text} {operator} {text}"))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, (int, float, SharedNumber)):
            return self._with("+", other)
        return other + self

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, (int, float, SharedNumber)):
            return self._with("-", other)
        return other * -1 + self

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (int, float, SharedNumber)):
            return self._with("*", other)
        if isinstance(other, Linear):
            return other * self
        if self.lines.linear:
            return Linear(self.lines, self, other, None)
        text = self.lines.let(f"{self.text} * {other.vector().text}")
        return Vector(self.lines, text, True)


class Linear(Number):
    """scale * integers + offset."""

    __slots__ = ("integers", "offset", "scale")

    def __init__(
        self,
        lines: Lines,
        scale: SharedFloat,
        integers: FourBytes | Vector,
        offset: SharedFloat | None,
    ) -> None:
        super().__init__(lines)
        self.scale, self.integers, self.offset = scale, integers, offset

    def _uniform(self, other: Any) -> SharedFloat:
        if isinstance(other, SharedNumber):
            return other.real()
        if isinstance(other, Number):
            raise DiffersPerLane("different scales in one element")
        return SharedFloat(self.lines, repr(float(other)))

    def __add__(self, other: Any) -> Any:
        more = self._uniform(other)
        offset = more if self.offset is None else self.offset + more
        return Linear(self.lines, self.scale, self.integers, offset)

    def __mul__(self, other: Any) -> Any:
        by = self._uniform(other)
        offset = None if self.offset is None else self.offset * by
        return Linear(self.lines, self.scale * by, self.integers, offset)


class Vector(Number):
    """Four numbers; floats, or i32."""

    __slots__ = ("floats", "text")

    def __init__(self, lines: Lines, text: str, floats: bool) -> None:
        super().__init__(lines)
        self.text, self.floats = text, floats

    def vector(self) -> Vector:
        if self.floats:
            return self
        return Vector(self.lines, self.lines.let(f"vec4<f32>({self.text})"), True)

    def _with(self, operator: str, other: Any) -> Vector:
        if isinstance(other, (SharedNumber, int)) and not (
            self.floats or isinstance(other, SharedFloat)
        ):
            text = str(other) if isinstance(other, int) else other.text
            right = f"vec4<u32>({text}u)" if operator == ">>" else f"vec4<i32>({text})"
            return Vector(self.lines, self.lines.let(f"{self.text} {operator} {right}"), False)
        if operator not in "+-*":
            raise DiffersPerLane(f"{operator} of floats")
        if isinstance(other, (int, float)):
            right = repr(float(other))
        else:
            right = other.vector().text
        return Vector(self.lines, self.lines.let(f"{self.vector().text} {operator} {right}"), True)

    def __add__(self, other: Any) -> Any:
        return self._with("+", other)

    def __sub__(self, other: Any) -> Any:
        return self._with("-", other)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, SharedFloat):
            return other * self
        return self._with("*", other)

    def __and__(self, other: int) -> Vector:
        return self._with("&", other)

    def __rshift__(self, n: int) -> Vector:
        return self._with(">>", n)


class ShiftedWord(Number):
    """A word shifted right by start + step * lane: to be masked with `step` bits."""

    __slots__ = ("start", "step", "word")

    def __init__(self, lines: Lines, word: str, start: AffineInt, step: int) -> None:
        super().__init__(lines)
        self.word, self.start, self.step = word, start, step

    def __and__(self, mask: int) -> FourBytes:
        if self.step not in (1, 2, 4) or mask >= 1 << self.step:
            raise DiffersPerLane("bits of different places")
        first = f"({self.word} >> u32({self.start.text}))" if self.start.bounds[1] else self.word
        return FourBytes(self.lines, self.lines.let(f"spread_{self.step}({first})"), mask)


class FourBytes(Number):
    """Four small integers: factor * (byte of `word`, masked) + offset.

    sure: the bits in which a shift has not mixed neighbours. signed: the bytes are signed, with the
    highest bits of the first three turned over.
    """

    __slots__ = ("factor", "mask", "offset", "signed", "sure", "word")

    def __init__(
        self,
        lines: Lines,
        word: str,
        mask: int = 255,
        factor: int = 1,
        offset: int = 0,
        sure: int = 255,
        signed: bool = False,
    ) -> None:
        super().__init__(lines)
        self.word, self.mask, self.factor, self.offset = word, mask, factor, offset
        self.sure, self.signed = sure, signed

    def _plain(self) -> str:
        """The bytes as a word of their own, without factor and offset."""
        if self.mask & ~self.sure or self.factor != 1 or self.offset or self.signed:
            raise DiffersPerLane("bits of numbers that are not plain bytes")
        return self._solid()

    def _solid(self) -> str:
        if self.mask == 255:
            return self.word
        return self.lines.let(f"{self.word} & {_bits(self.mask)}")

    def fields(self) -> str:
        """The bytes where they are in the word, as floats: byte j is 2^(8 j) times too large."""
        if self.mask & ~self.sure:
            raise DiffersPerLane("bits of two elements")
        if self.signed:
            return f"signed_fields({self.word})"
        if self.mask > 127:
            return f"wide_fields({self.word})"
        masks = ", ".join(f"{self.mask << 8 * j:#x}u" for j in range(4))
        return f"vec4<f32>(vec4<i32>(vec4<u32>({self.word}) & vec4<u32>({masks})))"

    def signed_bytes(self) -> tuple[str, int]:
        """The bytes as a word of signed ones, and what each of them lacks."""
        if self.mask & ~self.sure:
            raise DiffersPerLane("bits of two elements")
        if self.signed:
            return self.lines.let(f"{self.word} ^ 0x808080u"), 0
        if self.mask > 127:
            return self.lines.let(f"{self._solid()} ^ 0x80808080u"), 128
        return self._solid(), 0

    def vector(self) -> Vector:
        text = f"{self.fields()} * FIELDS"
        if self.factor != 1:
            text += f" * {float(self.factor)!r}"
        if self.offset:
            text += f" + {float(self.offset)!r}"
        return Vector(self.lines, self.lines.let(text), True)

    def _integers(self) -> Vector:
        word = self._plain()
        text = f"vec4<i32>((vec4<u32>({word}) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u))"
        return Vector(self.lines, self.lines.let(text), False)

    def _most(self) -> int:
        return self.mask * self.factor

    def __add__(self, other: Any) -> Any:
        if isinstance(other, FourBytes):
            return self._sum(other)
        if isinstance(other, int):
            return FourBytes(
                self.lines,
                self.word,
                self.mask,
                self.factor,
                self.offset + other,
                self.sure,
                self.signed,
            )
        if isinstance(other, SharedNumber) and self.lines.linear:
            unit = SharedFloat(self.lines, "1.0")
            return Linear(self.lines, unit, self, other.real())
        return self.vector() + other

    def _sum(self, other: FourBytes) -> Any:
        if min(self.factor, other.factor) < 1 or self._most() + other._most() > 127:
            return self.vector() + other.vector()
        words = [x._solid() + (f" * {x.factor}u" if x.factor > 1 else "") for x in (self, other)]
        mask = (1 << (self._most() + other._most()).bit_length()) - 1
        return FourBytes(
            self.lines, self.lines.let(" + ".join(words)), mask, 1, self.offset + other.offset
        )

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int):
            return FourBytes(
                self.lines,
                self.word,
                self.mask,
                self.factor * other,
                self.offset * other,
                self.sure,
                self.signed,
            )
        if isinstance(other, SharedFloat):
            return other * self
        if isinstance(other, SharedNumber):
            return self._integers() * other
        return self.vector() * other.vector()

    def __floordiv__(self, n: int) -> Any:
        if n.bit_count() == 1:
            return self >> n.bit_length() - 1
        if self.mask >= 2 * n or self.mask + 128 - n > 255:
            raise DiffersPerLane("a quotient that may be larger than one")
        above = f"({self._plain()} + {_bits(128 - n)}) >> 7u"  # the highest bit is set from n on
        return FourBytes(self.lines, self.lines.let(above), 1)

    def __rshift__(self, n: int | AffineInt) -> Any:
        low, high = (n, n) if isinstance(n, int) else n.bounds
        if isinstance(n, int) or low == high:
            if self.factor != 1 or self.offset or self.signed:
                raise DiffersPerLane("a shift of numbers that are not plain bytes")
            word = self.lines.let(f"{self.word} >> {low}u") if low else self.word
            return FourBytes(self.lines, word, self.mask >> low)
        word = self.lines.let(f"{self._plain()} >> u32({n.text})")
        return FourBytes(self.lines, word, sure=255 >> high)

    def __lshift__(self, n: int) -> FourBytes:
        if self.mask << n > 255 or self.factor != 1 or self.offset or self.mask & ~self.sure:
            raise DiffersPerLane("a shift out of a byte")
        return FourBytes(self.lines, self.lines.let(f"{self.word} << {n}u"), self.mask << n)

    def __and__(self, mask: int) -> FourBytes:
        if self.factor != 1 or self.offset or self.signed:
            raise DiffersPerLane("bits of numbers that are not plain bytes")
        return FourBytes(self.lines, self.word, self.mask & mask, sure=self.sure)

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, FourBytes):
            raise DiffersPerLane("bits of a word for all bytes")
        word = self.lines.let(f"{self._plain()} | {other._plain()}")
        return FourBytes(self.lines, word, self.mask | other.mask)

    def __ror__(self, other: Any) -> Any:
        return self | other

    def chosen(self, condition: str, other: FourBytes) -> FourBytes:
        """This where the condition holds, else the other."""
        text = f"select({other._plain()}, {self._plain()}, {condition})"
        return FourBytes(self.lines, self.lines.let(text), self.mask | other.mask)

    def lookup(self, numbers: tuple[int, ...]) -> FourBytes:
        """numbers[byte] in each byte: by the bits of the bytes, two alternatives at a time."""
        size = self.mask + 1
        if size.bit_count() != 1 or len(numbers) < size or min(numbers) < -128:
            raise DiffersPerLane("a table of another size")
        word = self._plain()
        signed = min(numbers) < 0
        # As bytes, and the highest bits of the first three turned over.
        turned = 0x00808080 if signed else 0
        words: list[int | str] = [(n & 255) * _SPLAT ^ turned for n in numbers[:size]]
        for bit in range(size.bit_length() - 1):
            is_set = self.lines.let(
                f"({word} >> {bit}u) & {_bits(1)}" if bit else f"{word} & {_bits(1)}"
            )
            every = self.lines.let(f"{is_set} * 255u")
            words = [
                _either(self.lines, every, x, y)
                for x, y in zip(words[::2], words[1::2], strict=True)
            ]
        assert isinstance(words[0], str)
        most = 255 if signed else (1 << max(numbers).bit_length()) - 1
        return FourBytes(self.lines, words[0], most, signed=signed)


def _either(lines: Lines, mask: str, x: int | str, y: int | str) -> str | int:
    """x where the mask is clear, y where it is set."""
    if x == y:
        return x
    if isinstance(x, int) and isinstance(y, int):
        return lines.let(f"{x:#x}u ^ ({mask} & {x ^ y:#x}u)")
    left, right = (f"{z:#x}u" if isinstance(z, int) else z for z in (x, y))
    return lines.let(f"{left} ^ ({mask} & ({left} ^ {right}))")
