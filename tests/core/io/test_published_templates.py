"""Published chat templates: within the bounds they give what plain jinja2 gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from rushlight.core.basis.errors import FormatError
from rushlight.core.io.text.sandbox_meter import MEMORY, STEPS, Meter
from rushlight.core.io.text.template import ChatTemplate

pytestmark = pytest.mark.native

HERE = Path(__file__).parent


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"of_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


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
}

# Where the bounds change what jinja2 gives: a lazy result is a list here, so that it has JSON; and
# text that is marked as safe is text, which jinja2 would go on to escape.
LENIENT = {
    (file, name)
    for file in ("llama-cpp-deepseek-r1.jinja", "meetkai-functionary-medium-v3.1.jinja")
    for name in ("tools", "a call", "calls")
}


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the bound of time, which a busy machine may reach: what is counted is the same."""
    monkeypatch.setattr("rushlight.core.io.text.sandbox_meter.SECONDS", 1e9)


def test_published_templates(llama_cpp_models: Path) -> None:
    files = sorted((llama_cpp_models / "templates").glob("*.jinja"))
    assert len(files) == 70
    texts = 0
    for file in files:
        source = file.read_text(encoding="utf-8")
        template = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
        for name, (messages, extra) in CONVERSATIONS.items():
            what = f"{file.name}, {name}"
            plain = ORACLE.rendered(
                source,
                **{"messages": messages, "bos_token": "<s>", "eos_token": "</s>", **extra},
            )
            try:
                found = template.render(messages, **extra)
            except FormatError:
                assert plain is None, what
                continue
            texts += 1
            if (file.name, name) not in LENIENT:
                assert found == plain, what
    assert texts > 700


def test_a_long_conversation_takes_a_small_part_of_the_bounds(
    llama_cpp_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meters = []

    class Kept(Meter):
        def __init__(self) -> None:
            super().__init__()
            meters.append(self)

    monkeypatch.setattr("rushlight.core.io.text.sandbox.Meter", Kept)
    messages = [USER | {"content": "word " * 400}, ANSWER | {"content": "word " * 400}] * 30
    for file in sorted((llama_cpp_models / "templates").glob("*.jinja")):
        template = ChatTemplate(file.read_text(encoding="utf-8"))
        try:
            text = template.render(messages, tools=TOOLS)
        except FormatError as error:
            assert "more than" not in str(error), file.name
            continue
        assert len(text) >= 30 * 2000, file.name  # some leave the answers out
        # The most is for one that adds each message to a copy of all before.
        assert meters[-1].steps > 0.85 * STEPS and meters[-1].memory > 0.85 * MEMORY, file.name
