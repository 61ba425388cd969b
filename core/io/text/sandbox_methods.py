"""The methods of texts, lists and dicts that chat templates may call, with counted cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2.exceptions import TemplateRuntimeError

from rushlight.core.io.text.sandbox_meter import ENTRY, ITEMS, LETTER, METER, width

METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        "capitalize casefold center count endswith expandtabs find format index isalnum isalpha "
        "isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle "
        "isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind rindex "
        "rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper "
        "zfill".split()
    ),
    dict: frozenset(("copy", "get", "items", "keys", "values")),
    list: frozenset(("copy", "count", "index")),
    tuple: frozenset(("count", "index")),
    int: frozenset(("bit_length", "is_integer")),
    float: frozenset(("is_integer",)),
}
# Python searches backwards, and for one of many characters, by comparing at every place.
_EVERYWHERE = frozenset("lstrip rfind rindex rpartition rsplit rstrip strip".split())
_WIDE = frozenset("center expandtabs ljust rjust zfill".split())
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def call_method(owner: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """owner.name(*args, **kwargs), counted.

    Raises what the method raises, and TemplateRuntimeError past the template's bounds.
    """
    meter = METER.get()
    if isinstance(owner, dict):
        if name == "copy":
            meter.items(len(owner), ENTRY)
            return meter.hold(owner.copy())
        if args:
            plain_key(args[0])
        return getattr(owner, name)(*args, **kwargs)
    for item in (*args, *kwargs.values()):
        meter.weigh(item)
    if not isinstance(owner, str):
        meter.weigh(owner)
        return meter.made(getattr(owner, name)(*args, **kwargs))
    meter.charge(1 + (len(owner) >> (6 if name.startswith("is") else 8)))
    if name in _EVERYWHERE:
        search(owner, *args[:1], *kwargs.values())
    if name in _WIDE:
        wide = args[0] if args else kwargs.get("tabsize", 8)
        tabs = owner.count("\t") if name == "expandtabs" else 0
        meter.size(len(owner) + max(wide, 0) * (tabs or 1), max(width(owner), 4))
    counted = _OWN.get(name)
    return meter.made(
        counted(owner, *args, **kwargs) if counted else getattr(owner, name)(*args, **kwargs)
    )


def search(text: str, *wanted: Any) -> None:
    """Count comparing `wanted` with every place of `text`."""
    for item in wanted:
        if isinstance(item, str):
            METER.get().charge(len(text) * min(len(item), len(text)) >> 12)


def plain_key(value: Any) -> Any:
    """`value` if it may be a key; a deeply nested tuple would take long to hash."""
    if isinstance(value, str):
        METER.get().charge(len(value) >> 4)
    elif not isinstance(value, int | float | None):
        raise TemplateRuntimeError(f"a key is a string or number, not {type(value).__name__}")
    return value


def replaced(text: str, old: str, new: str, count: int | None = -1) -> str:
    """text.replace(old, new, count), counted before it is made.

    Raises TemplateRuntimeError past the template's bounds.
    """
    times = text.count(old)
    if count is not None and count >= 0:
        times = min(times, count)
    length = len(text) + times * (len(new) - len(old))
    METER.get().size(length, max(width(text), width(new)))
    return text.replace(old, new, -1 if count is None else count)


def joined(sep: str, values: Any) -> str:
    """sep.join(values), counted before it is made."""
    meter = METER.get()
    count = meter.listed(values)
    length, wide = len(sep) * max(count - 1, 0), width(sep)
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"join: an item is a {type(value).__name__}, not a string")
        length, wide = length + len(value), max(wide, width(value))
    meter.size(length, wide)
    return sep.join(values)


def lines_of(text: str, keepends: bool = False) -> list[str]:
    """text.splitlines(keepends), counted before it is made."""
    meter = METER.get()
    meter.items(1 + sum(map(text.count, _LINE_ENDS)), LETTER)
    meter.size(len(text), width(text))
    return text.splitlines(keepends)


def _split(text: str, sep: str | None = None, maxsplit: int = -1, *, right: bool = False) -> Any:
    meter = METER.get()
    most = ITEMS if maxsplit < 0 else min(maxsplit, ITEMS)
    pieces = (text.rsplit if right else text.split)(sep, most)
    meter.items(len(pieces), LETTER)
    meter.size(len(text), width(text))
    return pieces


_OWN: dict[str, Callable[..., Any]] = {
    "join": joined,
    "replace": replaced,
    "rsplit": lambda *args, **kwargs: _split(*args, **kwargs, right=True),
    "split": _split,
    "splitlines": lines_of,
}
