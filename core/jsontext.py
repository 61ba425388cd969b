"""JSON from outside, parsed within bounds: how deep it nests is known before the parser starts."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from rushlight.core.errors import FormatError


@lru_cache(maxsize=4)
def _nesting(depth: int) -> re.Pattern[bytes]:
    """A pattern of text whose brackets close, and are at most `depth` deep.

    Everything in it is possessive, so that matching takes no memory, however long the text.
    """
    flat = rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+'
    inner = flat
    for _ in range(depth):
        inner = rb"%b(?:[\[{]%b[\]}]%b)*+" % (flat, inner, flat)
    return re.compile(inner, re.DOTALL)


def parse_json(raw: bytes | memoryview, name: str, *, depth: int, **options: Any) -> Any:
    """The value that UTF-8 text spells; `options` go to json.loads, `name` into messages.

    Raises FormatError for text that is not JSON, and for arrays and objects that nest deeper than
    `depth`: in WebAssembly deep nesting would end the interpreter instead of raising.
    """
    if _nesting(depth).fullmatch(raw) is None:
        raise FormatError(
            f"{name} is not JSON: its brackets do not match, or nest deeper than {depth}"
        )
    try:
        return json.loads(str(raw, "utf-8"), **options)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name} is not JSON: {error}") from None
