"""Texts with fields, as templates fill them: `'%s' % x` and `'{}'.format(x)`, with bounds on both.

The forms are those of Python; a width or a precision has at most three digits, and a field of
str.format has no attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.core.io.text.sandbox_meter import LETTER, METER
from rushlight.core.io.text.sandbox_methods import joined

_PERCENT = re.compile(
    r"[^%]+|%(?:\((\w{1,99})\))?([#0\- +]{0,5})(\d{1,3})?(?:\.(\d{1,3}))?([diouxXeEfFgGcrsa%])"
)
_BRACES = re.compile(r"\{\{|\}\}|\{(\w{0,99})(?:!([rsa]))?(?::([^{}]{0,20}))?\}|[{}]|[^{}]+")
_SPEC = re.compile(
    r"(?:.?[<>=^])?[+\- ]?z?#?0?(?:\d{1,3})?[,_]?(?:\.\d{1,3})?[bcdeEfFgGnosxX%]?", re.S
)
_SHOWN: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}


def percent(pattern: str, values: Any) -> str:
    """pattern % values, counted. Raises ValueError for a form that is not supported."""
    meter, parts, place, taken = METER.get(), [], 0, 0
    row = values if isinstance(values, tuple) else (values,)
    meter.charge(1 + (len(pattern) >> 6))
    while place < len(pattern):
        match = _PERCENT.match(pattern, place)
        if match is None:
            raise ValueError(
                f"% takes %s, %d and the like, with widths up to 999: {pattern[place:][:20]!r}"
            )
        place, kind = match.end(), match[5]
        meter.items(1, LETTER)
        if kind is None:
            parts.append(match[0])
            continue
        if kind == "%":
            parts.append("%")
            continue
        if match[1] is not None:
            if not isinstance(values, Mapping):
                raise TypeError("% with names takes a mapping")
            value: Any = values[match[1]]
        else:
            if taken >= len(row):
                raise TypeError("not enough arguments for the format string")
            value, taken = row[taken], taken + 1
        meter.weigh(value)
        width, precision = match[3] or "", "" if match[4] is None else f".{match[4]}"
        parts.append(meter.made(f"%{match[2]}{width}{precision}{kind}" % (value,)))
    if taken < len(row) and not isinstance(values, Mapping):
        raise TypeError("not all arguments converted during string formatting")
    return joined("", parts)


def braces(pattern: str, /, *args: Any, **kwargs: Any) -> str:
    """pattern.format(*args, **kwargs), counted, for fields without attributes.

    Raises what format raises, and TemplateRuntimeError past the template's bounds.
    """
    meter, parts, count = METER.get(), [], 0
    for match in _BRACES.finditer(pattern):
        text, name, shown, spec = match[0], match[1], match[2], match[3]
        meter.items(1, LETTER)
        if name is not None:
            key: Any = int(name) if name.isdecimal() else name
            if not name:
                key, count = count, count + 1
            value = args[key] if isinstance(key, int) else kwargs[key]
            text = _filled(value, shown, spec or "")
        elif text in ("{{", "}}"):
            text = text[0]
        elif text in ("{", "}"):
            raise ValueError("format takes the fields {}, {0} and {name}, with widths up to 999")
        parts.append(text)
    return joined("", parts)


def _filled(value: Any, shown: str | None, spec: str) -> str:
    meter = METER.get()
    if shown is not None:
        meter.weigh(value)
        value = meter.made(_SHOWN[shown](value))
    if not spec:
        return meter.words(value)
    if not isinstance(value, str | int | float) or _SPEC.fullmatch(spec) is None:
        raise ValueError(f"format: {spec!r} is not supported for a {type(value).__name__}")
    meter.weigh(value)
    text: str = meter.made(format(value, spec))
    return text
