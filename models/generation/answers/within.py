"""The strings and values in the body of a call: a closing within one closes nothing."""

from __future__ import annotations

import re

# The marks of a token may stand before what begins JSON, and a name.
_JSON = re.compile(
    r"(?:\s*+<[|｜]tool[^<>]{0,40}+>[^<>{}\[\]\"]{0,256}+){0,3}"
    r"\s*+(?:[\w.$:/-]{1,256}+\s*+(?:\[CALL_ID\][\w.-]*+)?(?:\[ARGS\])?\s*+)?[\[{]"
)
_PROGRAM = re.compile(r"\s*+(?:```\w*+\s*+)?\[?\s*+(?:print\()?[^\W\d][\w.]*+\s*+\(")
_BRACED = re.compile(r"\s*+call:")
_OF_JSON = re.compile(r'\\.|"', re.S)
_OF_PROGRAM = re.compile(r"\\.|[\"']", re.S)
_OF_BRACED = re.compile(r'<\|"\|>|<escape>')
# The tags around the value of an argument; group 1 is the slash of one that ends it.
_OF_TAGS = re.compile(
    r"<(/?)(?:[\w｜|]{1,40}[:｜|])?(?:parameter|param|arg_value)\b[^<>\n]{0,300}>"
)


def quotes_of(text: str, begin: int) -> re.Pattern[str]:
    """What begins and ends strings and values in the body that begins at a place."""
    for body, quotes in ((_BRACED, _OF_BRACED), (_PROGRAM, _OF_PROGRAM), (_JSON, _OF_JSON)):
        if body.match(text, begin) is not None:
            return quotes
    return _OF_TAGS


def quoted(quotes: re.Pattern[str], quote: str, text: str, begin: int, end: int) -> str:
    """The quote within which `end` is, if any, where `begin` was within `quote`."""
    for match in quotes.finditer(text, begin, end):
        mark = match[0]
        if quotes is _OF_TAGS:
            quote = "" if match[1] else mark
        elif mark[0] != "\\" and quote in ("", mark):
            quote = "" if quote else mark
    return quote
