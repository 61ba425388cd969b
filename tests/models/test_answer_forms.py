"""Answers in the published form of each chat family: thoughts, calls, and what looks like them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from rushlight.core.io.text.template import ChatTemplate
from rushlight.core.io.text.tokenizer import load_tokenizer
from rushlight.models.generation.answers import (
    AnswerReader,
    AnswerTokens,
    ToolCall,
    answer_parts,
    parts_of_tokens,
)
from rushlight.models.generation.answers.formats import CALLS, ENDS, MARKS, THOUGHTS
from rushlight.models.generation.steps import Token

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "zip": {"type": ["string", "null"]},
                    "near": {"anyOf": [{"type": "array"}, {"type": "null"}]},
                    "warm": {"type": "boolean"},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "get_time", "parameters": {}}},
]
WEATHER = ToolCall("get_weather", {"city": "Paris", "days": 3})
TIME = ToolCall("get_time", {"city": "Paris", "days": 3})
ARGS = '{"city": "Paris", "days": 3}'
HERMES = "\n".join(
    f'<tool_call>\n{{"name": "{name}", "arguments": {ARGS}}}\n</tool_call>'
    for name in ("get_weather", "get_time")
)
XML = "".join(
    f"{{}}\n<function={name}>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n"
    f"</parameter>\n</function>\n{{}}\n"
    for name in ("get_weather", "get_time")
)
INVOKE = "".join(
    f'<invoke name="{name}">\n<parameter name="city">Paris</parameter>\n'
    '<parameter name="days">3</parameter>\n</invoke>\n'
    for name in ("get_weather", "get_time")
)
DSML = INVOKE.replace("<", "<｜DSML｜").replace("<｜DSML｜/", "</｜DSML｜")
GLM = "".join(
    f"\n<tool_call>{name}\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
    for name in ("get_weather", "get_time")
)
LIST = (
    f'[{{"name": "get_weather", "arguments": {ARGS}}}, {{"name": "get_time", "arguments": {ARGS}}}]'
)
COHERE = LIST.replace('"name"', '"tool_name"').replace('"arguments"', '"parameters"')
PYTHON = "[get_weather(city='Paris', days=3), get_time(city=\"Paris\", days=3)]"
HUNYUAN = (
    "<tool_calls:opensource>\n"
    + GLM.replace("</tool_call>", "</tool_call:opensource>")
    .replace("<tool_call>get_weather", "<tool_call:opensource>get_weather<tool_sep:opensource>")
    .replace("<tool_call>get_time", "<tool_call:opensource>get_time<tool_sep:opensource>")
    .replace("arg_key>", "arg_key:opensource>")
    .replace("arg_value>", "arg_value:opensource>")
    + "\n</tool_calls:opensource>"
)

# name: (answer, content, thinking, calls)
FORMS: dict[str, tuple[str, str, str, list[ToolCall]]] = {
    "gpt-oss": (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>four",
        "four",
        "hm",
        [],
    ),
    "gpt-oss calls": (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant to=functions.get_weather"
        f"<|channel|>commentary json<|message|>{ARGS}<|call|>",
        "",
        "hm",
        [WEATHER],
    ),
    "gpt-oss calls by channel": (
        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary "
        f"to=functions.get_weather <|constrain|>json<|message|>{ARGS}<|call|>",
        "I look.",
        "",
        [WEATHER],
    ),
    "gpt-oss calls at once": (
        f" to=functions.get_time<|channel|>commentary json<|message|>{ARGS}",
        "",
        "",
        [TIME],
    ),
    "qwen3": (f"<think>\nhm\n</think>\n\nSure.\n{HERMES}", "Sure.", "hm", [WEATHER, TIME]),
    "qwen3-coder": (
        f"Sure.\n{XML.format(*['<tool_call>', '</tool_call>'] * 2)}",
        "Sure.",
        "",
        [WEATHER, TIME],
    ),
    "qwen3-coder without tags": (XML.format("", "", "", ""), "", "", [WEATHER, TIME]),
    "seed-oss": (
        "<seed:think>hm</seed:think>\nSure.\n"
        + XML.format(*["<seed:tool_call>", "</seed:tool_call>"] * 2),
        "Sure.",
        "hm",
        [WEATHER, TIME],
    ),
    "minimax": (
        f"<think>\nhm\n</think>\n<minimax:tool_call>\n{INVOKE}</minimax:tool_call>",
        "",
        "hm",
        [WEATHER, TIME],
    ),
    "minimax-m1": (
        f"<tool_calls>\n{LIST[1:-1].replace('}, {', '}' + chr(10) + '{')}\n</tool_calls>",
        "",
        "",
        [WEATHER, TIME],
    ),
    "deepseek v3.2": (
        f"Sure.\n\n<｜DSML｜function_calls>\n{DSML}</｜DSML｜function_calls>",
        "Sure.",
        "",
        [WEATHER, TIME],
    ),
    "deepseek v3.1": (
        "hm</think>Sure.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        f"{ARGS}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{ARGS}"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "Sure.",
        "hm",
        [WEATHER, TIME],
    ),
    "deepseek r1": (
        "<think>hm</think>"
        + "<｜tool▁calls▁begin｜>"
        + "\n".join(
            f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{ARGS}\n```"
            "<｜tool▁call▁end｜>"
            for name in ("get_weather", "get_time")
        )
        + "<｜tool▁calls▁end｜>",
        "",
        "hm",
        [WEATHER, TIME],
    ),
    "kimi": (
        "Sure.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
        f"<|tool_call_argument_begin|>{ARGS}<|tool_call_end|><|tool_call_begin|>"
        f"functions.get_time:1<|tool_call_argument_begin|>{ARGS}<|tool_call_end|>"
        "<|tool_calls_section_end|>",
        "Sure.",
        "",
        [WEATHER, TIME],
    ),
    "glm 4.5": (f"\n<think>hm</think>\nSure.{GLM}", "Sure.", "hm", [WEATHER, TIME]),
    "hunyuan 3": (
        f"<think:opensource>hm</think:opensource>Sure.{HUNYUAN}",
        "Sure.",
        "hm",
        [WEATHER, TIME],
    ),
    "hunyuan": ("<think>\nhm\n</think>\n<answer>\nSure.\n</answer>", "Sure.", "hm", []),
    "hunyuan calls": (
        f"<think>\nhm\n</think>\n<tool_calls>{LIST}</tool_calls>",
        "",
        "hm",
        [WEATHER, TIME],
    ),
    "lfm2": (f"Sure.<|tool_call_start|>{PYTHON}<|tool_call_end|>", "Sure.", "", [WEATHER, TIME]),
    "granite 3": (f"<|tool_call|>{LIST}", "", "", [WEATHER, TIME]),
    "granite 3.2": (
        "Here is my thought process: hm\n\nHere is my response: Sure.",
        "Sure.",
        "hm",
        [],
    ),
    "granite 3.3": ("<think>hm</think><response>Sure.</response>", "Sure.", "hm", []),
    "phi-4-mini": (f"<|tool_call|>{LIST}<|/tool_call|>", "", "", [WEATHER, TIME]),
    "phi-4-mini functools": (f"functools{LIST}", "", "", [WEATHER, TIME]),
    "command r7b": (
        f"<|START_THINKING|>hm<|END_THINKING|><|START_ACTION|>{COHERE}<|END_ACTION|>",
        "",
        "hm",
        [WEATHER, TIME],
    ),
    "command r7b answers": (
        "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>Sure.<|END_RESPONSE|>",
        "Sure.",
        "hm",
        [],
    ),
    "command r": (
        f"Plan: look.\nAction:\n```json\n{COHERE}\n```",
        "Plan: look.",
        "",
        [WEATHER, TIME],
    ),
    "llama 3.1": (f'{{"name": "get_weather", "parameters": {ARGS}}}', "", "", [WEATHER]),
    "llama 3.1 tagged": (f"<function=get_weather>{ARGS}</function>", "", "", [WEATHER]),
    "llama 3.1 built in": (
        '<|python_tag|>brave_search.call(query="a b")',
        "",
        "",
        [ToolCall("brave_search", {"query": "a b"})],
    ),
    "llama 3.2": (PYTHON, "", "", [WEATHER, TIME]),
    "llama 4": (f"<|python_start|>{PYTHON}<|python_end|>", "", "", [WEATHER, TIME]),
    "mistral": (f"[TOOL_CALLS]{LIST}", "", "", [WEATHER, TIME]),
    "mistral small": (
        f"Sure.[TOOL_CALLS]get_weather[CALL_ID]call00001[ARGS]{ARGS}[TOOL_CALLS]get_time[ARGS]"
        f"{ARGS}",
        "Sure.",
        "",
        [WEATHER, TIME],
    ),
    "magistral": (f"[THINK]hm[/THINK]Sure.[TOOL_CALLS]get_time[ARGS]{ARGS}", "Sure.", "hm", [TIME]),
    "nemotron nano": (
        f"<think>\nhm\n</think>\n\n<TOOLCALL>{LIST}</TOOLCALL>",
        "",
        "hm",
        [WEATHER, TIME],
    ),
    "gemma 3": (
        'Sure.\n```tool_code\nprint(get_weather(city="Paris", days=3))\n```',
        "Sure.",
        "",
        [WEATHER],
    ),
    "gemma 4": (
        '<|channel>thought\nhm<channel|><|tool_call>call:get_weather{city:<|"|>Paris<|"|>,'
        "days:3}<tool_call|>",
        "",
        "hm",
        [WEATHER],
    ),
    "functiongemma": (
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3}"
        "<end_function_call>",
        "",
        "",
        [WEATHER],
    ),
    "olmo 3": (
        '<function_calls>\nget_weather(city="Paris", days=3)\nget_time(city="Paris", days=3)\n'
        "</function_calls>",
        "",
        "",
        [WEATHER, TIME],
    ),
    "apertus": (
        f'Sure.<|tools_prefix|>[{{"get_weather": {ARGS}}}, {{"get_time": {ARGS}}}]<|tools_suffix|>',
        "Sure.",
        "",
        [WEATHER, TIME],
    ),
    "apriel": (
        "Here are my reasoning steps:\nhm\n[BEGIN FINAL RESPONSE]\nSure.\n"
        f"<tool_calls>{LIST}</tool_calls>",
        "Sure.",
        "hm",
        [WEATHER, TIME],
    ),
    "internlm": (
        f"Sure.<|action_start|><|plugin|>{LIST[1:].partition('}, {')[0]}}}<|action_end|>",
        "Sure.",
        "",
        [WEATHER],
    ),
    "minicpm": (
        '<think>\nhm\n</think>\nSure.\n<function name="get_weather"><param name="city">Paris'
        '</param><param name="days">3</param></function>',
        "Sure.",
        "hm",
        [WEATHER],
    ),
    "solar": (
        f"<|tool_call:begin|>call1<|tool_call:name|>get_weather<|tool_call:args|>{ARGS}"
        "<|tool_call:end|>",
        "",
        "",
        [WEATHER],
    ),
    "gigachat": (
        f'Sure.<|function_call|>{{"name": "get_time", "arguments": {ARGS}}}<|message_sep|>',
        "Sure.",
        "",
        [TIME],
    ),
    "step": (
        "<steptml:toolcall>"
        + INVOKE.replace("<", "<steptml:").replace("<steptml:/", "</steptml:")
        + "</steptml:toolcall>",
        "",
        "",
        [WEATHER, TIME],
    ),
    "of the type function": (
        f'{{"type": "function", "function": {{"name": "f", "arguments": {ARGS}}}}}',
        "",
        "",
        [ToolCall("f", {"city": "Paris", "days": 3})],
    ),
    "xlam": (LIST, "", "", [WEATHER, TIME]),
    "xlam in a fence": (f"```json\n{LIST}\n```", "", "", [WEATHER, TIME]),
    "without arguments": ("<tool_call>get_time</tool_call>", "", "", [ToolCall("get_time", {})]),
    "a name alone in JSON": (
        '<tool_call>{"name": "get_time"}</tool_call>',
        "",
        "",
        [ToolCall("get_time", {})],
    ),
    "a closing in a string": (
        '<tool_call>{"name": "get_time", "arguments": {"a": "</tool_call> \\" b"}}</tool_call>.',
        ".",
        "",
        [ToolCall("get_time", {"a": '</tool_call> " b'})],
    ),
    "unfinished": (f'a<tool_call>{{"name": "get_time", "arguments": {ARGS}}}', "a", "", [TIME]),
    "words after a list": (f"[TOOL_CALLS]{LIST}\n\nDone.", "Done.", "", [WEATHER, TIME]),
    "an opening in words": (
        f'Use <tool_call> here. <tool_call>{{"name": "get_time", "arguments": {ARGS}}}</tool_call>',
        "Use <tool_call> here.",
        "",
        [TIME],
    ),
    "two thoughts": ("<think>a</think>b<think>c</think>d", "bd", "a\n\nc", []),
    "a thought that the prompt began": ("One.\n</think>\n\nTwo.", "Two.", "One.", []),
    "granite 20b": (
        f'Sure.<function_call> {{"name": "get_weather", "arguments": {ARGS}}}'
        f'<function_call> {{"name": "get_time", "arguments": {ARGS}}}',
        "Sure.",
        "",
        [WEATHER, TIME],
    ),
    "command r without a blank": (
        f"Plan: look.\nAction:```json\n{COHERE}\n```",
        "Plan: look.",
        "",
        [WEATHER, TIME],
    ),
    "minicpm 3": (
        "<|thought_start|>\nhm\n<|thought_end|>\n<|tool_call_start|>\n```python\n"
        f"{PYTHON}\n```\n<|tool_call_end|>",
        "",
        "hm",
        [WEATHER, TIME],
    ),
    "glm 4": (f"get_weather\n{ARGS}\nget_time\n{ARGS}", "", "", [WEATHER, TIME]),
    "functionary": (f">>>get_weather\n{ARGS}", "", "", [WEATHER]),
    "calls by key": (f'{{"tool_calls": {LIST}}}', "", "", [WEATHER, TIME]),
    "xml without its opening": (
        f"Sure.{XML.format('', '</tool_call>', '', '</tool_call>')}</tool_call>",
        "Sure.\n\n\n\n\n\n</tool_call>",
        "",
        [WEATHER, TIME],
    ),
    "a dict of Python": (
        "<tool_call><function=get_weather><parameter=near>[{'a': True, 'b': None}]</parameter>"
        "</function></tool_call>",
        "",
        "",
        [ToolCall("get_weather", {"near": [{"a": True, "b": None}]})],
    ),
    "a closing in a value of XML": (
        '<tool_call>\n<function=get_weather>\n<parameter=city>\n</function></tool_call> "\n'
        "</parameter>\n</function>\n</tool_call>.",
        ".",
        "",
        [ToolCall("get_weather", {"city": '</function></tool_call> "'})],
    ),
    "a closing in a value of keys": (
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value>it's </tool_call></arg_value>"
        "</tool_call>.",
        ".",
        "",
        [ToolCall("get_weather", {"city": "it's </tool_call>"})],
    ),
    "a closing in a program": (
        "<|tool_call_start|>[get_time(a='\"<|tool_call_end|>', b=1_000)]<|tool_call_end|>.",
        ".",
        "",
        [ToolCall("get_time", {"a": '"<|tool_call_end|>', "b": 1000})],
    ),
    "a closing between tokens": (
        '<|tool_call>call:get_time{a:<|"|><tool_call|> "<|"|>}<tool_call|>.',
        ".",
        "",
        [ToolCall("get_time", {"a": '<tool_call|> "'})],
    ),
    "an opening in a string": (
        '[TOOL_CALLS]get_time[ARGS]{"a": "[TOOL_CALLS]x"}[TOOL_CALLS]get_time{}',
        "",
        "",
        [ToolCall("get_time", {"a": "[TOOL_CALLS]x"}), ToolCall("get_time", {})],
    ),
    "the end of a message in a string": (
        '<|channel|>commentary to=functions.get_time<|message|>{"a": "<|end|>"}<|call|>',
        "",
        "",
        [ToolCall("get_time", {"a": "<|end|>"})],
    ),
    "an end in a string of deepseek's": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>"
        '{"a": "<｜tool▁calls▁end｜>"}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "",
        "",
        [ToolCall("get_time", {"a": "<｜tool▁calls▁end｜>"})],
    ),
    "no arguments of deepseek's": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜><｜tool▁call▁end｜>"
        f"<｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{ARGS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "",
        "",
        [ToolCall("get_time", {}), TIME],
    ),
    "half a character": (
        '<tool_call>{"name": "get_time", "arguments": {"a": "\\ud83d\\ude00 \\ud83d"}}</tool_call>',
        "",
        "",
        [ToolCall("get_time", {"a": "😀 \ufffd"})],
    ),
    "an empty list": ("Sure.<tool_calls>[]</tool_calls>", "Sure.", "", []),
    "the token of an end": (f"Sure.{HERMES}<|im_end|>\n", "Sure.", "", [WEATHER, TIME]),
    "an end after words": ("Sure.</s>", "Sure.", "", []),
    "an end in a thought": ("<think>hm<|eot_id|>", "", "hm", []),
    "a call after code": (
        "```\n<tool_call>\n```\n`<tool_call>`\n"
        f'<tool_call>{{"name": "get_time", "arguments": {ARGS}}}</tool_call>',
        "```\n<tool_call>\n```\n`<tool_call>`",
        "",
        [TIME],
    ),
    "a call that is thought of": (
        f'<think>{HERMES}</think>no<tool_call>{{"name": "get_time", "arguments": {ARGS}}}'
        "</tool_call>",
        "no",
        HERMES,
        [TIME],
    ),
}

# None of these is a call or a thought.
WORDS = [
    "Wrap it in <think> tags. Then send.",
    "Put it between <think> and </think> tags, please.",
    "Close it with `</think>`.",
    "`<think>` begins it and `</think>` ends it.",
    '{"name": "Ada", "parameters": {"age": 36}}',
    '[{"name": "Ada", "arguments": {"age": 36}}]',
    '```json\n{"name": "Ada", "arguments": {}}\n```',
    "[1] A footnote. [2] Another.",
    "[see(a), also(b)]",
    "print(get_weather(city='Paris'))",
    "The tag <tool_call> begins a call.",
    "<tool_call>word</tool_call>",
    "<tool_call>{</tool_call>",
    '<tool_call>{"name": 3}</tool_call>',
    "<function=f> is a header",
    "[TOOL_CALLS]",
    "[TOOL_CALLS] is a token.",
    "[ARGS]{}",
    "functools is a module, functools[0] is not",
    "I use functools[0].",
    "Action: run.",
    "```python\nprint(1)\n```",
    "```tool_code\nimport os\n```",
    "<|channel|>final",
    "<|tool_call|>",
    "to=functions.f is the header",
    "to be or not to be",
    "Here is my thought process: none.",
    "<response>a</response>",
    "<answer>42</answer>",
    "a < b and c > d",
    "<｜tool▁calls▁begin｜>x<｜tool▁calls▁end｜>",
    "<function_calls>\nf(a\n</function_calls>",
    '`<tool_call>{"name": "get_time", "arguments": {}}</tool_call>` is a call.',
    'So:\n```xml\n<tool_call>{"name": "get_time", "arguments": {}}</tool_call>\n```\nDone.',
    "So:\n\n    ```\n<think>\nfoo\n</think>\n    ```\nDone.",
    "```\n</think>\n```",
    "Write `<think>x</think>`.",
    "```\n<|channel|>final<|message|>x\n```",
    '{"type": "function", "function": {"name": "get_time", "description": "", "parameters": {}}}',
    '[{"name": "get_time", "parameters": {"type": "object", "properties": {}}}]',
    "get_time\nis a tool.",
    "get_time {}",
    "The token at the end is </s>",
    "</s>",
    "{",
    "[",
    "`",
    "```",
    "<",
    "",
]


@pytest.mark.parametrize("name", FORMS)
def test_each_form(name: str) -> None:
    text, content, thinking, calls = FORMS[name]
    found = answer_parts(text, tools=TOOLS)
    assert (found.content, found.thinking, found.tool_calls) == (content, thinking, calls)


@pytest.mark.parametrize("text", WORDS)
def test_words_are_content(text: str) -> None:
    for tools in (True, TOOLS):
        found = answer_parts(text, tools=tools)
        assert (found.content, found.thinking, found.tool_calls) == (text.strip(), "", [])


def test_a_thought_that_the_prompt_began() -> None:
    for row in THOUGHTS:
        for end in (row.closing, row.closing + "\n"):
            found = answer_parts(f"hm{end}four", thinking=row.opening)
            assert (found.content, found.thinking) == ("four", "hm")
        assert answer_parts("cut", thinking=row.opening).thinking == "cut"
    assert answer_parts("a</think>b", thinking=True).content == "b"


def told(text: str, cuts: list[int], **options: Any) -> tuple[str, str, list[ToolCall]]:
    """The sum of the deltas of a text that comes in pieces."""
    reader = AnswerReader(**options)
    content, thinking = "", ""
    calls: list[ToolCall] = []
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    deltas = [*map(reader.feed, pieces), reader.finish()]
    for delta in deltas:
        if delta.restart:
            content, thinking, calls = "", "", []
        content += delta.content
        thinking += delta.thinking
        calls += delta.tool_calls
    parts = reader.parts
    assert (content, thinking, calls) == (parts.content, parts.thinking, parts.tool_calls)
    return content, thinking, calls


def samples() -> list[str]:
    texts = [form[0] for form in FORMS.values()] + WORDS
    rng = random.Random(5)
    pieces = [*dict.fromkeys(MARKS), " ", "\n", "a", "{", "}", '"', '{"name": "get_time"}', "to=f"]
    mixed = ["".join(rng.choices(pieces, k=rng.randrange(1, 9))) for _ in range(300)]
    return [*texts, *(a + b for a, b in zip(texts, texts[7:], strict=False)), *mixed]


@pytest.mark.parametrize("tools", [True, TOOLS, False], ids=["any", "given", "none"])
def test_a_stream_gives_the_parts_of_the_whole(tools: Any) -> None:
    rng = random.Random(6)
    for text in samples():
        whole = told(text, [], tools=tools)
        assert told(text, list(range(1, len(text))), tools=tools) == whole, text
        for _ in range(4):
            cuts = sorted(rng.sample(range(len(text) + 1), min(len(text), 3)))
            assert told(text, cuts, tools=tools) == whole, (text, cuts)


def test_nothing_is_swallowed() -> None:
    """Every letter of an answer without calls and thoughts is in its content."""
    for text in samples():
        found = answer_parts(text)
        text = next((text[: -len(end)] for end in ENDS if text.endswith(end)), text)
        dropped = ("<response>", "<answer>", "<|start|>", "<|channel|>", "to=")
        if not found.tool_calls and not any(mark in text for mark in dropped):
            for letter in "aopt":
                kept = found.content.count(letter) + found.thinking.count(letter)
                marks = sum(m.count(letter) * text.count(m) for m in dict.fromkeys(MARKS))
                assert kept >= text.count(letter) - marks, text


def test_no_mark_begins_another() -> None:
    openings = [row.opening for row in (*CALLS, *THOUGHTS)]
    assert len(set(openings)) == len(openings)
    for one in openings:
        assert not [other for other in openings if other != one and other.startswith(one)]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "3", "3"),
        ({"type": "integer"}, "3", 3),
        ({"type": "number"}, "3.5", 3.5),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": "array"}, "[1]", [1]),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "75001", "75001"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "3", 3),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x", "x"),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({"type": "integer"}, "x", "x"),
        ({}, "3", 3),
        ({}, "x y", "x y"),
        ({}, '"q"', '"q"'),
    ],
)
def test_arguments_have_the_schema_s_types(schema: Any, text: str, value: Any) -> None:
    tools = [{"name": "f", "parameters": {"properties": {"a": schema}}}]
    xml = f"<tool_call><function=f><parameter=a>\n{text}\n</parameter></function></tool_call>"
    glm = f"<tool_call>f<arg_key>a</arg_key><arg_value>{text}</arg_value></tool_call>"
    for answer in (xml, glm):
        (call,) = answer_parts(answer, tools=tools).tool_calls
        assert call == ToolCall("f", {"a": value}) and type(call.arguments["a"]) is type(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: "[TOOL_CALLS]a" + " " * n + "x",
        lambda n: "[TOOL_CALLS]" * (n // 10),
        lambda n: '[TOOL_CALLS]a{"b":' * (n // 10),
        lambda n: '[TOOL_CALLS]a{}, {"b": " ' * (n // 10),
        lambda n: "[TOOL_CALLS]a[ARGS]" + '{"a":' * n,
        lambda n: "<tool_call>" * (n // 10),
        lambda n: "<tool_call>" * (n // 10) + "</tool_call>",
        lambda n: '<tool_call>{"a": "' + "</tool_call>" * (n // 10),
        lambda n: '<tool_call>{"a": "' + "</tool_call>" * (n // 10) + '"',
        lambda n: '<tool_call>{"a": "</tool_call>' * (n // 20),
        lambda n: "<tool_call>" + " " * n + "{</tool_call>" * 20,
        lambda n: "<function=f>" + "<parameter=a>" * (n // 10) + "</function>",
        lambda n: "<function=f>" * (n // 10),
        lambda n: "<tool_call>f" + "<arg_key>" * (n // 10) + "</tool_call>",
        lambda n: "<|tool_call_start|>[" + "f(a=1)," * (n // 10) + "<|tool_call_end|>",
        lambda n: "<|tool_call_start|>[f(a=" + "[" * n + "<|tool_call_end|>",
        lambda n: "<|tool_call_start|>[f(a='" + "\\" * n + "<|tool_call_end|>",
        lambda n: "<｜tool▁calls▁begin｜>" + "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}" * (n // 30),
        lambda n: "<think>a</think>" * (n // 16),
        lambda n: "x\n<think>" * (n // 9),
        lambda n: "<|channel|>" * (n // 10),
        lambda n: "<|channel|>final<|message|>a<|end|>" * (n // 30),
        lambda n: "```json" + " " * n + "[" + " " * n,
        lambda n: "{" * n,
        lambda n: " " * n + "x" + " " * n + "<",
        lambda n: "to=" + "a" * n,
        lambda n: "a\n" + "```tool_code\n" * (n // 10),
        lambda n: "functools[" * (n // 10),
    ],
)
def test_time_is_linear(make: Any, count_steps: Any) -> None:
    """Steps of Python, and the characters that regular expressions and searches may read."""

    def run(size: int) -> int:
        text = make(size)
        return int(count_steps(lambda: answer_parts(text, tools=TOOLS)))

    run(100)
    few, many = run(1000), run(4000)
    assert many < 4.8 * few + 2000


def byte_tokenizer(*added: str, special: bool = True) -> Any:
    """A tokenizer of bytes with added tokens."""
    from tokenizers.pre_tokenizers import ByteLevel

    vocab = {char: i for i, char in enumerate(sorted(ByteLevel.alphabet()))}
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    model: dict[str, Any] = {
        "type": "BPE",
        "vocab": vocab,
        "merges": [],
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
    }
    tokens = [
        {"id": 256 + i, "content": text, "special": special, **flags}
        for i, text in enumerate(added)
    ]
    file = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "normalizer": None,
        "pre_tokenizer": {**step, "use_regex": False},
        "post_processor": None,
        "decoder": {**step, "use_regex": True},
        "model": model,
        "added_tokens": tokens,
    }
    return load_tokenizer(json.dumps(file).encode())


HARMONY = (
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
    "<|constrain|>",
)


def test_a_mark_that_is_a_token_counts_only_as_one() -> None:
    tokenizer = byte_tokenizer(*HARMONY)
    marks = {tokenizer.token_to_id(text) for text in HARMONY}

    def ids(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    def spelled(text: str) -> list[int]:
        return [i for char in text for i in ids(char)]

    said = "the token <|channel|> begins é <|end|>"
    answer = ids(
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"
    )
    found = parts_of_tokens(tokenizer, set(), answer + spelled(said), [], True)
    assert (found.content, found.thinking) == (said, "hm") and marks & {*answer}
    call = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + ARGS
    found = parts_of_tokens(tokenizer, {ids("<|call|>")[0]}, ids(call + "<|call|>"), [], TOOLS)
    assert found.tool_calls == [WEATHER] and found.content == ""
    prompt = ids("<|start|>assistant<|channel|>analysis<|message|>")
    found = parts_of_tokens(tokenizer, set(), ids("hm<|end|>"), prompt, True)
    assert (found.content, found.thinking) == ("", "hm")
    # The sum of what each token adds is the whole.
    stream = AnswerTokens(tokenizer, set(), [], TOOLS)
    deltas = [*(stream.add(i) for i in answer + spelled(said)), stream.finish()]
    assert "".join(delta.content for delta in deltas) == said
    assert "".join(delta.thinking for delta in deltas) == "hm"


def test_a_prompt_may_begin_the_thought() -> None:
    for special in (True, False):
        tokenizer = byte_tokenizer("<think>", "</think>", "<|im_end|>", special=special)

        def ids(text: str, tokenizer: Any = tokenizer) -> list[int]:
            return list(tokenizer.encode(text, add_special_tokens=False).ids)

        answer = ids("hm</think>\n\nfour")
        for prompt in ("a<think>\n", "a<think>begun ", "<think>b</think>c<|im_end|><think>"):
            found = parts_of_tokens(tokenizer, set(), answer, ids(prompt), True)
            assert (found.content, found.thinking) == ("four", "hm")
        for prompt in ("<think>\n\n</think>\n\n", "say <think><|im_end|>a"):
            found = parts_of_tokens(tokenizer, set(), ids("four"), ids(prompt), True)
            assert (found.content, found.thinking) == ("four", "")
    # Where they are no tokens, the letters count.
    plain = byte_tokenizer()
    prompt_ids = plain.encode("<think>\n").ids
    found = parts_of_tokens(plain, set(), plain.encode("hm</think>four").ids, prompt_ids, True)
    assert (found.content, found.thinking) == ("four", "hm")


def test_a_model_streams_its_parts(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    model.template = ChatTemplate("{{ messages[0].content }}")
    ids = model.tokenizer.encode(f"<think>hm</think>Sure.{HERMES}", add_special_tokens=False).ids
    monkeypatch.setattr(model, "tokens", lambda *_, **__: (Token(i, "", 0.0) for i in ids))
    deltas = list(model.chat_parts([{"role": "user", "content": "a"}], tools=TOOLS))
    assert "".join(delta.thinking for delta in deltas) == "hm"
    assert "".join(delta.content for delta in deltas) == "Sure."
    assert [call for delta in deltas for call in delta.tool_calls] == [WEATHER, TIME]
