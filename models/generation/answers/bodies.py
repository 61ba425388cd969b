"""The bodies of calls: what stands between the tokens or tags that mark a call.

A reader takes a body and returns rows of (name, arguments, texts), or None where the body is no
call. `texts` tells that all values are texts, whose types the tool's schema says. Every reader goes
over a body once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.models.generation.answers.literals import Literals, Malformed
from rushlight.models.generation.answers.schema import json_of

Row = tuple[str, dict[str, Any], bool]
Rows = list[Row] | None

_ARGUMENTS = ("arguments", "parameters", "args", "input")
_NAME = r"[\w.$:/-]{1,256}+"
_NAMED = re.compile(rf"\s*+({_NAME})\s*+(?:\[CALL_ID\][\w.-]*+)?(?:\[ARGS\])?\s*+(?=\{{)")
# A string or a bracket of JSON.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.S)
_BETWEEN = re.compile(r"[\s,;]*+")
_FENCE = re.compile(r"```(?:json|tool_code|python)?")
# Tags of XML: function or invoke, and their parameters, whatever stands before the names.
_OPEN = re.compile(
    r'\s*+<(?:[\w｜|]{1,40}[:｜|])?(?:function|invoke)(?:\s?=\s?|\s++name\s?=\s?)["\']?'
    r"([\w.$:/-]{1,256}+)[\"']?\s?>"
)
_PARAMETER = re.compile(
    r"\s*+<((?:[\w｜|]{1,40}[:｜|])?(?:parameter|param))(?:\s?=\s?|\s++name\s?=\s?)"
    r"[\"']?([^<>\"'=\s]{1,256}+)[\"']?(?:\s++string\s?=\s?[\"'](true|false)[\"'])?\s?>"
)
_CLOSE = re.compile(r"\s*+</(?:[\w｜|]{1,40}[:｜|])?(?:function|invoke)\s?>")
_NO_NAMES = ("function", "```json", "```", "json")
_BARE_NAME = re.compile(rf"\s*+(?:functions\.)?({_NAME})\s*+")
_KEY = re.compile(r"\s*+<(\w{0,20}?)arg_key(:\w{1,40}+)?>")


def end_of_json(text: str, begin: int, limit: int | None = None) -> int:
    """Where the object or array at `begin` ends; the limit or the text's end if it does not."""
    depth, limit = 0, len(text) if limit is None else limit
    for token in _TOKEN.finditer(text, begin, limit):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth <= 0:
            return token.end()
    return limit


def end_of_calls(text: str, begin: int, limit: int) -> int:
    """Where the values of JSON end that begin at a place, each with a name before it or not."""
    place = begin
    while True:
        name = _NAMED.match(text, place)
        start = place if name is None else name.end()
        between = _BETWEEN.match(text, start)
        start = start if between is None else between.end()
        if start >= limit or text[start] not in "{[":
            return place
        place = end_of_json(text, start, limit)


def _row(value: Any) -> Row | None:
    """The call that a JSON value says, or None."""
    if not isinstance(value, dict):
        return None
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    name = next((value[k] for k in ("name", "tool_name", "function") if k in value), None)
    keys = [k for k in _ARGUMENTS if k in value]
    arguments = value[keys[0]] if keys else {}
    if isinstance(arguments, str):  # some models write the arguments as a text of JSON
        arguments = json_of(arguments) if arguments.strip() else {}
    arguments = {} if arguments is None and keys else arguments
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    return name, arguments, False


def _values(text: str) -> Iterator[Any]:
    """The JSON values of a text, with blanks, commas or semicolons between; None for others."""
    start = 0
    while start < len(text):
        end = end_of_json(text, start)
        yield json_of(text[start:end])
        between = _BETWEEN.match(text, end)
        start = end if between is None else between.end()


def says_function(text: str) -> bool:
    """Whether all objects of a text of JSON say that they are of the type "function"."""
    rows = [r for v in _values(unfenced(text)) for r in (v if isinstance(v, list) else [v])]
    return all(isinstance(r, dict) and r.get("type") == "function" for r in rows)


def says_schema(text: str) -> bool:
    """Whether an object of a text of JSON describes a tool rather than calls it."""
    for value in _values(unfenced(text)):
        for row in _listed(value):
            inner = row.get("function")
            row = inner if isinstance(inner, dict) else row
            fields = next((row[k] for k in _ARGUMENTS if k in row), None)
            fields = fields if isinstance(fields, dict) else {}
            of_schema = isinstance(fields.get("properties"), dict)
            if "description" in row or (of_schema and fields.get("type") == "object"):
                return True
    return False


def unfenced(text: str) -> str:
    """A text without blanks and the fence of Markdown around it."""
    text = text.strip()
    fence = _FENCE.match(text)
    return text if fence is None else text[fence.end() :].removesuffix("```").strip()


def json_calls(body: str) -> Rows:
    """Objects of name and arguments, in lists or one after the other."""
    rows: list[Row] = []
    for value in _values(unfenced(body)):
        for call in _listed(value):
            row = _row(call)
            if row is None:
                return None
            rows.append(row)
    return rows or None


def _listed(value: Any) -> list[Any]:
    """The rows of a value: a list, or an object whose one key says that it holds calls."""
    if isinstance(value, dict) and len(value) == 1:
        value = next((value[k] for k in ("tool_calls", "tool_call") if k in value), value)
    return value if isinstance(value, list) else [value]


def keyed_calls(body: str) -> Rows:
    """Objects whose one key is the name, as Apertus writes them: [{"f": {"a": 1}}]."""
    rows: list[Row] = []
    for value in _values(body.strip()):
        for call in value if isinstance(value, list) else [value]:
            if not isinstance(call, dict) or not all(isinstance(v, dict) for v in call.values()):
                return json_calls(body)
            rows += [(name, arguments, False) for name, arguments in call.items()]
    return rows or None


def xml_calls(body: str) -> Rows:
    """<function=f><parameter=a>1</parameter></function>, and <invoke name="f">, and their kin."""
    rows: list[Row] = []
    place = 0
    while (opening := _OPEN.match(body, place)) is not None:
        arguments: dict[str, Any] = {}
        texts, place = True, opening.end()
        while (parameter := _PARAMETER.match(body, place)) is not None:
            closing = f"</{parameter[1]}>"
            end = body.find(closing, parameter.end())
            if end < 0:
                return None
            value: Any = body[parameter.end() : end]
            value = value.removeprefix("\n").removesuffix("\n")
            if parameter[3] == "false":
                value, texts = json_of(value), False
            elif parameter[3] == "true":
                texts = False
            arguments[parameter[2]] = value
            place = end + len(closing)
        if (
            not arguments
            and (begin := body.find("{", place)) >= 0
            and not body[place:begin].strip()
        ):
            end = end_of_json(body, begin)  # the arguments may be JSON
            arguments, texts = json_of(body[begin:end]), False
            if not isinstance(arguments, dict):
                return None
            place = end
        closed = _CLOSE.match(body, place)
        place = place if closed is None else closed.end()
        rows.append((opening[1], arguments, texts))
    return rows if rows and not body[place:].strip() else None


def keys_and_values(body: str) -> Rows:
    """A name, then <arg_key>a</arg_key><arg_value>1</arg_value> for each argument, as GLM's."""
    name = _BARE_NAME.match(body)
    if name is None:
        return None
    arguments: dict[str, Any] = {}
    place = name.end()
    separator = re.compile(r"<tool_sep[\w:]*+>").match(body, place)
    place = place if separator is None else separator.end()
    while (key := _KEY.match(body, place)) is not None:
        before, after = key[1], key[2] or ""
        parts = []
        for tag in ("arg_key", "arg_value"):
            opening, closing = f"<{before}{tag}{after}>", f"</{before}{tag}{after}>"
            begin = body.find(opening, place)
            end = body.find(closing, begin)
            if begin < 0 or end < 0 or body[place:begin].strip():
                return None
            parts.append(body[begin + len(opening) : end])
            place = end + len(closing)
        arguments[parts[0].strip()] = parts[1]
    if body[place:].strip() or (not arguments and separator is None):
        return None
    return [(name[1], arguments, True)]


def name_alone(body: str) -> Rows:
    """A name without arguments; only where it is that of a tool."""
    name = _BARE_NAME.fullmatch(body)
    return None if name is None else [(name[1], {}, True)]


def named_json(*separators: str, end: str = "") -> Callable[[str], Rows]:
    """A reader of a name, a separator and JSON, with what marks a call around each.

    separators: the tokens that may stand before the name, behind it and behind the call. end: the
    one behind the call, where the arguments may be missing.
    """
    marks = re.compile("|".join(map(re.escape, separators)))

    def read(body: str) -> Rows:
        rows: list[Row] = []
        place = 0
        while place < len(body):
            begin = body.find("{", place)
            stop = len(body) if begin < 0 else begin
            head = [segment.strip() for segment in marks.split(body[place:stop])]
            words = [w for segment in head for w in segment.removesuffix("```json").split() if w]
            words = [word for word in words if word not in _NO_NAMES]
            empty = body.find(end, place, stop) if end and words else -1
            if empty >= 0 and not marks.sub("", body[place:empty]).strip("` \n"):
                empty = body.find(end, empty + len(end), stop)  # that of the call before
            if begin < 0 and empty < 0:
                return rows if rows and not marks.sub("", body[place:]).strip("` \n") else None
            if empty >= 0:
                words, arguments = marks.sub(" ", body[place:empty]).split(), {}
                words = [word for word in words if word not in _NO_NAMES]
                place = empty + len(end)
            else:
                place = end_of_json(body, begin)
                arguments = json_of(body[begin:place])
            if not words or len(words) > 2 or not isinstance(arguments, dict):
                return None
            # Kimi counts the calls of an answer: functions.f:0. Solar has an id before the name.
            name = words[-1].removeprefix("functions.")
            name = re.sub(r":\d{1,9}\Z", "", name)
            if not re.fullmatch(_NAME, name):
                return None
            rows.append((name, arguments, False))
            rest = marks.sub("", body[place:]) if len(body) - place < 64 else "{"
            if not rest.strip("` \n"):
                break
        return rows or None

    return read


headed_calls = named_json(">>>")  # f, a line's end and JSON, as GLM 4 and Functionary write them


def program_calls(body: str) -> Rows:
    """[f(a="x"), g()], one after the other, or print(f(a="x")), as programs write them."""
    reader = Literals(unfenced(body))
    rows: list[Row] = []
    try:
        listed = reader.sees("[")
        while not (listed and reader.sees("]")):
            printed = reader.sees("print(")
            name, arguments = reader.call()
            if printed:
                reader.expect(")")
            rows.append((name.removeprefix("default_api."), arguments, False))
            if listed and not reader.sees(","):
                reader.expect("]")
                break
            if not listed:
                reader.sees(";")
                reader.sees(",")
                if reader.ended():
                    break
        return rows if rows and reader.ended() else None
    except (Malformed, RecursionError, ValueError):
        return None


def builtin_calls(body: str) -> Rows:
    """JSON, or brave_search.call(query="x") for the tools that Llama 3 was trained with."""
    rows = json_calls(body) or program_calls(body)
    return rows and [
        (name.removesuffix(".call"), arguments, texts) for name, arguments, texts in rows
    ]


def braced_calls(body: str) -> Rows:
    """call:f{a:1}, as Gemma's."""
    reader = Literals(body.strip())
    rows: list[Row] = []
    try:
        while not reader.ended():
            reader.sees("call:")
            name, arguments = reader.braced()
            rows.append((name, arguments, False))
        return rows or None
    except (Malformed, RecursionError, ValueError):
        return None


def mistral_calls(body: str) -> Rows:
    """A list of JSON, or name[CALL_ID]x[ARGS]{...}."""
    rows: list[Row] = []
    place = 0
    body = body.strip()
    while (name := _NAMED.match(body, place)) is not None:
        place = end_of_json(body, name.end())
        arguments = json_of(body[name.end() : place])
        if not isinstance(arguments, dict):
            return None
        rows.append((name[1], arguments, False))
        between = _BETWEEN.match(body, place)
        place = place if between is None else between.end()
    return rows if rows and place >= len(body) else json_calls(body)


def any_of(*readers: Callable[[str], Rows]) -> Callable[[str], Rows]:
    """A reader that tries several, in order."""

    def read(body: str) -> Rows:
        return next((rows for reader in readers if (rows := reader(body))), None)

    return read
