"""What a chat template may use: steps, memory, text and time, counted while it runs.

A step is about a microsecond. Whatever reads or makes a value counts it first, or right after where
the value cannot be more than three times what was counted before. Lists and dicts stay until the
end, and go one by one: to free one that nests deeply would exceed the stack of a tab.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from itertools import chain
from typing import Any

from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import Undefined
from jinja2.utils import Namespace

STEPS = 1_000_000  # iterations, calls, values read
MEMORY = 1 << 26  # bytes of all texts, lists and other values that are made
ITEMS = 100_000  # items of any list
TEXT = 1 << 22  # characters of the output and of any text
BITS = 8192  # of an integer that the template makes
SECONDS = 1.5
UNSEEN = 1000  # calls of the meter between two looks at the clock
NODES = 8192  # of the syntax tree, six times those of the largest published template
DEPTH = 100  # of values within values
CALLS = 50  # of macros within macros

# Bytes per value, about.
OBJECT = 64
LETTER = 80  # a text of one character, in a list
ENTRY = 128  # in a list, dict or call: with a small value that may have been made for it
SCOPE = 1024  # a loop or a macro

_ATOMS = (bool, int, float, type(None), Undefined)
_ROWS: tuple[Any, ...] = (list, tuple, range, type({}.keys()), type({}.values()), type({}.items()))
_DATA = (str, dict, Namespace, *_ATOMS, *_ROWS)


class Meter:
    """The remaining budget of one render."""

    def __init__(self) -> None:
        self.steps, self.text, self.memory, self.calls = STEPS, TEXT, MEMORY, 0
        self.held: list[Any] = []  # until the end
        self.check, self.end = STEPS - 1000, time.monotonic() + SECONDS
        self.unseen = UNSEEN

    def charge(self, steps: int) -> None:
        """Count `steps`; raises if the steps or the time are used up.

        The clock is read after so many steps or calls, so that no loop goes on without it.
        """
        if steps < 0:
            raise TemplateRuntimeError(f"the template counts {steps} steps")
        self.steps -= steps
        self.unseen -= 1
        if self.steps < self.check or self.unseen < 0:
            self.check, self.unseen = self.steps - 1000, UNSEEN
            if self.steps < 0:
                raise TemplateRuntimeError(f"the template takes more than {STEPS} steps")
            if time.monotonic() > self.end:
                raise TemplateRuntimeError(f"the template takes more than {SECONDS} seconds")

    def keep(self, nbytes: int) -> None:
        """Count memory; it is not given back, as nobody knows what the template still holds."""
        if nbytes < 0:
            raise TemplateRuntimeError(f"the template counts {nbytes} bytes")
        self.memory -= nbytes
        if self.memory < 0:
            raise TemplateRuntimeError(f"the template makes more than {MEMORY >> 20} MB of values")

    def size(self, length: int, width: int = 4) -> None:
        """Count the making of a text of `length` characters of `width` bytes."""
        if length > TEXT:
            raise TemplateRuntimeError(f"the template makes a text of more than {TEXT} characters")
        length = max(length, 0)  # a text times a negative number is empty
        self.charge(1 + (length >> 6))
        self.keep(OBJECT + length * width)

    def items(self, count: int, each: int = 8) -> None:
        """Count the making of a list of this length, with items of `each` bytes."""
        if count > ITEMS:
            raise TemplateRuntimeError(f"the template makes a list of more than {ITEMS} items")
        count = max(count, 0)
        self.charge(1 + (count >> 4))
        self.keep(OBJECT + count * each)

    def made(self, value: Any) -> Any:
        """Count a text or a list that was made; returns it."""
        if isinstance(value, str):
            self.size(len(value), width(value))
        elif isinstance(value, list | tuple):
            self.items(len(value))
            self.held.append(value)
        return value

    def hold(self, value: Any) -> Any:
        """Hold a list, tuple or dict of items that may be anything; returns it.

        Raises TypeError for an item that is no data: only data lasts beyond its loop or macro.
        """
        self.charge(len(value))
        for item in value.values() if isinstance(value, dict) else value:
            check_data(item)
        self.held.append(value)
        return value

    def release(self) -> None:
        """Free what was held, the newest first: what a value holds is older, but in namespaces."""
        for attributes in [attributes_of(v) for v in self.held if isinstance(v, Namespace)]:
            attributes.clear()
        while self.held:
            self.held.pop()

    def listed(self, value: Any) -> int:
        """Count reading or making a list of the items of `value`; returns their number."""
        if not value:  # some filters take none for no items
            return 0
        kind: type = type(value)
        if not issubclass(kind, (str, dict, *_ROWS)):
            raise TypeError(f"{kind.__name__} is not a list")
        self.items(len(value), LETTER if issubclass(kind, str) else ENTRY >> 1)
        return len(value)

    def write(self, value: Any) -> str:
        """Count a value that goes to the output, to a macro's result or to a block's; its text."""
        text = self.words(value)
        self.size(len(text), width(text))
        self.text -= len(text)
        if self.text < 0:
            raise TemplateRuntimeError(f"the template writes more than {TEXT} characters")
        return text

    def words(self, value: Any) -> str:
        """`value` as text, counted."""
        if isinstance(value, str):
            return value
        self.weigh(value)
        text: str = self.made(str(value))
        return text

    def weigh(self, value: Any) -> int:
        """Count all parts of `value`, before an operation reads all of it; the bytes of its texts.

        Raises TypeError for what is no value of a template, such as a method.
        """
        if isinstance(value, _ATOMS):
            return 0
        length = nbytes = 0
        inner: list[Iterator[Any]] = [iter((value,))]
        while inner:
            for item in inner[-1]:
                if isinstance(item, str):
                    length += len(item)
                    nbytes += len(item) * width(item)
                    if length > TEXT:
                        raise TemplateRuntimeError(
                            f"the template handles a text of more than {TEXT} characters"
                        )
                    self.charge(1 + (len(item) >> 12))
                    continue
                self.charge(1)
                if isinstance(item, _ATOMS):
                    continue
                if len(inner) > DEPTH:
                    raise TemplateRuntimeError(f"a value nests deeper than {DEPTH}")
                inner.append(iter(_parts(item)))
                break
            else:
                inner.pop()
        return nbytes


METER: ContextVar[Meter] = ContextVar("meter")


def width(text: str) -> int:
    """The bytes of a character of `text`, at most."""
    return 1 if text.isascii() else 4


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Namespace):
        value = attributes_of(value)
    if isinstance(value, Mapping):
        return chain.from_iterable(value.items())
    check_data(value)
    rows: Iterable[Any] = value
    return rows


def check_data(value: Any) -> None:
    """Raise TypeError for what is no value of a template, such as a method."""
    if not isinstance(value, _DATA):
        kind = "method" if callable(value) else type(value).__name__
        raise TypeError(f"a {kind} is neither text nor data; was it to be called?")


def attributes_of(namespace: Namespace) -> dict[str, Any]:
    """The attributes that a template set on a namespace."""
    attributes: dict[str, Any] = object.__getattribute__(namespace, "_Namespace__attrs")
    return attributes
