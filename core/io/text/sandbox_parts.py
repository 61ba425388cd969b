"""The filters, tests and functions of chat templates, with counted cost."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from jinja2 import filters, pass_context
from jinja2 import tests as jinja_tests
from jinja2.exceptions import SecurityError, TemplateError, TemplateRuntimeError
from jinja2.utils import Namespace

from rushlight.core.io.text.chat.filters import MORE, Dict, Marked, cycler, joiner
from rushlight.core.io.text.sandbox_meter import BITS, ENTRY, METER, TEXT, check_data, width
from rushlight.core.io.text.sandbox_methods import joined, lines_of, plain_key, replaced, search

INDENT = 64
SEPARATOR = 16  # characters of a separator of JSON
PATTERN = 1000  # characters of a format of the time

FILTERS = (
    "abs capitalize count d default dictsort first float groupby indent int items join last length "
    "list lower map max min reject rejectattr replace reverse round select selectattr sort string "
    "sum title trim unique upper"
).split()
TESTS = (
    "!= < <= == > >= boolean callable defined divisibleby eq equalto even false float ge "
    "greaterthan gt in integer iterable le lessthan lower lt mapping ne none number odd sameas "
    "sequence string true undefined upper"
).split()
PUBLIC = frozenset((*FILTERS, *MORE, "tojson"))
_PUBLIC_TESTS = frozenset((*TESTS, "escaped", "filter", "test"))
_SHALLOW = frozenset(
    "count d default first items last length list map reject rejectattr select selectattr".split()
)
_LISTING = frozenset(
    "dictsort groupby items list map max min reject rejectattr select selectattr sort sum "
    "unique".split()
)
_ORDERING = frozenset("dictsort groupby max min sort unique".split())
_OF_ATTRIBUTES = frozenset("groupby map max min rejectattr selectattr sort unique".split())
_OF_TEXT = frozenset("capitalize indent lower replace string title trim upper".split())
_OF_NUMBERS = frozenset("divisibleby even odd".split())
_CASES = frozenset(("lower", "upper"))


def checked(value: Any) -> Any:
    """`value`, counted if it is a long number; raises for a number out of bounds."""
    if isinstance(value, complex):
        raise TemplateRuntimeError("the template makes a complex number")
    if isinstance(value, int) and (bits := value.bit_length()) > 64:
        if bits > BITS:
            raise TemplateRuntimeError(f"the template makes a number of more than {BITS} bits")
        METER.get().charge(bits >> 10)
        METER.get().keep(bits >> 3)
    return value


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
        for item in (*args, *kwargs.values()):
            meter.weigh(item)
        if name in ("join", "sum"):
            value, args, kwargs = _attributes(context, name, value, args, kwargs)
        if name in _LISTING:
            count = meter.listed(value)
            if name in _OF_ATTRIBUTES:
                names = (item for item in (*args, *kwargs.values()) if isinstance(item, str))
                meter.charge(count * sum(1 + n.count(".") + n.count(",") for n in names))
        if name not in _SHALLOW:
            before = meter.steps
            nbytes = meter.weigh(value)
            if name in _ORDERING:  # log n comparisons of each, of copies in lower case
                meter.charge((before - meter.steps) * count.bit_length())
                meter.keep(nbytes)
        if name in _OF_TEXT:
            value = meter.words(value)
        if name in _OWN:
            return _OWN[name](value, *args, **kwargs)
        if name == "indent":
            wide = _expect(name, args, kwargs, "width", "first", "blank")[0]
            blanks = len(wide) if isinstance(wide, str) else wide
            if blanks is not None and blanks > INDENT:
                raise ValueError(f"indent: a width of {wide} is not from 0 to {INDENT}")
            lines = len(lines_of(value)) + 1
            meter.size(len(value) + lines * INDENT, width(value))
        elif name == "title":
            meter.items(len(value), 2 * ENTRY)  # it takes the text apart
        elif name == "trim":
            search(value, *_expect(name, args, kwargs, "chars"))
        elif name == "round":
            if abs(_expect(name, args, kwargs, "precision", "method")[0] or 0) > 300:
                raise ValueError("round: a precision is from -300 to 300")
        elif name == "sum":
            if any(not isinstance(item, int | float) for item in (*value, *kwargs.values())):
                raise TypeError("sum adds numbers only")
        elif name in ("float", "int") and isinstance(value, str):
            meter.charge(len(value))
        positional = (value,) if takes is None else (_PASSED[takes.name](context), value)
        result = function(*positional, *args, **kwargs)
        if isinstance(result, Iterator):
            result = list(result)
        return meter.made(checked(result))

    return guarded


def _more(name: str) -> Callable[..., Any]:
    """A filter of chat/filters.py, with its arguments and its result counted."""

    @pass_context
    def counted(context: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        meter = METER.get()
        meter.charge(1)
        for item in (*args, *kwargs.values()):
            meter.weigh(item)
        result = MORE[name](context, value, *args, **kwargs)
        return meter.made(result)

    return counted


_PASSED: dict[str, Callable[[Any], Any]] = {
    "context": lambda context: context,
    "eval_context": lambda context: context.eval_ctx,
    "environment": lambda context: context.environment,
}


def _attributes(
    context: Any, name: str, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The arguments of join or sum, with the attribute that they name taken of every item."""
    order = ("d", "attribute") if name == "join" else ("attribute", "start")
    arguments = dict(zip(order, _expect(name, args, kwargs, *order), strict=True))
    attribute = arguments.pop("attribute")
    if attribute is not None:
        value = context.environment.call_filter(
            "map", value, kwargs={"attribute": attribute}, context=context
        )
    return value, (), {key: item for key, item in arguments.items() if item is not None}


def _join(values: Any, d: Any = "") -> str:
    """The filter join."""
    meter = METER.get()
    meter.listed(values)
    return joined(meter.words(d), [meter.words(value) for value in values])


def _replace(text: str, old: Any, new: Any, count: int | None = None) -> str:
    """The filter replace."""
    meter = METER.get()
    return replaced(text, meter.words(old), meter.words(new), count)


_OWN: dict[str, Callable[..., str]] = {"join": _join, "replace": _replace}


def _tested(name: str) -> Callable[..., bool]:
    """jinja2's test of this name, with counted cost."""
    test: Any = jinja_tests.TESTS[name]

    @pass_context
    def tested(context: Any, value: Any, *args: Any) -> bool:
        meter = METER.get()
        meter.charge(1)
        if name in _OF_NUMBERS and any(not isinstance(x, int | float) for x in (value, *args)):
            raise TypeError(f"{name} is a test of numbers")  # % would format a text
        if name in _CASES:
            value = meter.words(value)
            meter.charge(len(value) >> 6)
        for item in (value, *args) if args else ():
            meter.weigh(item)
        return bool(test(value, *args))

    return tested


@pass_context
def _tojson(
    context: Any,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without escapes for HTML."""
    meter = METER.get()
    meter.weigh(value)
    blanks = len(indent) if isinstance(indent, str) else indent
    if blanks is not None and not (isinstance(blanks, int) and blanks <= INDENT):
        raise ValueError(f"tojson: an indent of {indent} is not from 0 to {INDENT}")
    if any(len(text) > SEPARATOR for text in separators or ()):
        raise ValueError(f"tojson: a separator has more than {SEPARATOR} characters")
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    out, length = io.StringIO(), 0
    for piece in encoder.iterencode(value):
        length += out.write(piece)
        meter.charge(1 + (len(piece) >> 6))
        if length > TEXT:
            break
    meter.size(length)
    return out.getvalue()


def _range(*args: int) -> range:
    numbers = range(*args)
    METER.get().items(len(numbers))
    return numbers


def _dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    meter = METER.get()
    for source in args:
        meter.listed(source)
        for key in source if isinstance(source, Mapping) else [key for key, _ in source]:
            plain_key(key)
    mapping = dict(*args, **kwargs)
    meter.items(len(mapping), ENTRY)
    meter.hold(mapping)
    return mapping


def _namespace(*args: Any, **kwargs: Any) -> _Namespace:
    namespace = _Namespace(_dict(*args, **kwargs))
    METER.get().keep(4 * ENTRY)
    METER.get().held.append(namespace)
    return namespace


def _raise(message: Any = "") -> None:
    raise TemplateError(METER.get().words(message))


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
    if len(pattern) > PATTERN:
        raise ValueError(f"strftime_now: the format has more than {PATTERN} characters")

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
        check_data(value)
        super().__setitem__(name, value)


def filter_table() -> dict[str, Callable[..., Any]]:
    """All filters by name."""
    return (
        {name: _guarded(name) for name in FILTERS}
        | {name: _more(name) for name in MORE}
        | {"tojson": _tojson}
    )


def test_table() -> dict[str, Callable[..., bool]]:
    """All tests by name."""
    return {name: _tested(name) for name in TESTS} | {
        "escaped": lambda value: isinstance(value, Marked),
        "filter": lambda value: isinstance(value, str) and value in PUBLIC,
        "test": lambda value: isinstance(value, str) and value in _PUBLIC_TESTS,
    }


def function_table() -> dict[str, Callable[..., Any]]:
    """All global functions by name."""
    return {
        "cycler": cycler,
        "dict": Dict(_dict),
        "joiner": joiner,
        "namespace": _namespace,
        "raise_exception": _raise,
        "range": _range,
        "strftime_now": _strftime_now,
    }
