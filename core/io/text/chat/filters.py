"""More filters, tests and functions of jinja2, with counted cost.

What they give is what jinja2 gives; where a cost could grow faster than the text, the reading of
the text is counted so often.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from pprint import pformat
from typing import Any

from jinja2 import filters
from jinja2.utils import Cycler, Joiner

from rushlight.core.io.text.chat.formats import percent
from rushlight.core.io.text.sandbox_meter import ENTRY, ITEMS, LETTER, METER, TEXT, width
from rushlight.core.io.text.sandbox_methods import replaced

_ESCAPES = (("&", "&amp;"), (">", "&gt;"), ("<", "&lt;"), ("'", "&#39;"), ('"', "&#34;"))
_LONGEST = 100_000  # characters that urlize and wordwrap take
_PRETTY = 10_000  # values that pprint takes


class Marked(str):
    """A text that was escaped or marked as safe: joined to another, that one is escaped."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def escaped(value: Any) -> Marked:
    """The text of a value with HTML's special characters escaped; a marked text stays."""
    text = METER.get().words(value)
    if isinstance(text, Marked):
        return text
    for char, name in _ESCAPES:
        if char in text:
            text = replaced(text, char, name)
    return Marked(text)


def forced(value: Any) -> Marked:
    """`escaped`, for a marked text, too."""
    return escaped(str(METER.get().words(value)))


def marked(value: Any) -> Marked:
    """The text of a value as it is."""
    return Marked(METER.get().words(value))


def side(value: Any, other: Any) -> Any:
    """`value` as it is joined to `other`: escaped if that is marked and this one is not."""
    return escaped(value) if isinstance(other, Marked) and isinstance(value, str) else value


def _batch(context: Any, value: Any, linecount: int, fill_with: Any = None) -> list[Any]:
    """Rows of so many items each."""
    meter = METER.get()
    if not isinstance(linecount, int):  # no row has this length
        if fill_with is not None:
            raise TypeError(f"batch: rows of {METER.get().words(linecount)!r:.100} items")
        linecount = max(len(value), 1)
    if not 1 <= linecount <= ITEMS:
        raise ValueError(f"batch: rows of {linecount} items are not from 1 to {ITEMS}")
    meter.listed(value)
    meter.items(len(value) // linecount + 1, ENTRY)
    rows = [list(value[i : i + linecount]) for i in range(0, len(_list(value)), linecount)]
    if rows and fill_with is not None and len(rows[-1]) < linecount:
        meter.items(linecount)
        rows[-1] += [fill_with] * (linecount - len(rows[-1]))
    return rows


def _slice(context: Any, value: Any, slices: int, fill_with: Any = None) -> list[Any]:
    """So many columns, whose lengths differ by one at most."""
    meter = METER.get()
    if not 1 <= slices <= ITEMS:
        raise ValueError(f"slice: {slices} columns are not from 1 to {ITEMS}")
    meter.listed(value)
    meter.items(slices, ENTRY)
    rows, count = _list(value), len(value)
    size, more = divmod(count, slices)
    columns, begin = [], 0
    for i in range(slices):
        end = begin + size + (i < more)
        column = rows[begin:end]
        if fill_with is not None and i >= more:
            column.append(fill_with)
        columns.append(column)
        begin = end
    return columns


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else list(value)


def _center(context: Any, value: Any, width: int = 80) -> str:
    text = METER.get().words(value)
    METER.get().size(max(width, len(text)))
    return text.center(width)


def _format(context: Any, value: Any, *args: Any, **kwargs: Any) -> str:
    """The filter format: value % args, or value % kwargs."""
    if args and kwargs:
        raise TypeError("format: values by position and by name exclude each other")
    return percent(METER.get().words(value), kwargs or args)


def _pprint(context: Any, value: Any) -> str:
    meter = METER.get()
    before = meter.steps
    meter.weigh(value)
    if before - meter.steps > _PRETTY:
        raise ValueError(f"pprint: more than {_PRETTY} values are not supported")
    meter.charge(30 * (before - meter.steps))
    return pformat(value)


def _striptags(context: Any, value: Any) -> str:
    text = METER.get().words(value)
    METER.get().items(text.count("<") + text.count("&"), LETTER)
    plain = _without(_without(text, "<!--", "-->"), "<", ">")
    return html.unescape(" ".join(plain.split()))


def _without(text: str, first: str, last: str) -> str:
    """A text without all between `first` and `last`, which no pattern would find in linear time."""
    pieces, begin = [], 0
    while (start := text.find(first, begin)) >= 0:
        end = text.find(last, start + len(first))
        if end < 0:
            break
        pieces.append(text[begin:start])
        begin = end + len(last)
    return "".join([*pieces, text[begin:]])


def _attr(context: Any, value: Any, name: str) -> Any:
    if not isinstance(name, str):
        raise TypeError(f"attr: a name is a text, not {type(name).__name__}")
    return filters.FILTERS["attr"](context.environment, value, name)


def _wordcount(context: Any, value: Any) -> int:
    text = METER.get().words(value)
    METER.get().items(min(len(text) // 2, ITEMS), LETTER)
    return sum(1 for _ in re.finditer(r"\w+", text))


def _short(name: str, text: str) -> str:
    """A text that may be taken apart word by word, counted for long words."""
    if len(text) > _LONGEST:
        raise ValueError(f"{name}: a text of more than {_LONGEST} characters is not supported")
    longest = max(map(len, re.split(r"\s", text)), default=0)
    METER.get().charge(len(text) + (longest * longest >> 8))
    METER.get().keep(4 * len(text))
    return text


def _wordwrap(
    context: Any,
    value: Any,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str | None = None,
    break_on_hyphens: bool = True,
) -> str:
    if not isinstance(value, str):
        raise TypeError(f"wordwrap takes a text, not a {type(value).__name__}")
    text = _short("wordwrap", value)
    between = "\n" if wrapstring is None else METER.get().words(wrapstring)
    METER.get().size(len(text) * (1 + len(between)))
    wrapped: str = filters.FILTERS["wordwrap"](
        context.environment, text, width, break_long_words, between, break_on_hyphens
    )
    return wrapped


def _urlize(context: Any, value: Any, *args: Any, **kwargs: Any) -> str:
    text = _short("urlize", METER.get().words(value))
    more = 16 + sum(len(str(value)) for value in (*args, *kwargs.values()))
    METER.get().size(min(len(text) * more, TEXT))
    return str(filters.FILTERS["urlize"](context.eval_ctx, text, *args, **kwargs))


def _urlencode(context: Any, value: Any) -> str:
    meter = METER.get()
    nbytes = meter.weigh(value)
    meter.size(min(nbytes * 12, TEXT))
    return str(filters.FILTERS["urlencode"](value))


def _xmlattr(context: Any, value: Any, autospace: bool = True) -> str:
    meter = METER.get()
    if not isinstance(value, Mapping):
        raise TypeError(f"xmlattr takes a mapping, not {type(value).__name__}")
    meter.size(min(meter.weigh(value) * 6, TEXT))
    return str(filters.FILTERS["xmlattr"](context.eval_ctx, value, autospace))


def _truncate(
    context: Any,
    value: Any,
    length: int = 255,
    killwords: bool = False,
    end: str = "...",
    leeway: int | None = None,
) -> str:
    if not isinstance(value, str):
        raise TypeError(f"truncate takes a text, not a {type(value).__name__}")
    return str(
        filters.FILTERS["truncate"](
            context.environment, value, length, killwords, METER.get().words(end), leeway
        )
    )


def _filesizeformat(context: Any, value: Any, binary: bool = False) -> str:
    if isinstance(value, str) and len(value) > 400:
        raise ValueError("filesizeformat takes a number")
    return str(filters.FILTERS["filesizeformat"](value, binary))


def _random(context: Any, value: Any) -> Any:
    METER.get().listed(value)
    return filters.FILTERS["random"](context, value if isinstance(value, str) else _list(value))


MORE: dict[str, Callable[..., Any]] = {
    "attr": _attr,
    "batch": _batch,
    "center": _center,
    "e": lambda context, value: escaped(value),
    "escape": lambda context, value: escaped(value),
    "filesizeformat": _filesizeformat,
    "forceescape": lambda context, value: forced(value),
    "format": _format,
    "pprint": _pprint,
    "random": _random,
    "safe": lambda context, value: marked(value),
    "slice": _slice,
    "striptags": _striptags,
    "truncate": _truncate,
    "urlencode": _urlencode,
    "urlize": _urlize,
    "wordcount": _wordcount,
    "wordwrap": _wordwrap,
    "xmlattr": _xmlattr,
}


class Dict:
    """The function dict of templates, with the method fromkeys."""

    def __init__(self, make: Callable[..., dict[Any, Any]]) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return self._make(*args, **kwargs)

    def fromkeys(self, keys: Any, value: Any = None) -> dict[Any, Any]:
        """A dict of keys that have one value."""
        METER.get().listed(keys)
        return self._make([(key, value) for key in keys])


# The attributes of what these and others make.
ATTRIBUTES: dict[type, frozenset[str]] = {
    filters._GroupTuple: frozenset(("grouper", "list", "count", "index")),
    Cycler: frozenset(("current", "next", "reset")),
    Joiner: frozenset(),
    Dict: frozenset(("fromkeys",)),
}


def cycler(*items: Any) -> Cycler:
    """jinja2's function cycler."""
    METER.get().items(len(items), ENTRY)
    return Cycler(*items)


def joiner(sep: Any = ", ") -> Joiner:
    """jinja2's function joiner."""
    METER.get().keep(ENTRY)
    return Joiner(METER.get().words(sep))


def together(values: list[Any]) -> str:
    """The operator ~: texts one after the other, as they are."""
    meter = METER.get()
    texts = [meter.words(value) for value in values]
    meter.size(sum(map(len, texts)), max(map(width, texts), default=1))
    return "".join(texts)
