"""Imports modules out of one text file, which packs better in a wheel than many small ones.

The file holds "\\0", a module's place, a line end and its source, for each. Bytecode is kept as of
modules that are files: in `__pycache__` where they would lie, while the text file is as it is.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.abc import PathEntryFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "modules.txt"


@cache
def _sources(bundle: str) -> dict[str, bytes]:
    pieces = Path(bundle).read_bytes().split(b"\0")[1:]
    split = (piece.partition(b"\n") for piece in pieces)
    return {place.decode(): source for place, _, source in split}


class _Loader(SourceFileLoader):
    """Loads the module whose source would be the file `path` beside the bundle."""

    def __init__(self, name: str, path: str, bundle: str, place: str) -> None:
        super().__init__(name, path)
        self._bundle, self._place = bundle, place

    def get_data(self, path: str) -> bytes:
        """The source, or the bytecode that a file holds."""
        return _sources(self._bundle)[self._place] if path == self.path else super().get_data(path)

    def path_stats(self, path: str) -> dict[str, Any]:
        """What bytecode must fit to be valid."""
        changed = Path(self._bundle).stat().st_mtime
        return {"mtime": changed, "size": len(_sources(self._bundle)[self._place])}


class Finder(PathEntryFinder):
    """Finds modules in the bundle of a folder; ImportError for any other path, as hooks do."""

    def __init__(self, path: str) -> None:
        if Path(path).name != NAME or not Path(path).is_file():
            raise ImportError(f"{path} holds no modules")
        self._bundle = path

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module `fullname`, or None where the bundle does not have it."""
        inner = fullname.removeprefix(f"{__package__}.").replace(".", "/")
        for place in (f"{inner}.py", f"{inner}/__init__.py"):
            if place in _sources(self._bundle):
                path = str(Path(self._bundle).parent / place)
                loader = _Loader(fullname, path, self._bundle, place)
                package = place != f"{inner}.py"
                spec = spec_from_loader(fullname, loader, origin=path, is_package=package)
                if spec is not None:
                    spec.has_location = True
                    if package:
                        spec.submodule_search_locations = [self._bundle]
                return spec
        return None


def places(package: str) -> list[str]:
    """What the `__path__` of the package in the file `package` has besides its folder."""
    bundle = Path(package).with_name(NAME)
    if not bundle.is_file():
        return []  # a checkout
    sys.path_hooks.append(Finder)
    return [str(bundle)]
