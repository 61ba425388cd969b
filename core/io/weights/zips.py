"""The members of a zip archive, as PyTorch and NumPy write it: where they lie, and their bytes.

Reads the central directory (PKWARE's APPNOTE 6.3, with its 64-bit form). Every offset and size is
checked against the source; members that share bytes, and what unpacks to far more than the
archive has, are refused.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.weights.source import Source

_MOST_MEMBERS = 1 << 16
_MAX_DIRECTORY = 1 << 26
_PIECE = 1 << 20
# All members together may unpack to this many bytes, and to this many times the archive's.
_FREE, _TIMES = 64 << 20, 64
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_MEMBER = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")
LEAD = _LOCAL.size  # bytes of the record before a member; its name and more follow them


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive: `packed` bytes at `offset`, which unpack to `nbytes` if deflated.

    header: where the record before the bytes begins.
    """

    name: str
    header: int
    offset: int
    packed: int
    nbytes: int
    crc: int
    deflated: bool


def _unpack(source: Source, form: struct.Struct, offset: int, sign: bytes) -> tuple[int, ...]:
    """The numbers of a record at `offset` after its signature."""
    raw = source.read(offset, form.size) if 0 <= offset <= source.size - form.size else b""
    if len(raw) != form.size or bytes(raw[:4]) != sign:
        raise FormatError(f"{source.name}: there is no {sign!r} record of a zip at byte {offset}")
    return form.unpack(raw)[1:]


def read_zip(source: Source) -> dict[str, Member]:
    """The members of an archive by name, in the order of their bytes; reads none of them.

    Reads the directory only, and not the record before each member, which lies far from it: each
    `offset` is LEAD bytes after that record's beginning; `located` makes it exact, and so a record
    that nobody needs may be damaged. Raises FormatError for an archive that is cut off, damaged,
    encrypted or in several parts.
    """
    first = max(0, source.size - (1 << 16) - _END.size)
    tail = bytes(source.read(first, source.size - first))
    end = first + tail.rfind(b"PK\5\6")
    if end < first or end + _END.size > source.size:
        raise FormatError(
            f"{source.name}: the directory at the end of the zip is missing",
            hint="the end of the file is missing; download it again",
        )
    _, _, _, count, size, start, _ = _unpack(source, _END, end, b"PK\5\6")
    if tail[max(0, end - first - _LOCATOR.size) :][:4] == b"PK\6\7":
        where = _unpack(source, _LOCATOR, end - _LOCATOR.size, b"PK\6\7")[1]
        *_, count, size, start = _unpack(source, _END64, where, b"PK\6\6")
    if count > _MOST_MEMBERS or size > _MAX_DIRECTORY:
        raise FormatError(
            f"{source.name} has {count} members in a directory of {size} bytes; at most "
            f"{_MOST_MEMBERS} in {_MAX_DIRECTORY} are supported"
        )
    if start + size > end or count * _MEMBER.size > size:
        raise FormatError(
            f"{source.name}: a directory of {count} members and {size} bytes at {start} does not "
            f"fit before byte {end}"
        )
    directory = bytes(source.read(start, size))
    entries, offset = [], 0
    for _ in range(count):
        member, offset = _member(source, directory, offset, start)
        entries.append(member)
    entries.sort(key=lambda m: m.offset)
    for before, after in pairwise(entries):
        if before.offset + before.packed > after.offset:
            raise FormatError(f"{source.name}: {before.name!r:.100} and another member share bytes")
    unpacked = sum(member.nbytes for member in entries)
    if unpacked > _FREE + _TIMES * source.size:
        raise FormatError(
            f"{source.name}: {source.size} bytes would unpack to {unpacked}",
            hint="save the arrays without compression",
        )
    members = {member.name: member for member in entries}
    if len(members) != len(entries):
        raise FormatError(f"{source.name}: two members have one name")
    return members


def _member(source: Source, directory: bytes, start: int, limit: int) -> tuple[Member, int]:
    """The member whose directory entry begins at `start`, and where the next begins."""
    if start + _MEMBER.size > len(directory) or directory[start : start + 4] != b"PK\1\2":
        raise FormatError(f"{source.name}: entry {start} of the zip's directory is damaged")
    _, _, _, flags, method, _, _, crc, packed, size, named, more, said, *_, offset = (
        _MEMBER.unpack_from(directory, start)
    )
    start += _MEMBER.size
    raw, extra = directory[start : start + named], directory[start + named : start + named + more]
    name = raw.decode("utf-8", "surrogateescape")
    if flags & 1 or method not in (0, 8):
        what = "encrypted" if flags & 1 else f"packed by method {method}"
        raise FormatError(f"{source.name}: {name!r:.100} is {what}, which is not supported")
    size, packed, offset = _wide(extra, size, packed, offset)
    member = Member(name, offset, offset + LEAD, packed, size, crc, method == 8)
    if (method == 0 and packed != size) or size > 1032 * packed + 64:
        raise _misfit(source, member, limit)
    _check_place(source, member, limit)
    return member, start + named + more + said


def located_all(source: Source, members: Iterable[Member]) -> dict[str, Member]:
    """Members by name, each `located` before the record of the next of them."""
    ordered = sorted(members, key=lambda member: member.header)
    limits = [member.header for member in ordered[1:]] + [source.size]
    return {m.name: located(source, m, limit) for m, limit in zip(ordered, limits, strict=False)}


def located(source: Source, member: Member, limit: int | None = None) -> Member:
    """The member with its `offset` as the record before it says.

    Raises FormatError if there is none, or if its bytes do not end before `limit`.

    `source` is the archive.
    """
    *_, named, more = _unpack(source, _LOCAL, member.header, b"PK\3\4")
    placed = replace(member, offset=member.header + LEAD + named + more)
    _check_place(source, placed, source.size if limit is None else limit)
    return placed


def _check_place(source: Source, member: Member, limit: int) -> None:
    if member.offset + member.packed > limit:
        raise _misfit(source, member, limit)


def _misfit(source: Source, member: Member, limit: int) -> FormatError:
    return FormatError(
        f"{source.name}: {member.name!r:.100}: {member.packed} bytes at {member.offset} that stand "
        f"for {member.nbytes} do not fit in {limit}"
    )


def _wide(extra: bytes, *numbers: int) -> list[int]:
    """The numbers of an entry; those that are all ones stand in its 64-bit field."""
    widened, field = list(numbers), b""
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<2H", extra)
        if kind == 1:
            field = extra[4 : 4 + size]
            break
        extra = extra[4 + size :]
    for i, number in enumerate(widened):
        if number == 0xFFFFFFFF and len(field) >= 8:
            widened[i], field = int.from_bytes(field[:8], "little"), field[8:]
    return widened


def inflate(source: Source, member: Member, most: int | None = None) -> bytearray:
    """The bytes of a deflated member, at most the first `most` of them.

    Raises FormatError if they are damaged or not as many as the archive says.

    `source` is the archive.
    """
    wanted = member.nbytes if most is None else min(most, member.nbytes)
    out, unpacker, offset = bytearray(), zlib.decompressobj(-15), 0
    try:
        while len(out) < wanted and not unpacker.eof:
            piece: bytes = unpacker.unconsumed_tail
            if not piece:
                piece = bytes(
                    source.read(member.offset + offset, min(_PIECE, member.packed - offset))
                )
                offset += len(piece)
                if not piece:
                    break
            out += unpacker.decompress(piece, wanted - len(out))
    except zlib.error as error:
        raise FormatError(f"{source.name}: {member.name!r:.100}: {error}") from None
    if len(out) < wanted or (wanted == member.nbytes and zlib.crc32(out) != member.crc):
        raise FormatError(
            f"{source.name}: {member.name!r:.100} is damaged: {len(out)} of {wanted} bytes, or "
            "another checksum",
            hint="download the file again",
        )
    return out
