"""Objects of classes that a pickle names: what they hold is read, and no class is imported or made.

A Record gathers what a pickle gives to an object: arguments, items, attributes. `RULES` and
`plain_of` say which plain value stands for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_SCALARS = (str, int, float, bool, bytes)
# A class by its name (PEP 8), but for exceptions: a call of it with one number or text is how the
# standard library pickles members of enumerations.
_CLASS = re.compile(r"(?:\w+\.)*[A-Z]\w*(?<!Error)(?<!Exception)(?<!Warning)")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What stands in place of a value that only running code could make. name: what it was."""

    name: str

    def __repr__(self) -> str:
        return f"<left out: {self.name}>"


@dataclass(frozen=True, slots=True)
class Named:
    """A class or function that a pickle names and that is not looked up; value: a harmless one."""

    name: str
    value: Any = None


class Record:
    """An object that a pickle describes: its class or maker by name, and what is given to it.

    called: any callable may have this name; otherwise it is a class whose object is made empty.
    """

    __slots__ = ("arguments", "called", "entries", "items", "name", "state")

    def __init__(self, name: str, arguments: tuple[Any, ...] = (), called: bool = False) -> None:
        self.name, self.arguments, self.called = name, arguments, called
        self.items: list[Any] = []
        self.entries: dict[Any, Any] = {}
        self.state: Any = None

    def with_state(self, state: Any) -> Record:
        """The same record with its attributes, or whatever its class keeps."""
        self.state = state
        return self

    @property
    def attributes(self) -> dict[Any, Any] | None:
        """Its attributes by name, those of `__slots__` too; None where its state is another."""
        state = self.state
        if type(state) is tuple and len(state) == 2 and type(state[1]) is dict:
            if state[0] is None or type(state[0]) is dict:
                return {**(state[0] or {}), **state[1]}
        return state if type(state) is dict else None


def _state(record: Record) -> Any:
    return record.state


def _argument(record: Record) -> Any:
    return record.arguments[0]


def _keys(*wanted: str) -> Callable[[Record], Any]:
    """The first of these attributes."""

    def take(record: Record) -> Any:
        attributes = record.attributes or {}
        return next(attributes[key] for key in wanted if key in attributes)

    return take


def _uuid(record: Record) -> Any:
    from uuid import UUID

    return UUID(int=(record.attributes or {})["int"])


# Name of a class -> the value that stands for its object; one that does not fit is left out.
RULES: dict[str, Callable[[Record], Any]] = {
    "uuid.UUID": _uuid,
    "random.Random": _state,  # what random.setstate takes
    "numpy.random._pickle.__bit_generator_ctor": lambda r: (
        r.state[0] if type(r.state) is tuple else r.state
    ),
    "numpy.random._pickle.__generator_ctor": _argument,
    "numpy.random._pickle.__randomstate_ctor": _state,
    "torch._C.Generator": lambda r: r.state[2],  # what torch.Generator.set_state takes
    "collections.UserDict": _keys("data"),
    "UserDict.IterableUserDict": _keys("data"),
    "UserDict.UserDict": _keys("data"),
    "collections.UserList": _keys("data"),
    "UserList.UserList": _keys("data"),
    "omegaconf.dictconfig.DictConfig": _keys("_content"),
    "omegaconf.listconfig.ListConfig": _keys("_content"),
}
_NODES = re.compile(r"omegaconf\.nodes\.\w+Node")  # hold one value


def plain_of(record: Record) -> Any:
    """The plain value that stands for an object, whose parts may be records still.

    A dict or list of a class of its own is its items; a text, number or tuple of such a class is
    that; a member of an enumeration is its value; any other object is the dict of its attributes.
    LeftOut where only a call could make the value.
    """
    rule = RULES.get(record.name)
    if rule is None and _NODES.fullmatch(record.name):
        rule = _keys("_val")
    if rule is not None:
        try:
            return rule(record)
        except (ValueError, TypeError, KeyError, IndexError, StopIteration, RuntimeError):
            return LeftOut(record.name)
    if record.entries or record.items:
        return record.entries or record.items
    arguments, attributes = record.arguments, record.attributes
    if record.called:
        if attributes is not None:
            return attributes
        if len(arguments) == 1 and type(arguments[0]) in _SCALARS and _CLASS.fullmatch(record.name):
            return arguments[0]
        return LeftOut(record.name)
    if len(arguments) == 1 and type(arguments[0]) in (*_SCALARS, tuple):
        return arguments[0]
    if arguments:
        return arguments
    return (
        {"state": record.state}
        if attributes is None and record.state is not None
        else (attributes or {})
    )
