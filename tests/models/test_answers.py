"""Answers of chat models: calls of tools in each style, thoughts, templates with tools."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.io.text.template import ChatTemplate
from rushlight.models.generation.answers import ToolCall, answer_parts
from rushlight.models.tasks import find
from rushlight.web.worker import session

FIND = ToolCall("find", {"max_price": 3, "what": "a }] b"})
OTHER = ToolCall("other", {})
ARGUMENTS = json.dumps(FIND.arguments)
CALL = f'{{"name": "find", "arguments": {ARGUMENTS}}}'
LLAMA = f'{{"name": "find", "parameters": {ARGUMENTS}}}'
TEXT = f'{{"name": "find", "arguments": {json.dumps(ARGUMENTS)}}}'
HERMES = f"<tool_call>\n{CALL}\n</tool_call>"
TOOLS = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (HERMES, "", [FIND]),
        (
            f'Let me look.\n{HERMES}\n<tool_call>{{"name": "other", "arguments": {{}}}}',
            "Let me look.",
            [FIND, OTHER],
        ),
        (f"[TOOL_CALLS] [{CALL}]", "", [FIND]),
        (f"Yes.[TOOL_CALLS]find[ARGS]{ARGUMENTS}[TOOL_CALLS]other{{}}", "Yes.", [FIND, OTHER]),
        (f"[{CALL}]", "", [FIND]),
        (LLAMA, "", [FIND]),
        (f'<|python_tag|>{LLAMA}; {{"name": "other", "parameters": {{}}}}', "", [FIND, OTHER]),
        (f"<function=find>{ARGUMENTS}</function>", "", [FIND]),
        (f'{{"type": "function", "function": {TEXT}}}', "", [FIND]),
    ],
)
def test_calls_of_each_style(text: str, content: str, calls: list[ToolCall]) -> None:
    found = answer_parts(text, tools=TOOLS)
    assert (found.content, found.tool_calls, found.thinking) == (content, calls, "")
    assert answer_parts(text, tools=False).tool_calls == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        'find {"a": 1}',
        '{"price": 3}',
        '{"name": "x", "arguments": 3}',
        "<tool_call>{</tool_call>",
        "[TOOL_CALLS]",
        "[1, 2]",
        '{"name": "x", "arguments": {}} and more',
        "<tool_call>" + "[" * 3000,
        "[" * 3000,
        "[TOOL_CALLS]find" + '{"a":' * 3000,
    ],
)
def test_what_is_no_call_stays(text: str) -> None:
    found = answer_parts(text)
    assert found.content == text and found.tool_calls == []


def test_thoughts_are_apart() -> None:
    for text, thinking, content in (
        ("<think>\nOne.\n</think>\n\nTwo.", "One.", "Two."),
        ("One.</think>Two.", "One.", "Two."),
        ("<think>cut", "cut", ""),
        ("<think></think>Two.", "", "Two."),
        ("<think>a</think>b<think>c</think>d", "a\n\nc", "bd"),
    ):
        found = answer_parts(text)
        assert (found.thinking, found.content) == (thinking, content)
    # A call that is only thought of is none.
    assert answer_parts(f"<think>{HERMES}</think>no").tool_calls == []
    assert answer_parts("still", thinking=True).thinking == "still"


def test_chat_renders_tools_and_gives_parts(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ask = tiny(), [{"role": "user", "content": "a"}]
    model.template = ChatTemplate(
        "{% if tools %}{{ tools[0].function.name }} {% endif %}{{ messages[0].content }}"
    )
    plain, with_tools = model.chat_ids(ask), model.chat_ids(ask, tools=TOOLS)
    assert model.tokenizer.decode(with_tools) == "find a" != model.tokenizer.decode(plain)
    first = next(model.chat(ask, tools=TOOLS, max_new_tokens=4), "")
    assert first == next(model.generate(with_tools, max_new_tokens=4), "")
    chat = rl.pipeline("chat", model, max_new_tokens=2)
    answer = chat.run(ask, {"tools": TOOLS})
    assert answer.prompt_ids == with_tools and answer.tool_calls == []
    assert answer.content == answer.text
    with pytest.raises(TypeError, match="tools is 3; it must be a list of JSON Schemas"):
        chat(ask, tools=3)
    # What the tokens say, also in the form that a page receives.
    said = model.tokenizer.encode(f"<think>hm</think>{HERMES}", add_special_tokens=False).ids
    parts = model.answer_parts(said, tools=TOOLS)
    assert (parts.thinking, parts.tool_calls, parts.content) == ("hm", [FIND], "")
    monkeypatch.setattr(type(model), "answer_parts", lambda *_, **__: parts)
    monkeypatch.setattr(session, "_models", {1: model})
    monkeypatch.setattr(session, "_linear", {1: "exact"})

    async def breathe() -> bool:
        return False

    run = session.run(1, "chat", ask, {"tools": TOOLS, "maxNewTokens": 1}, breathe, lambda *_: None)
    value, _ = asyncio.run(run)
    assert value["toolCalls"] == [{"name": "find", "arguments": FIND.arguments}]
    assert value["thinking"] == "hm" and "tools" in find("chat").names
