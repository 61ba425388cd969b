"""Mutations of GGUF files: random bytes, and changes that know the structure.

Deterministic: a case is its number. Lengths and counts are kept beside what they count, so that
they can be wrong.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
WHOLE: list[int] = [
    0, 1, 2, 3, 7, 8, 16, 31, 32, 33, 64, 96, 255, 256, 4096, 2**31, 2**32 - 1, 2**32, 2**53 + 1,
    2**60, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
]  # fmt: skip
NAMES = [
    b"",
    b"a",
    b"general.alignment",
    b"general.architecture",
    b"\xff\xfe",
    "é\u2028".encode(),
    b"\0",
    b"a" * 70_000,
    b"w.0",
    "\U0001f56f".encode(),
]


def packed(raw: bytes, length: int | None = None) -> bytes:
    """A string with its length, or with one that is claimed."""
    return struct.pack("<Q", len(raw) if length is None else length) + raw


@dataclass
class Row:
    """One tensor's line in the table."""

    name: bytes
    dims: list[int]
    kind: int
    offset: int
    rank: int | None = None

    def content(self) -> bytes:
        """Its bytes."""
        rank = len(self.dims) if self.rank is None else self.rank
        head = packed(self.name) + struct.pack("<I", rank % 2**32)
        dims = b"".join(struct.pack("<Q", d % 2**64) for d in self.dims)
        return head + dims + struct.pack("<IQ", self.kind % 2**32, self.offset % 2**64)


@dataclass
class File:
    """A file taken apart: pairs of (key, kind, bytes of the value), tensors, and their data."""

    version: int
    pairs: list[tuple[bytes, int, bytes]]
    rows: list[Row]
    data: bytes
    alignment: int = 32
    counts: list[int] = field(default_factory=lambda: [0, 0])  # what the counts are off by
    magic: bytes = b"GGUF"

    def content(self) -> bytes:
        """The file's bytes."""
        numbers = (len(self.rows) + self.counts[0], len(self.pairs) + self.counts[1])
        head = self.magic + struct.pack("<I2Q", self.version, *(n % 2**64 for n in numbers))
        head += b"".join(packed(k) + struct.pack("<I", kind) + v for k, kind, v in self.pairs)
        head += b"".join(row.content() for row in self.rows)
        return head + bytes(-len(head) % self.alignment) + self.data


def _value(content: bytes, at: int, kind: int) -> int:
    """Where a value that begins at `at` ends."""
    if kind in SIZES:
        return at + SIZES[kind]
    if kind == 8:
        return at + 8 + int.from_bytes(content[at : at + 8], "little")
    inner, count = struct.unpack_from("<IQ", content, at)
    at += 12
    if inner in SIZES:
        return int(at + count * SIZES[inner])
    for _ in range(count):
        at = _value(content, at, inner)
    return at


def parse(content: bytes) -> File:
    """A valid file, taken apart."""
    version, tensors, keys = struct.unpack_from("<I2Q", content, 4)
    at, pairs, rows, alignment = 24, [], [], 32

    def string() -> bytes:
        nonlocal at
        begin = at + 8
        at = begin + int.from_bytes(content[at:begin], "little")
        return content[begin:at]

    for _ in range(keys):
        key = string()
        kind = int.from_bytes(content[at : at + 4], "little")
        end = _value(content, at + 4, kind)
        pairs.append((key, kind, content[at + 4 : end]))
        if key == b"general.alignment":
            alignment = int.from_bytes(content[at + 4 : end], "little")
        at = end
    for _ in range(tensors):
        name = string()
        rank = int.from_bytes(content[at : at + 4], "little")
        dims = list(struct.unpack_from(f"<{rank}Q", content, at + 4))
        at += 4 + 8 * rank
        rows.append(Row(name, dims, *struct.unpack_from("<IQ", content, at)))
        at += 12
    return File(version, pairs, rows, content[at + -at % alignment :], alignment)


def _array(rng: random.Random) -> tuple[int, bytes]:
    """An array of some kind, right or wrong: (kind of the value, bytes)."""
    how = rng.randrange(8)
    if how == 0:
        return 9, struct.pack("<IQ", 8, 3) + packed(b"x") + packed(b"") + packed(b"\xc3")
    if how == 1:
        return 9, struct.pack("<IQ", rng.choice([4, 6, 10]), rng.choice(WHOLE)) + bytes(64)
    if how == 2:
        return 9, struct.pack("<IQ", 8, rng.choice(WHOLE)) + packed(b"abc") * 9
    if how == 3:
        return 9, struct.pack("<IQ", 9, 500) + struct.pack("<IQ", 4, 0) * 500
    if how == 4:
        return 9, struct.pack("<IQ", 9, 1) * rng.choice([1, 3, 5, 500]) + struct.pack("<IQ", 0, 0)
    if how == 5:
        return 9, struct.pack("<IQ", 8, 3000) + packed(b"") * 3000
    if how == 6:
        return 9, struct.pack("<IQ", rng.choice([7, 0, 12]), 3) + rng.randbytes(24)
    return 9, struct.pack("<IQ", rng.choice([8, 9, 13, 2**31]), 2) + rng.randbytes(40)


def change_pair(file: File, rng: random.Random) -> None:
    """A pair is missing, stands twice, has another key, kind or value, or is new."""
    how = rng.randrange(7)
    at = rng.randrange(len(file.pairs)) if file.pairs else 0
    if how == 0 or not file.pairs:
        kind, value = _array(rng)
        file.pairs.insert(at, (rng.choice(NAMES), kind, value))
        return
    key, kind, value = file.pairs[at]
    if how == 1:
        file.pairs.pop(at)
    elif how == 2:
        file.pairs.append(file.pairs[at])
    elif how == 3:
        file.pairs[at] = (rng.choice(NAMES), kind, value)
    elif how == 4:
        file.pairs[at] = (key, rng.choice([*range(15), 2**31]), value)
    elif how == 5:
        file.pairs[at] = (key, *_array(rng))
    else:
        changed = bytearray(value)
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        file.pairs[at] = (key, kind, bytes(changed))


def new_pair(file: File, rng: random.Random) -> None:
    """One more pair, a valid one."""
    key = b"new.%d" % rng.randrange(10**6)
    kind = rng.choice([*SIZES, 8])
    value = packed(rng.randbytes(rng.randrange(40))) if kind == 8 else rng.randbytes(SIZES[kind])
    file.pairs.insert(rng.randint(0, len(file.pairs)), (key, kind, value))


def alignment(file: File, rng: random.Random) -> None:
    """The alignment is said to be another one."""
    value = rng.choice([*WHOLE[:15], 1 << 20])
    file.pairs.append(
        (
            b"general.alignment",
            rng.choice([4, 4, 4, 5, 10]),
            struct.pack("<Q", value)[: rng.choice([4, 4, 8])],
        )
    )


def change_row(file: File, rng: random.Random) -> None:
    """A tensor's name, rank, dims, kind or offset is another."""
    if not file.rows:
        return
    row, how = rng.choice(file.rows), rng.randrange(9)
    if how == 0:
        row.name = rng.choice([*NAMES, rng.choice(file.rows).name])
    elif how == 1:
        row.rank = rng.choice([0, 1, 2, 3, 4, 5, 8, 2**16, 2**32 - 1])
    elif how == 2:
        row.dims = rng.choice([row.dims[::-1], [*row.dims, 1], [1, *row.dims], row.dims[:-1]])
    elif how <= 4 and row.dims:
        row.dims[rng.randrange(len(row.dims))] = rng.choice(WHOLE)
    elif how == 5:
        row.kind = rng.choice([*range(42), 2**31])
    elif how == 6:
        row.offset = rng.choice(WHOLE)
    elif how == 7:
        row.offset += rng.choice([-32, -1, 1, 8, 32, 64])
    else:
        row.offset = rng.choice(file.rows).offset


def rows(file: File, rng: random.Random) -> None:
    """A tensor is missing, stands twice, or they are in another order (valid)."""
    if not file.rows:
        return
    at, how = rng.randrange(len(file.rows)), rng.randrange(4)
    if how == 0:
        file.rows.pop(at)
    elif how == 1:
        file.rows.append(file.rows[at])
    else:
        rng.shuffle(file.rows)


def counts(file: File, rng: random.Random) -> None:
    """The counts are wrong."""
    file.counts[rng.randrange(2)] = rng.choice([-2, -1, 1, 2, 100, *WHOLE[15:]])


def front(file: File, rng: random.Random) -> None:
    """Magic or version are others; 2 and 3 are both valid."""
    if rng.random() < 0.2:
        file.magic = rng.choice([b"GGML", b"gguf", b"FUGG", b"\0GGU"])
    else:
        file.version = rng.choice([0, 1, 2, 2, 2, 3, 4, 2 << 24, 3 << 24, 2**32 - 1])


def data(file: File, rng: random.Random) -> None:
    """The tensors' bytes are others (valid), fewer or more."""
    how, n = rng.randrange(6), len(file.data)
    at = rng.randrange(n + 1)
    if how < 3:
        file.data = file.data[:at] + rng.randbytes(min(n - at, 100)) + file.data[at + 100 :]
    elif how == 3:
        file.data = file.data[:at]
    elif how == 4:
        file.data += rng.randbytes(rng.choice([1, 7, 8, 1000]))
    else:
        file.data = b""


STRUCTURED = (
    change_pair, change_pair, change_pair, new_pair, new_pair, alignment, change_row, change_row,
    change_row, rows, counts, front, data, data,
)  # fmt: skip


def random_bytes(content: bytes, rng: random.Random) -> bytes:
    """Bits, bytes and stretches of a file change; half of the time near its beginning."""
    changed = bytearray(content)
    reach = min(len(changed), 2000) if rng.random() < 0.5 else len(changed)
    for _ in range(rng.choice([1, 1, 1, 2, 5, 30])):
        at, how = rng.randrange(max(1, min(reach, len(changed)))), rng.randrange(6)
        if at >= len(changed):
            continue
        if how < 2:
            changed[at] ^= 1 << rng.randrange(8)
        elif how == 2:
            changed[at] = rng.randrange(256)
        elif how == 3:
            del changed[at : at + rng.choice([1, 2, 8, 100])]
        elif how == 4:
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
    file = parse(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        rng.choice(STRUCTURED)(file, rng)
    content = file.content()
    return random_bytes(content, rng) if kind > 0.95 else content
