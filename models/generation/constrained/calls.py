"""Calls of tools as forms: each in the style that a checkpoint's chat template asks for.

Arguments follow the tool's schema, so that what a model writes is always a call that can be made.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.core.io.text.chat.functions import schema_of_function
from rushlight.models.generation.constrained.forms import (
    Either,
    Form,
    Joined,
    Json,
    Mark,
    Pattern,
    Several,
    Text,
)

Tool = tuple[str, dict[str, Any]]  # a name, and the schema of the arguments
_NAME = re.compile(r"[\w.$:/-]{1,64}")
CHOICES = ("auto", "none", "required")
# Letters that none of the tags of arguments begins with.
_PLAIN = r"[^<\x00-\x08\x0b-\x1f]"


def forced_calls(
    tools: Sequence[Any] | None, choice: Any, parallel: bool | None, source: str
) -> Form | None:
    """The form of an answer that calls tools; None where `choice` leaves it to the model.

    choice: "auto", "none", "required" (some tool; "any" is the same), or {"type": "function",
    "function": {"name": ...}}; parallel: whether an answer may have several calls. source: the chat
    template. ValueError for a choice that is none of these, that no tool fits, and for tools of one
    name.
    """
    if choice in (None, "auto", "none"):
        return None
    known = tools_of(tools or ())
    if choice in ("required", "any"):
        wanted = known
    else:
        name = _chosen(choice)
        wanted = [tool for tool in known if tool[0] == name]
        parallel = False
        if known and not wanted:
            names = ", ".join(name for name, _ in known)
            raise ValueError(f"tool_choice: there is no tool {name!r}; the tools are {names}")
    if not wanted:
        raise ValueError("tool_choice: there are no tools to call; pass tools=")
    return style_of(source)(wanted, parallel is not False)


def _chosen(choice: Any) -> str:
    inner = choice.get("function", choice) if isinstance(choice, Mapping) else None
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str):
        raise ValueError(
            f"tool_choice is {choice!r}; it must be one of {', '.join(CHOICES)}, or "
            '{"type": "function", "function": {"name": ...}}'
        )
    return name


def tools_of(tools: Sequence[Any]) -> list[Tool]:
    """The names of tools and the schemas of their arguments.

    ValueError for two of one name, and for a name that calls cannot spell.
    """
    answer: list[Tool] = []
    for tool in tools:
        row = schema_of_function(tool) if inspect.isroutine(tool) else tool
        inner = row.get("function", row) if isinstance(row, Mapping) else {}
        name = inner.get("name") if isinstance(inner, Mapping) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"tools: the name {name!r} is none that a call can spell")
        if any(name == other for other, _ in answer):
            raise ValueError(f"tools: two tools have the name {name!r}")
        schema = inner.get("parameters", inner.get("input_schema")) or {}
        answer.append((name, {"type": "object", **schema}))
    return answer


# --- styles -------------------------------------------------------------------------------------

Style = Callable[[list[Tool], bool], Form]


def style_of(source: str) -> Style:
    """The style of calls that a chat template asks for; plain JSON where it names none."""
    for marks, style in _STYLES:
        if all(mark in source for mark in marks):
            return style
    return plain_json


def _some(calls: list[Form], several: bool, between: str) -> Form:
    call = calls[0] if len(calls) == 1 else Either(tuple(calls))
    return Several(call, Text(between)) if several else call


def _object(tool: Tool, key: str = "arguments") -> Form:
    """{"name": ..., "arguments": {...}}."""
    name, schema = tool
    return Joined((Text(f'{{"name": {json.dumps(name)}, "{key}": '), Json(schema), Text("}")))


def plain_json(tools: list[Tool], several: bool) -> Form:
    """An object, or a list of objects."""
    calls = [_object(tool) for tool in tools]
    if not several:
        return _some(calls, False, "")
    return Joined((Text("["), _some(calls, True, ", "), Text("]")))


def _llama(tools: list[Tool], several: bool) -> Form:
    """{"name": ..., "parameters": {...}}, as Llama 3 writes it: one call."""
    return _some([_object(tool, "parameters") for tool in tools], False, "")


def _hermes(tools: list[Tool], several: bool) -> Form:
    """An object within tags: Hermes, Qwen 2.5 and 3, and many others."""
    rows: list[Form] = [
        Joined((Mark("<tool_call>"), Text("\n"), _object(tool), Text("\n"), Mark("</tool_call>")))
        for tool in tools
    ]
    return _some(rows, several, "\n")


def _phi(tools: list[Tool], several: bool) -> Form:
    """A list between tokens, as Granite 3 and Phi-4-mini write it."""
    calls = [_object(tool) for tool in tools]
    rows = (Mark("<|tool_call|>"), Text("["), _some(calls, several, ", "), Text("]"))
    return Joined((*rows, Mark("<|/tool_call|>")))


def _mistral_list(tools: list[Tool], several: bool) -> Form:
    calls = [_object(tool) for tool in tools]
    return Joined((Mark("[TOOL_CALLS]"), Text("["), _some(calls, several, ", "), Text("]")))


def _mistral(tools: list[Tool], several: bool) -> Form:
    """A name and its arguments behind tokens, as Mistral's models since 2025 write them."""
    rows: list[Form] = [
        Joined((Mark("[TOOL_CALLS]"), Text(name), Mark("[ARGS]"), Json(schema)))
        for name, schema in tools
    ]
    return _some(rows, several, "")


def _deepseek(fenced: bool) -> Style:
    def style(tools: list[Tool], several: bool) -> Form:
        rows: list[Form] = []
        for name, schema in tools:
            head: tuple[Form, ...] = (Text(name), Mark("<｜tool▁sep｜>"), Json(schema))
            if fenced:
                head = (Text("function"), Mark("<｜tool▁sep｜>"), Text(f"{name}\n```json\n"))
                head = (*head, Json(schema), Text("\n```"))
            ends = (Mark("<｜tool▁call▁begin｜>"), Mark("<｜tool▁call▁end｜>"))
            rows.append(Joined((ends[0], *head, ends[1])))
        between = "\n" if fenced else ""
        marks = (Mark("<｜tool▁calls▁begin｜>"), Mark("<｜tool▁calls▁end｜>"))
        return Joined((marks[0], _some(rows, several, between), marks[1]))

    return style


def _kimi(tools: list[Tool], several: bool) -> Form:
    """Kimi counts the calls of an answer."""
    rows: list[Form] = [
        Joined(
            (
                Mark("<|tool_call_begin|>"),
                Text(f"functions.{name}:"),
                Pattern("[0-9]") if several else Text("0"),
                Mark("<|tool_call_argument_begin|>"),
                Json(schema),
                Mark("<|tool_call_end|>"),
            )
        )
        for name, schema in tools
    ]
    marks = (Mark("<|tool_calls_section_begin|>"), Mark("<|tool_calls_section_end|>"))
    return Joined((marks[0], _some(rows, several, ""), marks[1]))


def _harmony(tools: list[Tool], several: bool) -> Form:
    """A message to a function, as gpt-oss writes it: one call, which ends the answer."""
    rows: list[Form] = [
        Joined((Text(f"{name} "), Mark("<|constrain|>"), Text("json"), Mark("<|message|>"),
                Json(schema)))
        for name, schema in tools
    ]  # fmt: skip
    head = (Mark("<|channel|>"), Text("commentary to=functions."))
    return Joined((*head, _some(rows, False, ""), Mark("<|call|>")))


def _headed(tools: list[Tool], several: bool) -> Form:
    """A line with the name, and JSON, as GLM 4 writes them: one call."""
    rows: list[Form] = [Joined((Text(f"{name}\n"), Json(schema))) for name, schema in tools]
    return _some(rows, False, "")


def _tagged(tools: list[Tool], several: bool) -> Form:
    """Tags of a function and its parameters, as Qwen3-Coder and Qwen 3.5 write them."""
    rows: list[Form] = []
    for tool in tools:
        parts = _parameters(tool, _parameter)
        head = (Mark("<tool_call>"), Text(f"\n<function={tool[0]}>\n"))
        rows.append(Joined((*head, *parts, Text("</function>\n"), Mark("</tool_call>"))))
    return _some(rows, several, "\n")


def _parameter(name: str, value: Form) -> Form:
    return Joined((Text(f"<parameter={name}>\n"), value, Text("\n</parameter>\n")))


def _keyed(tools: list[Tool], several: bool) -> Form:
    """Keys and values in tags, as GLM 4.5 writes them."""

    def pair(name: str, value: Form) -> Form:
        key = (Mark("<arg_key>"), Text(name), Mark("</arg_key>"), Text("\n"))
        return Joined((*key, Mark("<arg_value>"), value, Mark("</arg_value>"), Text("\n")))

    rows: list[Form] = []
    for tool in tools:
        parts = _parameters(tool, pair)
        rows.append(
            Joined((Mark("<tool_call>"), Text(f"{tool[0]}\n"), *parts, Mark("</tool_call>")))
        )
    return _some(rows, several, "\n")


def _parameters(tool: Tool, written: Callable[[str, Form], Form]) -> list[Form]:
    """The arguments that stand one after the other, those that may be missing among them."""
    name, schema = tool
    parts: list[Form] = []
    for key, inner in _properties(name, schema).items():
        _check_key(name, key, "<>=\"'")
        row = written(key, _text_or_json(name, key, inner, schema))
        parts.append(row if key in schema.get("required", ()) else Either((row, Text(""))))
    return parts


def _properties(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a tool whose calls are no JSON."""
    combined = {"$ref", "anyOf", "oneOf", "allOf", "patternProperties"} & {*schema}
    missing = [n for n in schema.get("required", ()) if n not in schema.get("properties", {})]
    if combined or missing:
        what = f"{sorted(combined)[0]!r}" if combined else f"the required {missing[0]!r}"
        raise ValueError(
            f"tools: {what} at the top of {name}'s parameters is not supported, as this model's "
            "calls name each argument; list them in properties"
        )
    return dict(schema.get("properties", {}))


def _check_key(name: str, key: str, bad: str) -> None:
    if not key or any(char in bad or char.isspace() for char in key):
        raise ValueError(
            f"tools: {name}'s argument {key!r} cannot be spelled in this model's calls"
        )


def _with_definitions(inner: Any, schema: dict[str, Any]) -> Any:
    kept = {k: schema[k] for k in ("$defs", "definitions") if k in schema}
    return {**inner, **kept} if isinstance(inner, Mapping) and kept else inner


def _text_or_json(name: str, key: str, inner: Any, schema: dict[str, Any]) -> Form:
    """The value of an argument: a text as it is, anything else as JSON."""
    inner = {} if inner is True else inner
    known = inner.get("enum", [inner["const"]] if "const" in inner else [])
    if inner.get("type") != "string" and ("type" in inner or not _all_texts(known)):
        return Json(_with_definitions(inner, schema))
    return _raw_text(name, key, inner)


def _all_texts(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)


def _raw_text(name: str, key: str, inner: Mapping[str, Any]) -> Form:
    """A text that no tag is in; one of an enumeration, or of a pattern."""
    from rushlight.models.generation.constrained.engine.values import FORMATS

    known = inner.get("enum", [inner["const"]] if "const" in inner else None)
    if known is not None:
        return Either(tuple(Text(str(value)) for value in known))
    pattern, form = inner.get("pattern"), inner.get("format")
    if pattern is not None:
        ends = pattern[1:-1] if pattern[:1] == "^" and pattern[-1:] == "$" else None
        if ends is None or "<" in ends or "minLength" in inner or "maxLength" in inner:
            raise ValueError(
                f"tools: the pattern of {name}'s argument {key!r} is not supported in this model's "
                "calls; supported: ^...$ without <, and no lengths beside it"
            )
        return Pattern(ends)
    if form is not None:
        if form not in FORMATS:
            raise ValueError(f"tools: {name}'s argument {key!r}: format {form!r} is not supported")
        return Pattern(FORMATS[form])
    least, most = inner.get("minLength", 0), inner.get("maxLength", "")
    # Blanks at the ends would be taken for the tags'.
    if least or most != "":
        return Pattern(f"{_PLAIN}{{{least},{most}}}")
    return Pattern(f"{_PLAIN}*")


def _braced(quote: str, opening: str, closing: str) -> Style:
    """call:f{a:1}, as Gemma writes it."""

    def value(name: str, inner: Any, schema: dict[str, Any], depth: int) -> Form:
        inner = {} if inner is True else inner
        kind = inner.get("type")
        known = inner.get("enum", [inner["const"]] if "const" in inner else None)
        text: Form
        if known is not None and _all_texts(known):
            text = Either(tuple(Text(word) for word in known))
            return Joined((Mark(quote), text, Mark(quote)))
        if kind == "string":
            return Joined((Mark(quote), _raw_text(name, "", inner), Mark(quote)))
        if known is not None or kind in ("integer", "number", "boolean", "null"):
            return Json(_with_definitions(inner, schema))
        if kind == "array" and isinstance(inner.get("items"), Mapping) and depth < 8:
            item = value(name, inner["items"], schema, depth + 1)
            rows: Form = Several(item, Text(","))
            extra = {"minItems", "maxItems", "prefixItems"} & {*inner}
            if not extra:
                return Joined((Text("["), Either((rows, Text(""))), Text("]")))
        if kind == "object" and inner.get("properties") and depth < 8:
            return members(name, inner, depth + 1)
        raise ValueError(
            f"tools: a parameter of {name} is not supported in this model's calls; supported: "
            "texts, numbers, booleans, enumerations, arrays of them, objects with properties"
        )

    def members(name: str, schema: dict[str, Any], depth: int) -> Form:
        rows: dict[str, Form] = {}
        for key, inner in _properties(name, schema).items():
            _check_key(name, key, "<>{}:,|")
            rows[key] = Joined((Text(f"{key}:"), value(name, inner, schema, depth)))
        needed = [rows[key] for key in rows if key in schema.get("required", ())]
        free = [rows[key] for key in rows if key not in schema.get("required", ())]

        def more(forms: list[Form]) -> list[Form]:
            return [Either((Joined((Text(","), form)), Text(""))) for form in forms]

        comma = [part for form in needed[1:] for part in (Text(","), form)]
        if needed:
            inner_form: Form = Joined((needed[0], *comma, *more(free)))
        else:
            begins = [Joined((form, *more(free[i + 1 :]))) for i, form in enumerate(free)]
            inner_form = Either((Text(""), *begins))
        return Joined((Text("{"), inner_form, Text("}")))

    def style(tools: list[Tool], several: bool) -> Form:
        rows: list[Form] = [
            Joined((Mark(opening), Text(f"call:{name}"), members(name, schema, 0), Mark(closing)))
            for name, schema in tools
        ]
        return _some(rows, several, "")

    return style


# What a template has, and the style; the first row whose marks are all there counts.
_STYLES: tuple[tuple[tuple[str, ...], Style], ...] = (
    (("<|channel|>", "commentary", "<|message|>"), _harmony),
    (("<function=", "<parameter="), _tagged),
    (("<arg_key>",), _keyed),
    (("<|tool_calls_section_begin|>",), _kimi),
    (("<｜tool▁calls▁begin｜>", "```json"), _deepseek(True)),
    (("<｜tool▁calls▁begin｜>",), _deepseek(False)),
    (("[TOOL_CALLS]", "[ARGS]"), _mistral),
    (("[TOOL_CALLS]",), _mistral_list),
    (("<|tool_call>", "call:"), _braced('<|"|>', "<|tool_call>", "<tool_call|>")),
    (
        ("<start_function_call>",),
        _braced("<escape>", "<start_function_call>", "<end_function_call>"),
    ),
    (("<|tool_call|>",), _phi),
    (("<tool_call>",), _hermes),
    (("<|observation|>",), _headed),
    (("<|python_tag|>",), _llama),
    (('"parameters"', "<|start_header_id|>"), _llama),
)
