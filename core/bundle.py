"""Imports modules out of one text file, which packs better in a wheel than many small ones.

The file holds "\\0", a module's place, a line end and its source, for each. Bytecode is kept as of
modules that are files: in `__pycache__` where they would lie, while the text file is as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

_BUNDLE = Path(__file__).with_name("modules.txt")


@cache
def _sources() -> dict[str, bytes]:
    pieces = _BUNDLE.read_bytes().split(b"\0")[1:]
    split = (piece.partition(b"\n") for piece in pieces)
    return {place.decode(): source for place, _, source in split}


class _Loader(SourceFileLoader):
    """Loads the module whose source would be the file `path` beside the bundle."""

    def __init__(self, name: str, path: str, place: str) -> None:
        super().__init__(name, path)
        self._place = place

    def get_data(self, path: str) -> bytes:
        """The source, or the bytecode that a file holds."""
        return _sources()[self._place] if path == self.path else super().get_data(path)

    def path_stats(self, path: str) -> dict[str, Any]:
        """What bytecode must fit to be valid."""
        changed = _BUNDLE.stat().st_mtime
        return {"mtime": changed, "size": len(_sources()[self._place])}


class Finder(MetaPathFinder):
    """Finds what the bundle has of core."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module `fullname`, or None where the bundle does not have it."""
        inner = fullname.removeprefix(f"{__package__}.").replace(".", "/")
        for place in (f"{inner}.py", f"{inner}/__init__.py"):
            if inner != fullname and place in _sources():
                loader = _Loader(fullname, str(_BUNDLE.parent / place), place)
                package = place != f"{inner}.py"
                spec = spec_from_loader(fullname, loader, origin=loader.path, is_package=package)
                if spec is not None:
                    spec.has_location = True
                    if package:
                        spec.submodule_search_locations = [str(Path(loader.path).parent)]
                return spec
        return None


def install() -> None:
    """Have modules found in the bundle, where there is one: in a wheel."""
    if _BUNDLE.is_file():
        # First: folders with nothing but bytecode would pass for packages without a source.
        sys.meta_path.insert(0, Finder())
