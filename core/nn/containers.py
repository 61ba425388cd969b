"""Modules that hold others: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, overload

from rushlight.core.nn.module import Module
from rushlight.core.nn.parameter import Parameter

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

    def append(self, module: M) -> _Numbered[M]:
        """Add a module at the end; gives the container itself."""
        self.register_module(str(len(self)), checked(self, module))
        return self

    def extend(self, modules: Iterable[M]) -> _Numbered[M]:
        """Add modules at the end; gives the container itself."""
        for module in modules:
            self.append(module)
        return self

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
        found = self._items()[index]
        if not isinstance(found, list):
            return found
        part: _Numbered[M] = type(self).__new__(type(self))
        return part.extend(found)

    def __setitem__(self, index: int, module: M) -> None:
        setattr(self, self._own_modules()[index][0], checked(self, module))

    def __delitem__(self, index: int | slice) -> None:
        kept = self._items()
        del kept[index]
        self._renumber(kept)

    def insert(self, index: int, module: M) -> _Numbered[M]:
        """Put a module before `index`; gives the container itself."""
        items = self._items()
        items.insert(index, checked(self, module))
        self._renumber(items)
        return self

    def pop(self, index: int = -1) -> M:
        """Take a module out."""
        found = self._items()[index]
        del self[index]
        return found

    def _renumber(self, items: list[M]) -> None:
        for name, _ in self._own_modules():
            delattr(self, name)
        self.extend(items)


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

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        for i, module in enumerate(args):
            if isinstance(module, Mapping):
                for name, child in module.items():
                    self.register_module(name, checked(self, child))
            else:
                self.register_module(str(i), checked(self, module))

    def forward(self, input: Any) -> Any:
        """The last module's result."""
        for module in self:
            input = module(input)
        return input


class ModuleDict(Module):
    """Modules by name, in insertion order."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add or replace modules."""
        for name, module in modules.items():
            self[name] = module

    def __getitem__(self, name: str) -> Module:
        found: Module = dict(self._own_modules())[name]
        return found

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


class ParameterList(Module):
    """Parameters named by their index; tensors become parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        self.extend(values or ())

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end; gives the list itself."""
        self.register_module(str(len(self)), _parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add parameters at the end; gives the list itself."""
        for value in values:
            self.append(value)
        return self

    def __len__(self) -> int:
        return len(self._own_parameters())

    def __iter__(self) -> Iterator[Any]:
        return iter([p for _, p in self._own_parameters()])

    def __getitem__(self, index: int) -> Any:
        return self._own_parameters()[index][1]

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._own_parameters()[index][0], _parameter(value))


class ParameterDict(Module):
    """Parameters by name, in insertion order; tensors become parameters."""

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        self.update(parameters or {})

    def update(self, parameters: Mapping[str, Any]) -> None:
        """Add or replace parameters."""
        for name, value in parameters.items():
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        return dict(self._own_parameters())[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.register_module(name, _parameter(value))

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in dict(self._own_parameters())

    def __len__(self) -> int:
        return len(self._own_parameters())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> Iterable[str]:
        """The names."""
        return [name for name, _ in self._own_parameters()]

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return [p for _, p in self._own_parameters()]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names with their parameters."""
        return self._own_parameters()


def _parameter(value: Any) -> Any:
    return value if isinstance(value, Parameter) else Parameter(value)
