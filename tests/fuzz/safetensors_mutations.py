"""Mutations of safetensors files: random bytes, and changes that know the structure.

Deterministic: a case is its number. The header is kept as lists of (key, value) pairs, so that a
key can stand twice, and `Token` stands for text that json would not write.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Any

Pairs = list[tuple[str, Any]]


class Token(str):
    """Text that goes into the JSON as it is."""


class Header:
    """A header as pairs, the bytes after it, and what is written around them."""

    def __init__(self, content: bytes) -> None:
        (length,) = struct.unpack("<Q", content[:8])
        self.pairs: Pairs = json.loads(content[8 : 8 + length], object_pairs_hook=list)
        self.data = content[8 + length :]
        self.front, self.back = b"", b""
        self.length = 0  # what the length field is off by
        self.encoding = "utf-8"

    def content(self) -> bytes:
        text = self.front + _dump(self.pairs).encode(self.encoding, "surrogatepass") + self.back
        claimed = (len(text) + self.length) % 2**64
        return struct.pack("<Q", claimed) + text + self.data

    def tensors(self) -> list[int]:
        """The places of the tensors among the pairs."""
        return [
            i
            for i, (name, row) in enumerate(self.pairs)
            if name != "__metadata__" and _is_object(row) and row
        ]


def _is_object(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, tuple) for v in value)


def _dump(value: Any) -> str:
    if isinstance(value, Token):
        return str(value)
    if _is_object(value) and value:
        return "{" + ",".join(f"{_dump(k)}:{_dump(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


NUMBERS: list[Any] = [
    0, 1, 2, 3, 7, 8, 9, 255, 2**31, 2**32, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64,
    10**30, -1, -(2**63), 1.0, 2.5, True, None, "3", [], [1], Token("-0"), Token("01"),
    Token("1e2"), Token("NaN"), Token("Infinity"), Token("1" + "0" * 5000), Token("0x10"),
    Token("1_0"), Token("\u0661"), Token("+1"), Token(""), Token("{}"),
]  # fmt: skip
DTYPES: list[Any] = [
    "F32", "F64", "I64", "U8", "BOOL", "BF16", "F16", "I8", "I16", "I32", "U32", "F8_E4M3",
    "F8_E5M2", "U16", "U64", "F4", "F31", "f32", "", "F32 ", 3, None, [], ["F32"], True,
]  # fmt: skip
NAMES: list[Any] = [
    "", "__metadata__", "a", "\0", "a" * 100_000, "\u00e9", "e\u0301", "\U0001f56f", '"', "\\",
    Token('"\\u0061"'), Token('"\\ud800"'), Token('"\\uD83D\\uDD6F"'), Token('"\\x41"'), Token("a"),
    Token("1"), Token('"\t"'), "\u2028", "dtype", "shape", "data_offsets", "../../etc/passwd",
]  # fmt: skip
VALUES: list[Any] = [
    *NUMBERS,
    [("a", "b")],
    [("a", 1)],
    [("a", [("b", [("c", "d")])])],
    "text",
    [[]],
    Token("[[[]]]"),
    [("__metadata__", [])],
    Token("{" * 60_000),
    Token("[" * 60_000),
    Token("[]," * 30_000 + "[]"),
    Token("[" + "[1]," * 60_000 + "1]"),
    Token("[" + '{"":0},' * 40_000 + "{}]"),
    Token('["' + '","' * 60_000 + '"]'),
    Token("{" + ",".join(f'"{i}":0' for i in range(20_000)) + "}"),
    Token('{"a":{' + ",".join(f'"{i}":"{i}"' for i in range(20_000)) + "}}"),
    Token('"' + "\\n" * 100_000 + '"'),
    Token('"' + "\\" * 99_999 + '"'),
    Token('"' + "x" * 200_000),
]


def _row(header: Header, rng: random.Random) -> Pairs | None:
    places = header.tensors()
    return header.pairs[rng.choice(places)][1] if places else None


def _field(header: Header, rng: random.Random, key: str, change: Callable[[Any], Any]) -> None:
    row = _row(header, rng)
    for i, (name, value) in enumerate(row or ()):
        if name == key and row is not None:
            row[i] = (name, change(value))


def change_dtype(header: Header, rng: random.Random) -> None:
    """Another dtype, one that exists or not."""
    _field(header, rng, "dtype", lambda _: rng.choice(DTYPES))


def change_dim(header: Header, rng: random.Random) -> None:
    """One dim becomes something else, or there is one more or less."""

    def change(shape: Any) -> Any:
        if not isinstance(shape, list):
            return shape
        shape = list(shape)
        how = rng.randrange(5)
        if how < 2 and shape:
            shape[rng.randrange(len(shape))] = rng.choice(NUMBERS)
        elif how == 2 and shape:
            shape.pop(rng.randrange(len(shape)))
        elif how == 3:
            shape += [1] * rng.choice([1, 2, 31, 40, 5000])
        else:
            shape.insert(rng.randint(0, len(shape)), rng.choice(NUMBERS))
        return shape

    _field(header, rng, "shape", change)


def same_size_shape(header: Header, rng: random.Random) -> None:
    """Another shape of as many elements: the file stays valid."""

    def change(shape: Any) -> Any:
        if not isinstance(shape, list) or not all(type(n) is int for n in shape):
            return shape
        return rng.choice([shape[::-1], [*shape, 1], [1, *shape], [n for n in shape if n != 1]])

    _field(header, rng, "shape", change)


def change_offset(header: Header, rng: random.Random) -> None:
    """One offset becomes something else, is moved a little, or both are swapped."""

    def change(offsets: Any) -> Any:
        if not isinstance(offsets, list) or not offsets:
            return offsets
        offsets, at, how = list(offsets), rng.randrange(len(offsets)), rng.randrange(4)
        if how == 0:
            offsets[at] = rng.choice(NUMBERS)
        elif how == 1 and type(offsets[at]) is int:
            offsets[at] += rng.choice([-8, -1, 1, 4, 8])
        elif how == 2:
            offsets.reverse()
        else:
            offsets.insert(at, rng.choice(NUMBERS))
        return offsets

    _field(header, rng, "data_offsets", change)


def shift_offsets(header: Header, rng: random.Random) -> None:
    """A tensor of the right size lies where another one ends or begins, or between them."""
    by = rng.choice([-64, -8, -4, -1, 1, 4, 8, 64])

    def change(offsets: Any) -> Any:
        fits = isinstance(offsets, list) and all(type(n) is int for n in offsets)
        return [max(0, n + by) for n in offsets] if fits else offsets

    _field(header, rng, "data_offsets", change)


def change_field(header: Header, rng: random.Random) -> None:
    """A whole field becomes something else."""
    key = rng.choice(["dtype", "shape", "data_offsets"])
    _field(header, rng, key, lambda _: rng.choice(VALUES))


def keys_of_a_row(header: Header, rng: random.Random) -> None:
    """A key is missing, stands twice, is another one, or they are in another order."""
    if not (row := _row(header, rng)):
        return
    at, how = rng.randrange(len(row)), rng.randrange(5)
    if how == 0:
        row.pop(at)
    elif how == 1:
        row.append(row[at])
    elif how == 2:
        row.append((rng.choice(NAMES), rng.choice(VALUES)))
    elif how == 3:
        row[at] = (rng.choice(NAMES), row[at][1])
    else:
        rng.shuffle(row)


def change_name(header: Header, rng: random.Random) -> None:
    """A tensor takes another name, perhaps that of another one."""
    if not (places := header.tensors()):
        return
    at = rng.choice(places)
    name = rng.choice([*NAMES, header.pairs[rng.choice(places)][0]])
    header.pairs[at] = (name, header.pairs[at][1])


def rows(header: Header, rng: random.Random) -> None:
    """A tensor is missing, stands twice, is replaced, or they are in another order."""
    if not (places := header.tensors()):
        return
    at, how = rng.choice(places), rng.randrange(5)
    if how == 0:
        header.pairs.pop(at)
    elif how == 1:
        header.pairs.append(header.pairs[at])
    elif how == 2:
        header.pairs[at] = (header.pairs[at][0], rng.choice(VALUES))
    else:
        rng.shuffle(header.pairs)


def swap_offsets(header: Header, rng: random.Random) -> None:
    """Two tensors change places: valid where they are of one size."""
    if len(places := header.tensors()) < 2:
        return
    a, b = (dict(header.pairs[i][1]) for i in rng.sample(places, 2))
    if "data_offsets" in a and "data_offsets" in b:
        i, j = rng.sample(places, 2)
        one, two = dict(header.pairs[i][1]), dict(header.pairs[j][1])
        one["data_offsets"], two["data_offsets"] = (
            two.get("data_offsets"),
            one.get("data_offsets"),
        )
        header.pairs[i] = (header.pairs[i][0], list(one.items()))
        header.pairs[j] = (header.pairs[j][0], list(two.items()))


def metadata(header: Header, rng: random.Random) -> None:
    """The metadata becomes something else, valid or not."""
    texts: Pairs = [(str(rng.random()), "x" * rng.randrange(50)) for _ in range(rng.randrange(20))]
    value = rng.choice([texts, texts, [*texts, ("a", 1)], *VALUES])
    header.pairs.insert(rng.randint(0, len(header.pairs)), ("__metadata__", value))


def around(header: Header, rng: random.Random) -> None:
    """Something in front of the JSON or behind it."""
    pieces = [b" ", b" " * 1000, b"\n", b"\t \r\n", b"\0", b"{}", b",", b"\xef\xbb\xbf", b"\xff"]
    if rng.random() < 0.7:
        header.back = rng.choice(pieces)
    else:
        header.front = rng.choice(pieces)


def length_field(header: Header, rng: random.Random) -> None:
    """The length field is wrong."""
    size = len(header.content())
    header.length = rng.choice(
        [-1, 1, -8, 8, size, -size, 2**63, 10**8, 2**64 - 9, rng.randrange(2**64), len(header.data),
         rng.randrange(size)]
    )  # fmt: skip


def data(header: Header, rng: random.Random) -> None:
    """The tensors' bytes are others (valid), fewer or more."""
    how, n = rng.randrange(6), len(header.data)
    if how < 3:
        at = rng.randrange(n + 1)
        header.data = header.data[:at] + rng.randbytes(min(n - at, 100)) + header.data[at + 100 :]
    elif how == 3:
        header.data = header.data[: rng.randrange(n + 1)]
    elif how == 4:
        header.data += rng.randbytes(rng.choice([1, 7, 8, 1000]))
    else:
        header.data = b""


def encoding(header: Header, rng: random.Random) -> None:
    """The JSON in another encoding of Unicode."""
    header.encoding = rng.choice(["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7"])


STRUCTURED = (
    change_dtype, change_dim, change_dim, same_size_shape, change_offset, shift_offsets,
    change_field, keys_of_a_row, change_name, rows, swap_offsets, metadata, around, length_field,
    data, data, encoding,
)  # fmt: skip


def random_bytes(content: bytes, rng: random.Random) -> bytes:
    """Bits, bytes and stretches of a file change; half of the time in the header."""
    changed = bytearray(content)
    (length,) = struct.unpack("<Q", content[:8])
    reach = min(len(changed), 8 + length) if rng.random() < 0.5 else len(changed)
    for _ in range(rng.choice([1, 1, 1, 2, 5, 30])):
        at, how = rng.randrange(max(1, min(reach, len(changed)))), rng.randrange(7)
        if at >= len(changed):
            continue
        if how < 2:
            changed[at] ^= 1 << rng.randrange(8)
        elif how == 2:
            changed[at] = rng.randrange(256)
        elif how == 3:
            del changed[at : at + rng.choice([1, 2, 8, 100])]
        elif how == 4:
            changed[at:at] = rng.choice(
                [b"0", b"9", b'"', b"{", b"[", b"]", b",", rng.randbytes(5)]
            )
        elif how == 5:
            begin = rng.randrange(len(changed))
            changed[at:at] = changed[begin : begin + rng.randrange(100)]
        else:
            changed[at : at + 8] = rng.choice([b"\0", b"\xff", b" "]) * 8
    return bytes(changed)


def mutate(content: bytes, number: int) -> bytes:
    """The mutation of a valid file that has this number."""
    rng = random.Random(number)
    kind = rng.random()
    if kind < 0.25:
        return random_bytes(content, rng)
    header = Header(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        rng.choice(STRUCTURED)(header, rng)
    content = header.content()
    return random_bytes(content, rng) if kind > 0.95 else content
