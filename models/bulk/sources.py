"""The rows of a job: JSON Lines, Parquet or Arrow, lines of text, or the files of a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.tasks.kinds import KINDS
from rushlight.models.tasks.record import Task

_LONGEST = 1 << 26  # bytes of a line
_TABLES = (".parquet", ".arrow", ".feather")
SUPPORTED = "a .jsonl file, .txt with a text a line, .parquet, .arrow, .feather, or a folder"


@dataclass(frozen=True)
class Row:
    """An input: its number, the name that it has in the output, and its value or what is wrong."""

    position: int
    name: str | int
    value: Any
    error: str = ""


def fingerprint(place: Path) -> str:
    """A hash of a file's bytes, or of the names, sizes and times of a folder's files."""
    digest = hashlib.sha256()
    if place.is_dir():
        for path in sorted(place.rglob("*")):
            if path.is_file():
                told = path.stat()
                name = path.relative_to(place).as_posix()
                digest.update(f"{name}\0{told.st_size}\0{told.st_mtime_ns}\n".encode())
    else:
        with place.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def rows(place: Path, task: Task, field: str | None) -> Iterator[Row]:
    """The inputs of a place, in order, read as they are asked for.

    field: the key, or column, of the input; by default the task's own name for it, "text", or all
    of the row. A row's name is its "id", else its number; of a file in a folder its path. A row
    that does not fit comes with its error. ValueError for a place of another kind.
    """
    if place.is_dir():
        yield from _of_folder(place, task)
    elif place.suffix in _TABLES:
        from rushlight.models.datasets.tables import read_table

        for number, value in enumerate(read_table(place).rows):
            yield _row(number, value, task, field)
    elif place.suffix in (".jsonl", ".ndjson", ".txt"):
        yield from _of_lines(place, task, field)
    else:
        raise ValueError(f"{place} is not supported; supported: {SUPPORTED}")


def _of_folder(place: Path, task: Task) -> Iterator[Row]:
    files = sorted(path for path in place.rglob("*") if path.is_file())
    kept = [path for path in files if not path.name.startswith(".")]
    for number, path in enumerate(kept):
        name = path.relative_to(place).as_posix()
        if task.input.kind in ("images", "audio"):
            yield Row(number, name, str(path))
            continue
        try:
            yield Row(number, name, path.read_bytes().decode("utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            yield Row(number, name, None, f"{path} is no UTF-8 text: {error}")


def _of_lines(place: Path, task: Task, field: str | None) -> Iterator[Row]:
    with place.open("rb") as file:
        number = 0
        while line := file.readline(_LONGEST + 1):
            if len(line) > _LONGEST:
                raise FormatError(f"{place}: line {number + 1} has more than {_LONGEST} bytes")
            try:
                text = line.decode("utf-8-sig" if number == 0 else "utf-8").rstrip("\r\n")
                value = text if place.suffix == ".txt" else json.loads(text)
            except (ValueError, RecursionError) as error:
                yield Row(number, number, None, f"line {number + 1}: {error}")
            else:
                yield _row(number, value, task, field, place)
            number += 1


def _row(number: int, value: Any, task: Task, field: str | None, place: Path | None = None) -> Row:
    name: Any = number
    if isinstance(value, Mapping):
        told = value.get("id")
        name = told if isinstance(told, str | int) and not isinstance(told, bool) else number
        keys = [field] if field else [task.input.name, task.input.name.rstrip("s"), "text"]
        key = next((key for key in keys if key in value), None)
        fields = KINDS[task.input.kind].fields
        if key is not None:
            value = value[key]
        elif field is None and fields and set(fields) <= value.keys():
            value = {name: value[name] for name in fields}
        else:
            wanted = f"{field!r}" if field else f"{task.input.name!r}, 'text'"
            return Row(number, name, None, f"row {number} has no {wanted}; name it with --field")
    elif field:
        return Row(number, name, None, f"row {number} is no object with {field!r}")
    if task.input.kind in ("images", "audio") and isinstance(value, str) and place is not None:
        value = str(place.parent / value)  # beside the list that names it
    return Row(number, name, value)
