"""Answers of chat models in parts: what was thought, what is said, and which tools are called.

The forms are those that the models' chat templates ask for:

- Hermes and Qwen: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
- Mistral: `[TOOL_CALLS][{"name": ..., "arguments": {...}}, ...]`, and newer `[TOOL_CALLS]name{...}`
  or `[TOOL_CALLS]name[ARGS]{...}`.
- Llama 3: `{"name": ..., "parameters": {...}}` as the whole answer, several with `;` between, or
  `<function=name>{...}</function>`; `<|python_tag|>` before it is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.core.io.text.tokenizer import Tokenizer

_THOUGHT = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.S)
_HERMES = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.S)
_FUNCTION = re.compile(r"<function=([^<>\s]{1,256})>(.*?)(?:</function>|\Z)", re.S)
_MISTRAL = "[TOOL_CALLS]"
_NAMED = re.compile(r"\s*([\w.-]{1,256})\s*(?:\[CALL_ID\][\w-]*)?(?:\[ARGS\])?\s*(?=\{)")
_PYTHON_TAG = "<|python_tag|>"
_DEEPEST = 64
# A string or a bracket of JSON.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.S)


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool: its name and its arguments, values of JSON."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class AnswerParts:
    """content: the answer without the other parts. thinking: the text of its `<think>` parts."""

    content: str
    thinking: str
    tool_calls: list[ToolCall]


def answer_parts(text: str, *, tools: bool = True, thinking: bool = False) -> AnswerParts:
    """The parts of an answer; a call that is not valid stays in the content.

    tools: whether to look for calls. thinking: the prompt ended within a `<think>` part.
    """
    if thinking or ("</think>" in text and "<think>" not in text.partition("</think>")[0]):
        text = "<think>" + text
    thoughts = [found.strip() for found in _THOUGHT.findall(text)]
    rest = _THOUGHT.sub("", text).strip()
    calls: list[ToolCall] = []
    if tools:
        rest, calls = _tagged(rest)
        if not calls:
            rest, calls = _mistral(rest) if _MISTRAL in rest else _bare(rest)
    return AnswerParts(rest.strip(), "\n\n".join(filter(None, thoughts)), calls)


def parts_of_tokens(
    tokenizer: Tokenizer | None,
    ends: Set[int],
    ids: Sequence[int],
    prompt: Sequence[int],
    tools: bool,
) -> AnswerParts:
    """The parts of an answer's tokens; special tokens mark calls and thoughts."""
    if tokenizer is None:
        return AnswerParts("", "", [])

    def text(ids: Sequence[int], plain: bool) -> str:
        return tokenizer.decode([i for i in ids if i not in ends], skip_special_tokens=plain)

    # Templates of models that always think end the prompt with it.
    opened = text(prompt[-8:], False).rstrip().endswith("<think>")
    whole = text(ids, False)
    found = answer_parts(whole, tools=tools, thinking=opened)
    if found.tool_calls or found.thinking:
        return found
    return replace(found, content=text(ids, True))


def _tagged(text: str) -> tuple[str, list[ToolCall]]:
    """The text without its valid <tool_call> and <function=...> parts, and their calls."""
    calls: list[ToolCall] = []

    def taken(found: re.Match[str]) -> str:
        named = found.re is _FUNCTION
        call = _call({"name": found[1], "arguments": found[2]} if named else _json(found[1]))
        if call is None:
            return found[0]
        calls.append(call)
        return ""

    return _FUNCTION.sub(taken, _HERMES.sub(taken, text)), calls


def _mistral(text: str) -> tuple[str, list[ToolCall]]:
    before, *parts = text.split(_MISTRAL)
    calls: list[ToolCall] = []
    for part in parts:
        found = list(_values(part, named=True))
        if not found:
            return text, []
        calls += found
    return before, calls


def _bare(text: str) -> tuple[str, list[ToolCall]]:
    """An answer that is nothing but calls, as Llama 3's and as Mistral's without its token."""
    calls = list(_values(text.strip().removeprefix(_PYTHON_TAG)))
    return ("", calls) if calls else (text, [])


def _values(text: str, *, named: bool = False) -> Iterator[ToolCall]:
    """The calls of a text that holds only calls; none if anything else is in it.

    named: a name may stand before its arguments.
    """
    calls, at = [], 0
    text = text.strip()
    while at < len(text):
        name = _NAMED.match(text, at) if named else None
        begin = at if name is None else name.end()
        end = _end(text, begin)
        value = _json(text[begin:end])
        rows = value if isinstance(value, list) and name is None else [value]
        for row in rows:
            call = _call(row if name is None else {"name": name[1], "arguments": row})
            if call is None:
                return
            calls.append(call)
        at = end
        while at < len(text) and text[at] in "; \n\t,":
            at += 1
    yield from calls


def _end(text: str, begin: int) -> int:
    """Where the object or array at `begin` ends; the end of the text if it does not."""
    depth = 0
    for found in _TOKEN.finditer(text, begin):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
        if depth <= 0:
            return found.end()
    return len(text)


def _json(text: str) -> Any:
    try:
        return parse_json(text.strip().encode("utf-8", "replace"), "tool call", depth=_DEEPEST)
    except FormatError:
        return None


def _call(value: Any) -> ToolCall | None:
    """The call that a JSON value says, or None."""
    if not isinstance(value, dict):
        return None
    value = value.get("function") if isinstance(value.get("function"), dict) else value
    name = value.get("name")
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):  # some models write the arguments as a text of JSON
        arguments = _json(arguments)
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    return ToolCall(name, arguments)
