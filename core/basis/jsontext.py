"""JSON from outside, parsed within bounds: the depth is checked before the parser starts."""

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


def parse_json(raw: bytes | memoryview, name: str, *, depth: int, **options: Any) -> Any:
    """The value of a JSON text in UTF-8; `options` go to json.loads, `name` into messages.

    Raises FormatError for text that is not JSON, and for arrays and objects nested deeper than
    `depth`. In WebAssembly deep nesting would crash the interpreter instead of raising.
    """
    if _nesting(depth).fullmatch(raw) is None:
        raise FormatError(
            f"{name} is not JSON: its brackets do not match, or nest deeper than {depth}"
        )
    try:
        return json.loads(str(raw, "utf-8"), **options)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name} is not JSON: {error}") from None
