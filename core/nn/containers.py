"""Modules that hold others: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

from rushlight.core.nn.module import Module

M = TypeVar("M", bound=Module)


def checked(container: Module, module: Any) -> Any:
    """The module; TypeError for anything else, which a container would lose."""
    if not isinstance(module, Module):
        raise TypeError(
            f"{type(container).__name__}: {module!r:.100} is not a Module; use the layer of the "
            "same name, such as nn.ReLU() for a function relu"
        )
    return module


class _Numbered(Module, Generic[M]):
    """Children called "0", "1", ..."""

    _keeps_names = False  # whether a slice has the names of the whole

    def append(self, module: M) -> _Numbered[M]:
        """Add a module at the end; gives the container itself."""
        self.register_module(str(len(self)), checked(self, module))
        return self

    def extend(self, modules: Iterable[M]) -> _Numbered[M]:
        """Add modules at the end; gives the container itself."""
        for module in modules:
            self.append(module)
        return self

    def __add__(self, other: Iterable[M]) -> _Numbered[M]:
        joined: _Numbered[M] = type(self).__new__(type(self))
        return joined.extend(self).extend(_many(self, other))

    def __iadd__(self, other: Iterable[M]) -> _Numbered[M]:
        return self.extend(_many(self, other))

    def _items(self) -> list[M]:
        return [child for _, child in self._own_modules()]

    def __len__(self) -> int:
        return len(self._own_modules())

    def __iter__(self) -> Iterator[M]:
        return iter(self._items())

    @overload
    def __getitem__(self, index: int) -> M: ...
    @overload
    def __getitem__(self, index: slice) -> _Numbered[M]: ...
    def __getitem__(self, index: int | slice) -> M | _Numbered[M]:
        items = self._items()[index]
        if not isinstance(items, list):
            return items
        container: _Numbered[M] = type(self).__new__(type(self))
        if not self._keeps_names:
            return container.extend(items)
        pairs: Any = self._own_modules()[index]
        for name, module in pairs:
            container.register_module(name, module)
        return container

    def __setitem__(self, index: int, module: M) -> None:
        setattr(self, self._own_modules()[index][0], checked(self, module))

    def __delitem__(self, index: int | slice) -> None:
        remaining = self._items()
        del remaining[index]
        self._renumber(remaining)

    def insert(self, index: int, module: M) -> _Numbered[M]:
        """Put a module before `index`; gives the container itself."""
        items = self._items()
        items.insert(index, checked(self, module))
        self._renumber(items)
        return self

    def pop(self, index: int = -1) -> M:
        """Take a module out."""
        module = self._items()[index]
        del self[index]
        return module

    def _renumber(self, items: list[M]) -> None:
        for name, _ in self._own_modules():
            delattr(self, name)
        self.extend(items)


def _many(container: Module, modules: Any) -> Iterable[Any]:
    """The modules that are to be added; TypeError for what is no sequence of them."""
    if not isinstance(modules, Iterable):
        raise TypeError(
            f"{type(container).__name__}: {modules!r:.100} cannot be added; give a list of modules"
        )
    return list(modules)


class ModuleList(_Numbered[M]):
    """A list of modules named by their index: `layers.0`, `layers.1`, ..."""

    def __init__(self, modules: Iterable[M] | None = None) -> None:
        self.extend(modules or ())

    def _child_lines(self) -> list[str]:
        # As in torch, neighbours with the same repr print as one line.
        runs: list[tuple[int, int, str]] = []
        for i, (_, child) in enumerate(self._own_modules()):
            text = repr(child)
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        return [
            f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}"
            for a, b, text in runs
        ]


class Sequential(_Numbered[Module]):
    """Modules called in order, each on the result of the one before.

    Takes modules, or one mapping of names to modules.
    """

    _keeps_names = True

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        for i, module in enumerate(args):
            if isinstance(module, Mapping):
                for name, child in module.items():
                    self.register_module(name, checked(self, child))
            else:
                self.register_module(str(i), checked(self, module))

    def __mul__(self, other: int) -> Sequential:
        if not isinstance(other, int) or other < 1:
            raise ValueError(f"Sequential: {other!r} times is not supported; it must be 1 or more")
        repeated = Sequential()
        for _ in range(other):
            repeated.extend(self)
        return repeated

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        items = list(self * other)
        self.extend(items[len(self) :])
        return self

    def forward(self, input: Any) -> Any:
        """The last module's result."""
        for module in self:
            input = module(input)
        return input


class ModuleDict(Module):
    """Modules by name, in insertion order."""

    def __init__(
        self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None
    ) -> None:
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules: a mapping, or pairs of a name and a module."""
        for name, module in dict(modules).items():
            self[name] = module

    def pop(self, key: str) -> Module:
        """Take a module out. KeyError where there is none of this name."""
        module = self[key]
        del self[key]
        return module

    def clear(self) -> None:
        """Take all modules out."""
        for name in self.keys():
            del self[name]

    def __getitem__(self, name: str) -> Module:
        module: Module = dict(self._own_modules())[name]
        return module

    def __setitem__(self, name: str, module: Module) -> None:
        self.register_module(name, checked(self, module))

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in dict(self._own_modules())

    def __len__(self) -> int:
        return len(self._own_modules())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> Iterable[str]:
        """The names."""
        return [name for name, _ in self._own_modules()]

    def values(self) -> Iterable[Module]:
        """The modules."""
        return [module for _, module in self._own_modules()]

    def items(self) -> Iterable[tuple[str, Module]]:
        """Names with their modules."""
        return self._own_modules()
