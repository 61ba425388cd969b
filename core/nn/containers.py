"""Modules that hold others: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

from rushlight.core.nn.module import Module

M = TypeVar("M", bound=Module)


class _Numbered(Module, Generic[M]):
    """Children called "0", "1", ..."""

    def append(self, module: M) -> _Numbered[M]:
        """Add a module at the end; gives the container itself."""
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[M]) -> _Numbered[M]:
        """Add modules at the end; gives the container itself."""
        for module in modules:
            self.append(module)
        return self

    def _items(self) -> list[M]:
        return [child for _, child in self._own_modules()]  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self._own_modules())

    def __iter__(self) -> Iterator[M]:
        return iter(self._items())

    @overload
    def __getitem__(self, index: int) -> M: ...
    @overload
    def __getitem__(self, index: slice) -> _Numbered[M]: ...
    def __getitem__(self, index: int | slice) -> M | _Numbered[M]:
        found = self._items()[index]
        if not isinstance(found, list):
            return found
        part: _Numbered[M] = type(self).__new__(type(self))
        return part.extend(found)

    def __setitem__(self, index: int, module: M) -> None:
        setattr(self, self._own_modules()[index][0], module)


class ModuleList(_Numbered[M]):
    """A list of modules named by their index: `layers.0`, `layers.1`, ..."""

    def __init__(self, modules: Iterable[M] = ()) -> None:
        self.extend(modules)

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

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        for i, module in enumerate(modules):
            if isinstance(module, Mapping):
                for name, child in module.items():
                    self.register_module(name, child)
            else:
                self.register_module(str(i), module)

    def forward(self, x: Any) -> Any:
        """The last module's result."""
        for module in self:
            x = module(x)
        return x


class ModuleDict(Module):
    """Modules by name, in insertion order."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add or replace modules."""
        for name, module in modules.items():
            self[name] = module

    def __getitem__(self, name: str) -> Module:
        return dict(self._own_modules())[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.register_module(name, module)

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
