"""Modules that hold parameters: ParameterList, ParameterDict. Tensors become parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rushlight.core.nn.module import Module
from rushlight.core.nn.parameter import Parameter
from rushlight.core.tensor.tensor import Tensor

_ABSENT = object()


def _parameter(value: Any) -> Any:
    plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if plain else value


def _line(name: str, value: Any, dtype: str) -> str:
    """A line of the repr, in torch's words."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    size = "x".join(map(str, value.shape))
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({name}): {kind} containing: [{dtype} of size {size}]"


class ParameterList(Module):
    """Values named by their index; tensors become parameters, other values stay as they are."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        self._count = 0
        self.extend(values or ())

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end; gives the list itself."""
        setattr(self, str(self._count), _parameter(value))
        self._count += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add values at the end; gives the list itself. TypeError for what is no sequence."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(
                f"ParameterList.extend: {type(values).__name__} is not a list of values"
            )
        for value in list(values):
            self.append(value)
        return self

    def _place(self, index: int) -> str:
        if not -self._count <= index < self._count:
            raise IndexError(f"ParameterList: index {index} is out of range for {self._count}")
        return str(index % self._count)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return iter([getattr(self, str(i)) for i in range(self._count)])

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._place(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._place(index), _parameter(value))

    def __iadd__(self, other: Iterable[Any]) -> ParameterList:
        return self.extend(other)

    def pop(self, index: int = -1) -> Any:
        """Take a value out."""
        items = list(self)
        value = items.pop(index)
        for i in range(self._count):
            delattr(self, str(i))
        self._count = 0
        self.extend(items)
        return value

    def _child_lines(self) -> list[str]:
        return [
            _line(str(i), x, f"torch.{x.dtype.name}" if isinstance(x, Tensor) else "")
            for i, x in enumerate(self)
        ]


class ParameterDict(Module):
    """Values by name, in insertion order; tensors become parameters, others stay as they are."""

    def __init__(self, parameters: Any = None) -> None:
        self._keys: dict[str, None] = {}
        self.update(parameters or {})

    def update(self, parameters: Any) -> None:
        """Add or replace values: a mapping, or pairs of a name and a value."""
        pairs = parameters if isinstance(parameters, Mapping | ParameterDict) else dict(parameters)
        for name, value in pairs.items():
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        if name not in self._keys:
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._keys and hasattr(self, name):
            raise KeyError(f"ParameterDict: a value cannot be called {name!r}")
        self._keys[name] = None
        setattr(self, name, _parameter(value))

    def __delitem__(self, name: str) -> None:
        del self._keys[name]
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._keys))

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def keys(self) -> list[str]:
        """The names."""
        return list(self._keys)

    def values(self) -> list[Any]:
        """The values."""
        return [getattr(self, name) for name in self._keys]

    def items(self) -> list[tuple[str, Any]]:
        """Names with their values."""
        return list(zip(self._keys, self.values(), strict=True))

    def get(self, key: str, default: Any = None) -> Any:
        """The value of this name, or the default."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of this name, which is set to the default where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Take a value out. KeyError where there is none of this name."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take the last name and its value out."""
        name = next(reversed(self))
        return name, self.pop(name)

    def clear(self) -> None:
        """Take all values out."""
        for name in self.keys():
            del self[name]

    def copy(self) -> ParameterDict:
        """Another dict of the same values."""
        return ParameterDict(dict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A dict of these names, each with the default."""
        return ParameterDict(dict.fromkeys(keys, default))

    def __or__(self, other: Any) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self

    def _child_lines(self) -> list[str]:
        return [
            _line(n, x, str(x.type()) if isinstance(x, Tensor) else "") for n, x in self.items()
        ]
