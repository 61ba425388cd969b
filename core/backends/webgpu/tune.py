"""Which of several kernels an op takes for operands of a class: as measured, else by a guess.

Where a plan could do its work in several ways, it asks `Choices.pick` with its own guess and the
class: a tuple of the family and of what makes operands alike, sizes rounded up to powers of two.
What `rushlight tune` measured on an adapter is kept, in a file or in the tab's storage, and read
when the device opens; RUSHLIGHT_TUNE=off leaves it alone. Nothing is measured unasked.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.core.backends import Operand
from rushlight.core.dtype import DType
from rushlight.core.jsontext import parse_json
from rushlight.core.layout import Layout
from rushlight.wgsl_kernels import digest

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.backend import WebGpuBackend
    from rushlight.core.backends.webgpu.emit import Emitter

Key = tuple[str | int, ...]

# By family what a class is, for people. Sizes are the largest of the class.
FAMILIES = {
    "product": "{1} rows, {3} long, {2} columns, batch {4}, weights {5} {6} the sums",
    "rows": "{1}, {3} rows of {2}",
    "reduce": "{2} rows of {1}, {3}",
    "attention": "{2} queries, {3} keys of {1}, {4} heads",
}
_MOST = 1 << 20  # bytes of a table, and
_MOST_CLASSES = 1024


class Sample(NamedTuple):
    """An op and operands of a class: dtypes and layouts. None for an operand left out."""

    op: str
    inputs: tuple[tuple[DType, Layout] | None, ...]
    out: tuple[DType, Layout]
    attrs: Mapping[str, Any]


class Row(NamedTuple):
    """What was measured of a class: the choice, what a guess would be, seconds by name."""

    key: Key
    choice: str
    guess: str
    seconds: Mapping[str, float]
    refused: Mapping[str, str] = {}  # what failed or differed, and how; not kept

    def __str__(self) -> str:
        return FAMILIES[str(self.key[0])].format(*self.key)


class Choices:
    """The decisions of one device, and the classes that its plans asked for.

    turn: how often a decision changed, after which captured plans are made anew.
    """

    def __init__(self) -> None:
        self.table: dict[Key, str] = {}
        self.met: dict[Key, tuple[str, Sample | None]] = {}  # the guess, and who asked
        self.asked: list[Key] = []  # for the first time, by the op that runs
        self.rows: dict[Key, Row] = {}
        self.turn = 0

    def pick(self, key: Key, guess: str) -> str:
        """What to take for a class."""
        if key not in self.met and len(self.met) < _MOST_CLASSES:
            self.met[key] = guess, None
            self.asked.append(key)
        return self.table.get(key, guess)

    def note(
        self, op: str, inputs: Sequence[Operand | None], out: Operand, attrs: Mapping[str, Any]
    ) -> None:
        """The op that asked just now."""
        given = tuple(None if x is None else (x.dtype, x.layout) for x in inputs)
        # What a pass made of ops asks as they do, but nobody can run it by itself.
        for key in self.asked if "epilogue" not in attrs else ():
            self.met[key] = self.met[key][0], Sample(op, given, (out.dtype, out.layout), attrs)
        self.asked.clear()

    def adopt(self, rows: Sequence[Row]) -> None:
        """Decide as measured from now on."""
        before = self.table.copy()
        for row in rows:
            self.rows[row.key] = row
            if row.choice != row.guess:
                self.table[row.key] = row.choice
            else:
                self.table.pop(row.key, None)
        self.turn += self.table != before

    def clear(self) -> None:
        """Decide by guesses again."""
        self.turn += bool(self.table)
        self.table.clear()
        self.rows.clear()


def up_to(n: int, most: int) -> int:
    """The class of a size: `n` rounded up to a power of two, at most `most`."""
    return min(1 << max(n - 1, 0).bit_length(), most)


def candidates(e: Emitter, key: Key) -> Sequence[str]:
    """What may be picked for a class on this adapter; nothing where it is none."""
    from rushlight.core.backends.webgpu.plans import attention, gemm, norm, reduce

    families: dict[str, Callable[..., Sequence[str]]] = {
        "product": gemm.candidates, "rows": norm.candidates, "reduce": reduce.candidates,
        "attention": attention.candidates,
    }  # fmt: skip
    try:
        return families[str(key[0])](e, *key[1:])
    except (TypeError, ValueError, LookupError):  # a file may say anything
        return ()


# --- tables that are kept -----------------------------------------------------------------------


def kept_as(backend: WebGpuBackend) -> str:
    """The name of the adapter's table: it tells adapters and their drivers apart."""
    info = backend.port.info
    about = [info.get(k, "") for k in ("vendor", "device", "description", "backend",
                                       "architecture", "type")]  # fmt: skip
    short = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
    return f"{re.sub(r'[^a-z0-9]+', '-', about[1].lower())[:32].strip('-')}-{short}.json"


def folder() -> Path:
    """Where tables lie natively: beside the downloads."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    own = os.environ.get("RUSHLIGHT_CACHE")
    return (Path(own).expanduser() if own else Path(cache) / "rushlight") / "tune"


def encode(backend: WebGpuBackend) -> str:
    """The table of a device as text."""
    rows = [
        {"class": row.key, "choice": row.choice, "guess": row.guess, "seconds": dict(row.seconds)}
        for row in backend.recorder.choices.rows.values()
    ]
    about = dict(backend.port.info)
    return json.dumps({"adapter": about, "kernels": digest(), "rows": rows}, indent=1)


def decode(backend: WebGpuBackend, text: str) -> list[Row]:
    """The rows of a table: none where it was made with other kernels.

    Raises ValueError for what `encode` would not write.
    """
    if len(text) > _MOST:
        raise ValueError("it is too large")
    try:
        table = parse_json(text.encode(), "the table", depth=8)
        if table["kernels"] != digest():
            return []
        found = table["rows"]
        rows = [
            Row(tuple(r["class"]), r["choice"], r["guess"],
                {str(k): float(v) for k, v in r["seconds"].items()})
            for r in found[:_MOST_CLASSES]
        ]  # fmt: skip
    except (KeyError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"it is damaged ({type(error).__name__})") from None
    e = backend.emitter("tune")
    for row in rows:
        plain = all(type(part) is int or (type(part) is str and len(part) < 32) for part in row.key)
        names = candidates(e, row.key) if plain and row.key else ()
        told = type(row.choice) is type(row.guess) is str
        if not told or row.choice not in names and not (names and row.choice == row.guess):
            raise ValueError(f"{str(row.choice)[:32]!r} is no choice for {str(row.key)[:64]}")
    return rows


def _wanted() -> bool:
    return os.environ.get("RUSHLIGHT_TUNE") != "off"


def _adopt(backend: WebGpuBackend, text: str | None, place: str) -> None:
    try:
        if text:
            backend.recorder.choices.adopt(decode(backend, text))
    except ValueError as error:
        warnings.warn(
            f"webgpu: the table of measured choices {place} is left out: {error}; "
            "`rushlight tune` makes a new one",
            RuntimeWarning, stacklevel=2,
        )  # fmt: skip


def recall(backend: WebGpuBackend) -> None:
    """Decide as the file kept for this adapter says, if there is one."""
    place = folder() / kept_as(backend)
    if not _wanted() or sys.platform == "emscripten" or not place.is_file():
        return
    try:
        with place.open("rb") as file:
            text = file.read(_MOST + 1).decode()
    except (OSError, UnicodeDecodeError):
        text = "unreadable"
    _adopt(backend, text, str(place))


async def recall_in_tab(backend: WebGpuBackend) -> None:
    """Decide as what the tab's storage has for this adapter says, if it has any."""
    if _wanted():
        name = kept_as(backend)
        _adopt(backend, str(await (await _storage()).recall(name)), name)


async def keep(backend: WebGpuBackend) -> str:
    """Keep the table for later starts; where, or "" where nothing can be kept."""
    name, text = kept_as(backend), encode(backend)
    if sys.platform == "emscripten":
        return name if await (await _storage()).keep(name, text) else ""
    place = folder() / name
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_suffix(f".{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(place)
    except OSError:
        return ""
    return str(place)


def forget(backend: WebGpuBackend) -> bool:
    """Guess again, now and natively later; whether there was a file."""
    backend.recorder.choices.clear()
    place = folder() / kept_as(backend)
    there = place.exists()
    place.unlink(missing_ok=True)
    return there


async def _storage() -> Any:
    from rushlight.web import import_js

    return await import_js("tables.js")
