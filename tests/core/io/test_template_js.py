"""The tab's chat templates under Node against jinja2, on published templates and small ones."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.template import ChatTemplate

pytestmark = pytest.mark.native

HERE = Path(__file__).parent


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"of_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


SMALL = _module(HERE / "test_template.py")
ORACLE = _module(HERE.parents[1] / "parity" / "make_template_snippets.py")

USER = {"role": "user", "content": "Hello, 'wörld' 😀\n  x "}
ANSWER = {"role": "assistant", "content": "Hi there."}
SYSTEM = {"role": "system", "content": "Be <brief> & kind."}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Get it",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where"},
                    "days": {"type": "integer", "enum": [1, 2]},
                },
                "required": ["city"],
            },
        },
    }
]
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {
            "id": "call12345",
            "type": "function",
            "function": {"name": "weather", "arguments": {"city": "Köln", "days": 1.0}},
        }
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call12345", "name": "weather", "content": '{"t": 12}'}
PARTS = [{"type": "text", "text": "part"}, {"type": "text", "text": "two"}]
THOUGHT = {
    "role": "assistant",
    "content": "<think>\nhm\n</think>\n\nyes",
    "reasoning_content": "hm",
}

CONVERSATIONS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "system": ([SYSTEM, USER], {}),
    "no system": ([USER], {}),
    "several turns": ([SYSTEM, USER, ANSWER, USER], {}),
    "ends with an answer": ([USER, ANSWER, USER, ANSWER], {"add_generation_prompt": False}),
    "no thinking": ([USER, ANSWER, USER], {"enable_thinking": False}),
    "thoughts": ([USER, THOUGHT, USER], {}),
    "tools": ([SYSTEM, USER], {"tools": TOOLS}),
    "a call": ([USER, CALL, RESULT], {"tools": TOOLS}),
    "calls": (
        [SYSTEM, USER, CALL, RESULT, ANSWER, USER],
        {"tools": TOOLS, "enable_thinking": True},
    ),
    "answer first": ([ANSWER, USER], {}),
    "two systems": ([SYSTEM, SYSTEM, USER], {}),
    "nothing": ([], {}),
    "parts": ([{"role": "user", "content": PARTS}], {}),
    "an unknown role": ([{"role": "narrator", "content": "x"}], {}),
    "no content": ([{"role": "user"}], {}),
}  # fmt: skip

# Where the bounds change what jinja2 gives: a lazy result is a list here, so that it has JSON; and
# text that is marked as safe is text, which jinja2 would go on to escape.
LENIENT = {
    (file, name)
    for file in ("llama-cpp-deepseek-r1.jinja", "meetkai-functionary-medium-v3.1.jinja")
    for name in ("tools", "a call", "calls")
}


def test_published_templates(node: Any, llama_cpp_models: Path) -> None:
    files = sorted((llama_cpp_models / "templates").glob("*.jinja"))
    assert len(files) == 70
    texts = 0
    for file in files:
        source = file.read_text(encoding="utf-8")
        native = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
        tab = ChatTemplate.__new__(ChatTemplate)
        tab.bos_token, tab.eos_token, tab._render = "<s>", "</s>", node.template(source)
        for name, (messages, extra) in CONVERSATIONS.items():
            what = f"{file.name}, {name}"
            plain = ORACLE.rendered(
                source,
                **{"messages": messages, "bos_token": "<s>", "eos_token": "</s>", **extra},
            )
            try:
                expected = native.render(messages, **extra)
            except FormatError as error:
                assert plain is None, what
                with pytest.raises(FormatError) as found:
                    tab.render(messages, **extra)
                line = str(error).partition(":")[0]
                assert str(found.value).partition(":")[0] == line, what
                continue
            texts += 1
            assert tab.render(messages, **extra) == expected, what
            if (file.name, name) not in LENIENT:
                assert expected == plain, what
    assert texts > 700


@pytest.mark.parametrize(("source", "expected"), SMALL.SNIPPETS, ids=range(len(SMALL.SNIPPETS)))
def test_small_templates(node: Any, source: str, expected: str | None) -> None:
    tab = ChatTemplate.__new__(ChatTemplate)
    tab.bos_token = tab.eos_token = ""
    if expected is not None:
        tab._render = node.template(source)
        assert tab.render(SMALL.MESSAGES) == expected
        return
    with pytest.raises(FormatError) as own:
        ChatTemplate(source).render(SMALL.MESSAGES)
    with pytest.raises(FormatError) as found:
        tab._render = node.template(source)
        tab.render(SMALL.MESSAGES)
    assert str(found.value).partition(":")[0] == str(own.value).partition(":")[0]


@pytest.mark.parametrize("name", SMALL.HOSTILE)
def test_a_hostile_template_ends(node: Any, name: str) -> None:
    if name in ("many blanks", "a long source"):
        return  # refused before either engine sees it, as test_template.py checks
    # It is stopped by its bounds of steps, text and time: without them it would not end.
    with pytest.raises(FormatError, match="^chat template, line [12]: "):
        node.template(SMALL.HOSTILE[name])({"messages": SMALL.MESSAGES})


def test_syntax_that_the_tab_does_not_support_is_refused(node: Any) -> None:
    """The parser of the tab is smaller; what it lacks is an error there, not another text."""
    lacking = (
        "{{ 1e3 }}",
        "{{ 1_000 }}",
        "{{ é }}",
        "{{ 1 is number | string }}",
        "{% for x in [1] %}{{ loop.changed(x) }}{% endfor %}",
    )
    for source in lacking:
        with pytest.raises(FormatError, match="line 1: "):
            node.template(source)({})


@pytest.mark.parametrize(
    ("part", "count", "end"),
    [
        ("{#", 32_000, " raw"),
        ("{%raw%}", 9_300, ""),
        ("1 is eq(", 7_000, " }}"),
        ("(", 60_000, " }}"),
        ("(1,", 20_000, " }}"),
        ("(),", 20_000, ") }}"),
        ("1 is in [", 7_000, "]" * 2_000 + " }}"),
        ("{% with a = 1 %}", 4_000, ""),
        ("{% filter a|b|c|d %}", 3_000, ""),
    ],
)
def test_much_of_what_is_rewritten_takes_steps_in_proportion(
    counting_node: Any, part: str, count: int, end: str
) -> None:
    def source(count: int) -> str:
        return (part if part.startswith("{") else "{{ f(" + part) + part * (count - 1) + end

    assert len(source(count)) <= 1 << 16
    with pytest.raises(FormatError, match="^chat template, line 1: "):
        counting_node.template(source(count))({"messages": []})
    quarter = counting_node("steps", "template", source(count // 4))
    assert 0 < counting_node("steps", "template", source(count)) < 5 * quarter


@pytest.mark.parametrize(
    "source", ["{{ 1 < 2 < 3 }}", "{{ 1 in [1] == true }}", "{{ 1 not in [2] in [3] }}"]
)
def test_comparisons_of_three_are_refused_in_both(node: Any, source: str) -> None:
    for load in (ChatTemplate, node.template):
        with pytest.raises(FormatError, match="line 2: a comparison has two sides here; use and"):
            load(f"a\n{source}")


def test_values_arrive_as_they_left(node: Any) -> None:
    value = {"b": [1, 1.0, -0.0, 1e300, float("inf"), None, True, "é\u2028"], "1": (1, ()), "a": {}}
    tab = node.template("{{ x }}")
    assert tab({"x": value}) == str(value)
    assert json.loads(node.template("{{ x | tojson }}")({"x": {"2": 1, "1": 2}})) == {
        "2": 1,
        "1": 2,
    }
    assert node.template("{{ x | tojson }}")({"x": {"2": 1, "1": 2}}) == '{"2": 1, "1": 2}'
