"""Imports such as `rushlight.nn.modules.linear`: found by the table of paths, when asked for.

`import rushlight` reads no table. `install` puts a finder before Python's own and gives the
packages a `__getattr__` that looks for modules below them, so `rl.utils.data.dataloader` needs no
import of its own, as in torch.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from rushlight.core.basis.errors import absent

ROOT = "rushlight."
_entered: dict[str, ModuleType] = {}  # see `install`
_later: dict[str, str] = {}
ROOMS = frozenset(("cli", "core", "models", "web", "site", "wgsl_kernels", "simd_kernels"))


class Row:
    """A line of the table: a module, names gathered from others, a value, or a refusal."""

    def __init__(
        self, module: str = "", names: str | None = None, refusal: str = "", value: str = ""
    ) -> None:
        self.module, self.names, self.refusal, self.value = module, names, refusal, value


@functools.cache
def table() -> dict[str, Row]:
    """The rows of `paths.txt` by torch's path, without "torch."."""
    rows, kinds = {}, {"=": "module", ":": "names", "!": "refusal", "@": "value"}
    text = Path(__file__).with_name("paths.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            path, kind, rest = (*line.split(" ", 2), "")[:3]
            for each in path.split(","):
                rows[each] = Row(**{kinds[kind]: rest})
    return rows


def refusal(path: str) -> str:
    """Why a path is not there, said of itself or of what it lies in; "" if nothing says so."""
    rows, above = table(), path
    while above:
        for name in [above] if above == path else [f"{above}.*", above]:
            if name in rows and rows[name].refusal:
                return rows[name].refusal
        above = above.rpartition(".")[0]
    return ""


class Gathered(ModuleType):
    """A module of torch whose names are kept in modules above it, or where a row says."""

    def __init__(self, path: str, names: Iterable[str]) -> None:
        super().__init__(ROOT + path, f"The names of torch.{path}.")
        said = [(name.partition("=")[0], name.partition("=")[2]) for name in names]
        self.__dict__.update(_path=path, _places=dict(said), __path__=[])
        self.__all__ = [name for name, _ in said if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        if f"{self._path}.{name}" in table():
            return below(self._path, name)
        if name not in self._places:
            raise absent(self.__name__, name, self._places)
        value = self._lookup(name)
        setattr(self, name, value)
        return value

    def _lookup(self, name: str) -> Any:
        if place := self._places[name]:
            module, _, attribute = place.rpartition(".")
            holder = importlib.import_module((ROOT + module).rstrip("."))
            if hasattr(holder, attribute):
                return getattr(holder, attribute)
            return importlib.import_module(ROOT + place)
        above = self._path
        while above := above.rpartition(".")[0]:
            names = vars(importlib.import_module(ROOT + above))
            if name in names:
                return names[name]
        return getattr(sys.modules[ROOT[:-1]], name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._places})


def late(name: str) -> Any:
    """A name of torch itself that few programs use, or None."""
    return getattr(importlib.import_module(f"{__package__}.programs.late"), name, None)


class _Package(ModuleType):
    """A module that keeps a function where a module of its name is imported below it.

    `nn.utils.weight_norm` is a function, and `from nn.utils.weight_norm import weight_norm` works.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        before = self.__dict__.get(name)
        if before is None or isinstance(before, ModuleType) or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


class _Given(Loader):
    """Enters a module that exists already, or is made by `make`, under one more name."""

    def __init__(self, make: Callable[[], ModuleType], path: str) -> None:
        self.make, self.path = make, path

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        known = self.make()
        _open(known, self.path)
        assert module.__spec__ is not None
        sys.modules[module.__spec__.name] = known


def _open(module: ModuleType, path: str) -> None:
    """Let a module have others below it, and find them under each of its paths."""
    paths = vars(module).setdefault("_torch_paths", [])
    paths.append(path)
    if len(paths) == 1 and not isinstance(module, Gathered):
        vars(module)["__getattr__"] = _looking(module, paths)
    if "__path__" not in vars(module):
        vars(module)["__path__"] = []
    if type(module) is ModuleType:
        module.__class__ = _Package


class Finder(MetaPathFinder):
    """Answers for `rushlight.PATH` where PATH is not a room."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """How to get the module; ModuleNotFoundError with the reason where it is refused."""
        if not fullname.startswith(ROOT):
            return None
        inner = fullname.removeprefix(ROOT)
        if inner.partition(".")[0] in ROOMS:
            return None
        row = table().get(inner)
        make: Callable[[], ModuleType]
        if inner in _later:
            make = functools.partial(imported, _later[inner])
        elif row is not None and row.module:
            make = functools.partial(importlib.import_module, ROOT + row.module)
        elif row is not None and row.names is not None:
            make = functools.partial(Gathered, inner, row.names.split())
        else:
            above, _, last = fullname.rpartition(".")
            real = f"{sys.modules[above].__name__}.{last}"
            absent_here = real == fullname or not real.startswith(ROOT)
            if row is not None or absent_here or importlib.util.find_spec(real) is None:
                if why := refusal(inner):
                    text = f"torch.{inner} is not supported; {why}"
                    raise ModuleNotFoundError(text, name=fullname)
                return None
            make = functools.partial(importlib.import_module, real)  # one module, two names
        return ModuleSpec(fullname, _Given(make, inner), is_package=True)


def below(path: str, name: str) -> Any:
    """The module or value `name` below `path`; AttributeError with the reason for a refused one."""
    row = table()[f"{path}.{name}" if path else name]
    if row.value:
        module, _, attribute = row.value.rpartition(".")
        return getattr(importlib.import_module(ROOT + module), attribute)
    try:
        return importlib.import_module(f"{ROOT}{path}.{name}" if path else ROOT + name)
    except ModuleNotFoundError as error:
        raise AttributeError(str(error), name=name) from None


def _looking(module: ModuleType, paths: list[str]) -> Callable[[str], Any]:
    """A module's `__getattr__` that looks for modules below its paths, then asks its own."""
    earlier: Callable[[str], Any] | None = vars(module).get("__getattr__")

    def find(name: str) -> Any:
        for path in () if name.startswith("__") else paths:
            if f"{path}.{name}" in table():
                return below(path, name)
        if earlier is not None:
            return earlier(name)
        public = [n for n in vars(module) if not n.startswith("_")]
        raise absent(ROOT + paths[0], name, public)

    return find


def imported(module: str) -> ModuleType:
    """The module below rushlight, which is imported now if it was not."""
    return importlib.import_module(ROOT + module)


def entered() -> dict[str, str]:
    """The paths that `install` was given, and the names of their modules."""
    now = {path: module.__name__ for path, module in _entered.items()}
    return {**now, **{path: ROOT + module for path, module in _later.items()}}


def install(modules: dict[str, ModuleType], later: dict[str, str]) -> None:
    """Enter the modules under their paths of torch, and answer for those below them.

    later: paths of modules that are imported when they are asked for.
    """
    _entered.update(modules)
    _later.update(later)
    sys.modules[ROOT[:-1]].__class__ = _Package
    for path, module in modules.items():
        sys.modules[ROOT + path] = module
        _open(module, path)
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
