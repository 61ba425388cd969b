"""The small files of a model's folder: config.json, tokenizer.json and the like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.chat.sources import FOLDER

SMALL_FILE = 64 << 20
# Weights in folders below are of a sentence encoder's modules.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
SMALL_KINDS = (".json", ".txt", ".jinja", ".model", ".spm", ".tiktoken", ".cfg", ".names")
SHORTLIST = re.compile(r"lex\.[\w.-]{1,200}\.bin")  # of Marian


class SmallFiles(Mapping[str, bytes]):
    """The small files of a model's folder by their paths in it; one is read when it is asked for.

    config.json, which several questions are asked of, is read once. FormatError for a file of more
    than 64 MB.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._config: bytes | None = None
        self._places: dict[str, Path] = {}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._known(name) is not None

    def __getitem__(self, name: str) -> bytes:
        place = self._known(name)
        if place is None:
            raise KeyError(name)
        if place.stat().st_size > SMALL_FILE:
            raise FormatError(f"{place} has more than {SMALL_FILE} bytes")
        if name != "config.json":
            return place.read_bytes()
        if self._config is None:
            self._config = place.read_bytes()
        return self._config

    def __iter__(self) -> Iterator[str]:
        for entry in sorted(self.folder.iterdir()):
            if entry.name in self:
                yield entry.name
            elif entry.name == FOLDER[:-1] and entry.is_dir():
                names = (FOLDER + inner.name for inner in sorted(entry.iterdir()))
                yield from (name for name in names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def below(self, folder: str) -> SmallFiles:
        """The files of a folder of this one, and these where it lacks them."""
        return _Below(self.folder / folder, self)

    def _known(self, name: str) -> Path | None:
        """`_place`, once for each name of a file that is there."""
        place = self._places.get(name)
        if place is None and (place := self._place(name)) is not None:
            self._places[name] = place
        return place

    def _place(self, name: str) -> Path | None:
        """The file `name` if it is small by its kind and in the folder."""
        path = PurePosixPath(name)
        try:
            below = len(path.parts) > 1 and path.name in WEIGHTS
            small = below or path.suffix in SMALL_KINDS or bool(SHORTLIST.fullmatch(path.name))
            if not small or path.is_absolute() or ".." in path.parts:
                return None
            place = self.folder / path
            return place if place.is_file() else None
        except (OSError, ValueError):  # a name that no file can have
            return None


class _Below(SmallFiles):
    """The small files of a folder, or of the one that it lies in."""

    def __init__(self, folder: Path, above: SmallFiles) -> None:
        super().__init__(folder)
        self.above = above

    def _place(self, name: str) -> Path | None:
        return super()._place(name) or self.above._place(name)
