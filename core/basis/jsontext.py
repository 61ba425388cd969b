"""JSON from outside within bounds: depth and size are checked before the parser starts."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from rushlight.core.basis.errors import FormatError


@lru_cache(maxsize=4)
def _nesting(depth: int) -> re.Pattern[bytes]:
    """A pattern of text whose brackets match and nest at most `depth` deep.

    Every part is possessive, so matching a long text takes no memory.
    """
    flat = rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+'
    inner = flat
    for _ in range(depth):
        inner = rb"%b(?:[\[{]%b[\]}]%b)*+" % (flat, inner, flat)
    return re.compile(inner, re.DOTALL)


# Bytes that values take in memory, at most, by the sign that comes with each: an object, an array,
# a key with its text, an item.
_COSTS = {b"{": 200, b"[": 64, b":": 150, b",": 40}
_MOST = 1 << 28
_UNCHECKED = 1 << 20  # bytes of a text that can take no more


def cost_of(raw: bytes) -> int:
    """The bytes that the values of a JSON text take in memory, at most, beside its texts."""
    return sum(cost * raw.count(sign) for sign, cost in _COSTS.items())


def parse_json(
    raw: bytes | memoryview, name: str, *, depth: int, most: int = _MOST, **options: Any
) -> Any:
    """The value of a JSON text in UTF-8; `options` go to json.loads, `name` into messages.

    Raises FormatError for text that is not JSON, for arrays and objects nested deeper than `depth`,
    and for values that take more than `most` bytes and twice the text's. In WebAssembly deep
    nesting would crash the interpreter instead of raising.
    """
    if _nesting(depth).fullmatch(raw) is None:
        raise FormatError(
            f"{name} is not JSON: its brackets do not match, or nest deeper than {depth}"
        )
    if len(raw) > _UNCHECKED:
        cost = cost_of(bytes(raw))
        if cost > most + 2 * len(raw):
            raise FormatError(
                f"{name} has so many values that they take about {cost} bytes; at most "
                f"{most + 2 * len(raw)} are allowed"
            )
    try:
        return json.loads(str(raw, "utf-8"), **options)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name} is not JSON: {error}") from None
