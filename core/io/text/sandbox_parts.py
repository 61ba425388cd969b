"""The filters, methods and functions of chat templates, with counted cost, and the meter.

core/io/text/sandbox.py runs templates with these. web/template/template_filters.js is the tab's
counterpart.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from jinja2 import filters, pass_context
from jinja2.exceptions import SecurityError, TemplateError, TemplateRuntimeError
from jinja2.runtime import LoopContext, Undefined
from jinja2.utils import Namespace

STEPS = 1_000_000  # iterations, calls, values read
ITEMS = 100_000  # items of any list
TEXT = 1 << 22  # characters of the output and of any string
NUMBER = 1 << 53  # integers up to here are exact in JavaScript
SECONDS = 1.5
INDENT = 64

METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        "capitalize count endswith find isalnum isalpha isdigit islower isspace isupper join lower "
        "lstrip partition removeprefix removesuffix replace rfind rpartition rsplit rstrip split "
        "splitlines startswith strip title upper".split()
    ),
    dict: frozenset(("get", "items", "keys", "values")),
    list: frozenset(("count", "index")),
    tuple: frozenset(("count", "index")),
}
FILTERS = (
    "abs capitalize count d default dictsort first float indent int items join last length list "
    "lower map max min reject rejectattr replace reverse round select selectattr sort string sum "
    "title trim unique upper"
).split()
TESTS = (
    "!= < <= == > >= boolean callable defined divisibleby eq equalto even false float ge "
    "greaterthan gt in integer iterable le lessthan lower lt mapping ne none number odd sameas "
    "sequence string true undefined upper"
).split()
_SHALLOW = frozenset(("count", "d", "default", "first", "items", "last", "length", "list", "map"))


class Meter:
    """The remaining budget of one render."""

    def __init__(self) -> None:
        self.steps, self.text = STEPS, TEXT
        self.check, self.end = STEPS - 1000, time.monotonic() + SECONDS

    def charge(self, steps: int) -> None:
        """Count `steps`; raises if the steps or the time are used up."""
        self.steps -= steps
        if self.steps < self.check:
            self.check = self.steps - 1000
            if self.steps < 0:
                raise TemplateRuntimeError(f"the template takes more than {STEPS} steps")
            if time.monotonic() > self.end:
                raise TemplateRuntimeError(f"the template takes more than {SECONDS} seconds")

    def size(self, length: int) -> None:
        """Count the making of a string of this length."""
        if length > TEXT:
            raise TemplateRuntimeError(f"the template makes a text of more than {TEXT} characters")
        self.charge(1 + (length >> 6))

    def items(self, count: int) -> None:
        """Count the making of a list of this length."""
        if count > ITEMS:
            raise TemplateRuntimeError(f"the template makes a list of more than {ITEMS} items")
        self.charge(1 + (count >> 4))

    def write(self, text: str) -> str:
        """Count text that goes to the output, to a macro's result or to a block's."""
        self.size(len(text))
        self.text -= len(text)
        if self.text < 0:
            raise TemplateRuntimeError(f"the template writes more than {TEXT} characters")
        return text

    def weigh(self, value: Any) -> None:
        """Count all parts of `value`, before an operation reads all of it."""
        if type(value) is int or isinstance(value, bool | float | None | Undefined):
            return
        text, left = 0, [value]
        while left:
            item = left.pop()
            if isinstance(item, str):
                text += len(item)
                if text > TEXT:
                    raise TemplateRuntimeError(
                        f"the template handles a text of more than {TEXT} characters"
                    )
                self.charge(1 + (len(item) >> 12))
                continue
            self.charge(1)
            if isinstance(item, Namespace):
                item = attributes_of(item)
            if isinstance(item, Mapping):
                left.extend(item)
                left.extend(item.values())
            elif isinstance(item, Iterable) and not isinstance(item, Undefined | LoopContext):
                left.extend(item)


def attributes_of(namespace: Namespace) -> dict[str, Any]:
    """The attributes that a template set on a namespace."""
    found: dict[str, Any] = object.__getattribute__(namespace, "_Namespace__attrs")
    return found


METER: ContextVar[Meter] = ContextVar("meter")


def checked(value: Any) -> Any:
    """`value`; raises for a number that the two engines would treat differently."""
    if isinstance(value, complex) or (isinstance(value, int) and abs(value) > NUMBER):
        raise TemplateRuntimeError("the template makes a number beyond 2**53")
    return value


def replaced(text: str, old: str, new: str, count: int | None = -1) -> int:
    """The length of text.replace(old, new, count)."""
    found = text.count(old)
    if count is not None and count >= 0:
        found = min(found, count)
    return len(text) + found * (len(new) - len(old))


def _expect(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], *names: str) -> list[Any]:
    """The arguments of a filter by position or name; None for omitted ones."""
    if len(args) > len(names) or not kwargs.keys() <= set(names[len(args) :]):
        raise TypeError(f"{name} takes {', '.join(names)}")
    return [*args, *(kwargs.get(n) for n in names[len(args) :])]


def _guarded(name: str) -> Callable[..., Any]:
    """jinja2's filter of this name, with counted cost; a lazy result becomes a list."""
    function: Any = filters.FILTERS[name]
    takes = getattr(function, "jinja_pass_arg", None)

    @pass_context
    def guarded(context: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = METER.get()
        meter.charge(1)
        if name not in _SHALLOW:
            for item in (value, *args, *kwargs.values()):
                meter.weigh(item)
        elif isinstance(value, list | tuple | dict):
            meter.items(len(value))
        if name == "replace":
            old, new, count = _expect(name, args, kwargs, "old", "new", "count")
            meter.size(replaced(str(value), str(old), str(new), count))
        elif name == "indent":
            width = _expect(name, args, kwargs, "width", "first", "blank")[0]
            if width is not None and not 0 <= width <= INDENT:
                raise ValueError(f"indent: a width of {width} is not from 0 to {INDENT}")
            meter.size(len(str(value)) + (str(value).count("\n") + 1) * INDENT)
        elif name == "title":  # slow
            meter.charge(len(str(value)) >> 2)
        elif name == "round":
            if not 0 <= (_expect(name, args, kwargs, "precision", "method")[0] or 0) <= 15:
                raise ValueError("round: a precision is from 0 to 15")
        elif name == "join":
            sep, attribute = _expect(name, args, kwargs, "d", "attribute")
            if attribute is not None:
                raise TypeError("join takes no attribute here; use map(attribute=...)")
            value = [str(item) for item in value]
            meter.size(sum(map(len, value)) + len(str(sep or "")) * len(value))
        elif name == "sum" and any(not isinstance(item, int | float) for item in value):
            raise TypeError("sum adds numbers only")
        if takes is not None:
            value = _PASSED[takes.name](context), value
        else:
            value = (value,)
        result = function(*value, *args, **kwargs)
        if isinstance(result, Iterator):
            result = list(result)
        return checked(result)

    return guarded


_PASSED: dict[str, Callable[[Any], Any]] = {
    "context": lambda context: context,
    "eval_context": lambda context: context.eval_ctx,
    "environment": lambda context: context.environment,
}


@pass_context
def _tojson(
    context: Any,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without escapes for HTML."""
    meter = METER.get()
    meter.weigh(value)
    if indent is not None and not (type(indent) is int and 0 <= indent <= INDENT):
        raise ValueError(f"tojson: an indent of {indent} is not from 0 to {INDENT}")
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    parts, length = [], 0
    for part in encoder.iterencode(value):
        length += len(part)
        meter.size(length)
        parts.append(part)
    return "".join(parts)


@pass_context
def _safe(context: Any, value: Any) -> Any:
    """The filter safe, which has no effect, as nothing is escaped."""
    return value


def _range(*args: int) -> range:
    numbers = range(*args)
    METER.get().items(len(numbers))
    return numbers


def _dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    for source in args:
        for key in source if isinstance(source, Mapping) else [key for key, _ in source]:
            plain_key(key)
    return dict(*args, **kwargs)


def plain_key(value: Any) -> Any:
    """`value` if it may be a key; a deeply nested tuple would take long to hash."""
    if not isinstance(value, str | int | float | None):
        raise TemplateRuntimeError(f"a key is a string or number, not {type(value).__name__}")
    return value


def _raise(message: str = "") -> None:
    raise TemplateError(str(message))


MONTHS: list[str] = (
    "January February March April May June July August September October November December"
).split()
DAYS: list[str] = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_FORMATS: dict[str, Callable[[datetime], str]] = {
    "Y": lambda t: f"{t.year}",
    "y": lambda t: f"{t.year % 100:02}",
    "m": lambda t: f"{t.month:02}",
    "d": lambda t: f"{t.day:02}",
    "e": lambda t: f"{t.day:2}",
    "H": lambda t: f"{t.hour:02}",
    "I": lambda t: f"{(t.hour + 11) % 12 + 1:02}",
    "M": lambda t: f"{t.minute:02}",
    "S": lambda t: f"{t.second:02}",
    "p": lambda t: "AM" if t.hour < 12 else "PM",
    "B": lambda t: MONTHS[t.month - 1],
    "b": lambda t: MONTHS[t.month - 1][:3],
    "A": lambda t: DAYS[t.weekday()],
    "a": lambda t: DAYS[t.weekday()][:3],
    "j": lambda t: f"{t.timetuple().tm_yday:03}",
    "F": lambda t: f"{t.year}-{t.month:02}-{t.day:02}",
    "T": lambda t: f"{t.hour:02}:{t.minute:02}:{t.second:02}",
    "%": lambda t: "%",
}


def _strftime_now(pattern: str) -> str:
    """The local time, with the English names of months and days."""
    now = datetime.now()
    METER.get().size(len(pattern) * 10)

    def field(match: re.Match[str]) -> str:
        if match[2] not in _FORMATS:
            raise ValueError(f"strftime_now: {match[0]} is not supported")
        text = _FORMATS[match[2]](now)
        return (text.lstrip("0 ") or "0") if match[1] else text

    return re.sub(r"%(-?)(.?)", field, pattern, flags=re.DOTALL)


class _Namespace(Namespace):
    """A namespace without private names."""

    def __setitem__(self, name: str, value: Any) -> None:
        if str(name).startswith("_"):
            raise SecurityError(f"a namespace has no private names such as {name!r}")
        super().__setitem__(name, value)


def filter_table() -> dict[str, Callable[..., Any]]:
    """All filters by name."""
    return {name: _guarded(name) for name in FILTERS} | {"tojson": _tojson, "safe": _safe}


def function_table() -> dict[str, Callable[..., Any]]:
    """All global functions by name."""
    return {
        "dict": _dict,
        "namespace": _Namespace,
        "raise_exception": _raise,
        "range": _range,
        "strftime_now": _strftime_now,
    }


def format_text(pattern: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """str.format for fields without attributes and formats: {}, {0} and {name}."""
    meter, parts, count = METER.get(), [], 0
    for item in (*args, *kwargs.values()):
        meter.weigh(item)
    for match in re.finditer(r"\{\{|\}\}|\{(\w*)\}|[{}]|[^{}]+", pattern):
        text, name = match[0], match[1]
        if name is not None:
            key: Any = int(name) if name.isdecimal() else name
            if not name:
                key, count = count, count + 1
            text = str(args[key] if isinstance(key, int) else kwargs[key])
        elif text in ("{{", "}}"):
            text = text[0]
        elif text in ("{", "}"):
            raise ValueError("format takes the fields {}, {0} and {name} only")
        meter.write(text)
        parts.append(text)
    return "".join(parts)
