"""The small files of a model's folder: config.json, tokenizer.json and the like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from rushlight.core.basis.errors import FormatError

SMALL_FILE = 64 << 20
SMALL_KINDS = (".json", ".txt", ".jinja", ".model", ".spm", ".tiktoken")


class SmallFiles(Mapping[str, bytes]):
    """The small files of a model's folder by their paths in it; one is read when it is asked for.

    FormatError for a file of more than 64 MB.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._place(name) is not None

    def __getitem__(self, name: str) -> bytes:
        place = self._place(name)
        if place is None:
            raise KeyError(name)
        if place.stat().st_size > SMALL_FILE:
            raise FormatError(f"{place} has more than {SMALL_FILE} bytes")
        return place.read_bytes()

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in sorted(self.folder.iterdir()) if entry.name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _place(self, name: str) -> Path | None:
        """The file `name` if it is small by its kind and in the folder."""
        path = PurePosixPath(name)
        try:
            if path.suffix not in SMALL_KINDS or path.is_absolute() or ".." in path.parts:
                return None
            place = self.folder / path
            return place if place.is_file() else None
        except (OSError, ValueError):  # a name that no file can have
            return None
