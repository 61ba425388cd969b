"""Tables of measured choices of a webgpu device: candidates, files, the tab's storage.

`rushlight autotune` saves an adapter's measurements, and they are read when the device opens.
RUSHLIGHT_AUTOTUNE=off ignores them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rushlight.core.backends.autotuning import Key, Row
from rushlight.core.basis.files.replacing import write_whole
from rushlight.core.basis.jsontext import parse_json
from rushlight.wgsl_kernels import digest

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.backend import WebGpuBackend
    from rushlight.core.backends.webgpu.emit import Emitter

_MOST = 1 << 20  # bytes of a table, and
_MOST_CLASSES = 1024


def up_to(n: int, most: int) -> int:
    """The class of a size: `n` rounded up to a power of two, at most `most`."""
    return min(1 << max(n - 1, 0).bit_length(), most)


def candidates(e: Emitter, key: Key) -> Sequence[str]:
    """The names that may be picked for a class on this adapter; none without a choice."""
    from rushlight.core.backends.webgpu.lowering import attention, norm, reduce
    from rushlight.core.backends.webgpu.lowering.products import gemm

    families: dict[str, Callable[..., Sequence[str]]] = {
        "product": gemm.candidates,
        "rows": norm.candidates,
        "reduce": reduce.candidates,
        "attention": attention.candidates,
    }
    try:
        return families[str(key[0])](e, *key[1:])
    except (TypeError, ValueError, LookupError):  # a file may hold anything
        return ()


class WebGpuTuner:
    """The choices of one device, which `rl.autotune` measures and saves."""

    def __init__(self, backend: WebGpuBackend) -> None:
        self.backend, self.lock = backend, backend.lock
        self.choices = backend.recorder.choices

    @property
    def place(self) -> str:
        """The file of the adapter's table."""
        return str(folder() / kept_as(self.backend))

    @property
    def dispatches(self) -> int:
        """How many dispatches there have been."""
        return self.backend.recorder.dispatches

    @property
    def submits(self) -> int:
        """How often dispatches were submitted."""
        return self.backend.recorder.submits

    def candidates(self, key: Key) -> Sequence[str]:
        """The names that may be picked for a class on this adapter; none without a choice."""
        return candidates(self.backend.emitter("tune"), key)

    async def keep(self) -> str:
        """Keep the table for later starts; where, or "" where nothing can be kept."""
        return await keep(self.backend)

    def forget(self) -> bool:
        """Guess again, now and natively later; whether there was a file."""
        return forget(self.backend)


# --- tables that are kept -----------------------------------------------------------------------


def kept_as(backend: WebGpuBackend) -> str:
    """The file name of the adapter's table, distinct per adapter and driver."""
    info = backend.port.info
    about = [
        info.get(k, "")
        for k in ("vendor", "device", "description", "backend", "architecture", "type")
    ]
    short = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
    return f"{re.sub(r'[^a-z0-9]+', '-', about[1].lower())[:32].strip('-')}-{short}.json"


def folder() -> Path:
    """The native folder of tables: beside the downloads."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    chosen = os.environ.get("RUSHLIGHT_CACHE")
    return (Path(chosen).expanduser() if chosen else Path(cache) / "rushlight") / "tune"


def encode(backend: WebGpuBackend) -> str:
    """The table of a device as text."""
    rows = [
        {"class": row.key, "choice": row.choice, "guess": row.guess, "seconds": dict(row.seconds)}
        for row in backend.recorder.choices.rows.values()
    ]
    about = dict(backend.port.info)
    return json.dumps({"adapter": about, "kernels": digest(), "rows": rows}, indent=1)


def decode(backend: WebGpuBackend, text: str) -> list[Row]:
    """The rows of a table; empty if it was made with other kernels.

    Raises ValueError for a table that `encode` would not write.
    """
    if len(text) > _MOST:
        raise ValueError("it is too large")
    try:
        table = parse_json(text.encode(), "the table", depth=8)
        if table["kernels"] != digest():
            return []
        stored_rows = table["rows"]
        rows = [
            Row(
                tuple(r["class"]),
                r["choice"],
                r["guess"],
                {str(k): float(v) for k, v in r["seconds"].items()},
            )
            for r in stored_rows[:_MOST_CLASSES]
        ]
    except (KeyError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"it is damaged ({type(error).__name__})") from None
    e = backend.emitter("tune")
    for row in rows:
        plain = all(type(p) is int or (type(p) is str and len(p) < 32) for p in row.key)
        names = candidates(e, row.key) if plain and row.key else ()
        named = type(row.choice) is type(row.guess) is str
        if not named or row.choice not in names and not (names and row.choice == row.guess):
            raise ValueError(f"{str(row.choice)[:32]!r} is no choice for {str(row.key)[:64]}")
    return rows


def _wanted() -> bool:
    return os.environ.get("RUSHLIGHT_AUTOTUNE") != "off"


def _adopt(backend: WebGpuBackend, text: str | None, place: str) -> None:
    try:
        if text:
            backend.recorder.choices.adopt(decode(backend, text))
    except ValueError as error:
        warnings.warn(
            f"webgpu: the table of measured choices {place} is left out: {error}; "
            "`rushlight autotune` makes a new one",
            RuntimeWarning,
            stacklevel=2,
        )


def recall(backend: WebGpuBackend) -> None:
    """Use the choices in this adapter's file, if it exists."""
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
    """Use the choices in the tab's storage for this adapter, if they exist."""
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
        write_whole(place, text)
    except OSError:
        return ""
    return str(place)


def forget(backend: WebGpuBackend) -> bool:
    """Guess again, now and natively later; whether there was a file."""
    backend.recorder.choices.clear()
    place = folder() / kept_as(backend)
    existed = place.exists()
    place.unlink(missing_ok=True)
    return existed


async def _storage() -> Any:
    from rushlight.web import import_js

    return await import_js("tables.js")
