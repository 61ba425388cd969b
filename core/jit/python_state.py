"""The Python values that a function may read: to see whether it changed them, or others did."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.core.jit import capture
from rushlight.core.nn.module import Module
from rushlight.core.tensor.tensor import Tensor

_SIMPLE = (int, float, complex, str, bytes, bool, type(None))
_HOLDERS = (list, dict, set, deque)
_ABSENT = object()


def _ours(value: Any) -> bool:
    return type(value).__module__.startswith("rushlight.")


def _content(value: Any) -> tuple[Any, ...] | None:
    """What lies in a list, dict, set or deque; None for other values."""
    if isinstance(value, dict):
        return (*value, *value.values())
    return tuple(value) if isinstance(value, _HOLDERS) else None


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    return type(a) is type(b) and isinstance(a, _SIMPLE) and a == b


class PythonState:
    """What stands in globals, closures, modules and objects that a function names, at one time.

    Tensors and children of modules are left out, since captures follow those themselves.
    """

    def __init__(self, fn: Callable[..., Any], args: Any = ()) -> None:
        self._made = capture.attributes
        self._of_modules: list[tuple[dict[str, Any], str, Any, Any]] = []  # set through the module
        self._notes: list[tuple[dict[str, Any], str, Any, Any]] = []
        self._holders: list[tuple[dict[str, Any], frozenset[str]]] = []
        self._cells: list[tuple[Any, Any, Any]] = []
        self._seen: set[int] = set()
        self._object(fn)
        for value in self._flat(args):
            if isinstance(value, Module):
                self._object(value)

    @staticmethod
    def _flat(value: Any) -> Iterator[Any]:
        if isinstance(value, list | tuple):
            for each in value:
                yield from PythonState._flat(each)
        elif isinstance(value, dict):
            for each in value.values():
                yield from PythonState._flat(each)
        else:
            yield value

    def _first(self, value: Any) -> bool:
        new = id(value) not in self._seen
        self._seen.add(id(value))
        return new

    def _object(self, value: Any) -> None:
        """Note what a function, method, module or plain object refers to."""
        if isinstance(value, types.MethodType):
            self._object(value.__func__)
            self._object(value.__self__)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, Module):
            for module in value.modules():
                self._attributes(module)
                forward = type(module).forward
                if not forward.__module__.startswith("rushlight."):
                    self._object(forward)
        elif hasattr(value, "__dict__") and not isinstance(value, type | types.ModuleType):
            if not _ours(value) and type(value).__module__.partition(".")[0] != "numpy":
                self._attributes(value)

    def _attributes(self, value: Any) -> None:
        if self._first(value):
            holder = vars(value)
            self._holders.append((holder, frozenset(holder)))
            for name in holder:
                if name != "training":
                    self._note(holder, name, isinstance(value, Module))

    def _note(self, holder: dict[str, Any], name: str, of_module: bool = False) -> None:
        value = holder.get(name, _ABSENT)
        if not isinstance(value, Tensor | Module):
            content = _content(value)
            notes = self._of_modules if of_module and content is None else self._notes
            notes.append((holder, name, value, content))

    def _function(self, fn: types.FunctionType) -> None:
        if not self._first(fn) or fn.__module__.startswith("rushlight."):
            return
        codes, names = [fn.__code__], set()
        while codes:
            code = codes.pop()
            names |= set(code.co_names)
            codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        values_read = []
        for name in names & fn.__globals__.keys():
            self._note(fn.__globals__, name)
            values_read.append(fn.__globals__[name])
        for cell in fn.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            self._cells.append((cell, value, _content(value)))
            values_read.append(value)
        for value in values_read:
            self._object(value)

    def changed(self) -> str:
        """What has another value now, in words; "" if nothing has."""
        notes = self._notes
        if capture.attributes != self._made:
            notes = [*notes, *self._of_modules]
        for holder, names in self._holders:
            if holder.keys() != names:
                return "an object has other attributes than when it was captured"
        for holder, name, value, content in notes:
            now = holder.get(name, _ABSENT)
            if not _same(now, value) or not self._equal(content, now):
                return f"{name} has another value than when it was captured"
        for cell, value, content in self._cells:
            now = cell.cell_contents
            if isinstance(now, Tensor | Module) and now is value:
                continue
            if not _same(now, value) or not self._equal(content, now):
                return "a variable of the function around it has another value"
        self._made = capture.attributes
        return ""

    @staticmethod
    def _equal(content: tuple[Any, ...] | None, now: Any) -> bool:
        if content is None:
            return True
        other = _content(now)
        return (
            other is not None
            and len(other) == len(content)
            and all(_same(a, b) for a, b in zip(content, other, strict=True))
        )
