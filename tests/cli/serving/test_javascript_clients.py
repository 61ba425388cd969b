"""OpenAI's client for JavaScript and Vercel's AI SDK hold the conversations of clients.mjs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.native

PROGRAM = Path(__file__).with_name("clients.mjs")
CALLS = [["look", {"at": "the sky"}], ["add", {"a": 1, "b": 2}]]
FUNCTIONS = [{"name": name, "arguments": arguments} for name, arguments in CALLS]


@pytest.fixture(scope="module")
def lines(running: Any) -> dict[str, Any]:
    """What each case gives."""
    done = subprocess.run(
        ["node", str(PROGRAM), running.address], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_openai(lines: dict[str, Any], running: Any) -> None:
    served = running.server.models[0].model
    text = "".join(served.chat([{"role": "user", "content": "Hello"}], max_new_tokens=12))

    def answer(content: str, reason: str = "stop", **more: Any) -> dict[str, Any]:
        return {"content": content, "thinking": "", "calls": [], "reason": reason, **more}

    expected: dict[str, Any] = {
        "models": ["tiny"],
        "a model": "tiny",
        "answer": answer(text, "length"),
        "words": answer("plain words, é 灯"),
        "streamed words": answer("plain words, é 灯", done=[]),
        "stop": answer("one "),
        "streamed stop": answer("one ", done=[]),
        "after calls": answer("done"),
        "usage": 5,
        "logprobs": [2, 2, 2],
        "several answers": [0, 1, 2],
        "an answer by a schema": True,
        "embeddings": {"width": [32, 32], "near": True},
        "responses": {"text": "thanks", "status": "completed"},
        "streamed responses": {"first": "response.created", "text": "thanks"},
        "completions": "ab",
        "aborted": True,
    }
    assert {name: lines[name].get("value", lines[name]) for name in expected} == expected


def test_calls_and_thoughts(lines: dict[str, Any]) -> None:
    called = {"calls": FUNCTIONS, "reason": "tool_calls"}
    for name, done in (("calls", None), ("streamed calls", ["look", "add"])):
        value = lines[name]["value"]
        for call in value["calls"]:
            call["arguments"] = json.loads(call["arguments"])
        assert value["content"].strip() == "Well."
        assert {key: value[key] for key in called} == called and value.get("done") == done
    # The client's helper for streams keeps the last delta of a field that is not OpenAI's.
    assert lines["calls"]["value"]["thinking"] == "hm"
    assert [call["name"] for call in lines["one call"]["value"]["calls"]] == ["look"]
    assert lines["no call"]["value"]["calls"] == []
    cut = lines["a call that is cut"]["value"]
    assert cut["content"].startswith("<tool_call>") and not cut["calls"]


def test_errors_name_what_is_wrong(lines: dict[str, Any]) -> None:
    for name, words in {
        "an unknown field": "400 unrecognized field colour",
        "a temperature out of range": "temperature is 3; it must be a number from 0 to 2",
        "an unknown model": "404 model 'other' is not served; supported: tiny",
        "a prompt past the context": "2048",
        "sdk: an error": "temperature is 3; it must be a number from 0 to 2",
    }.items():
        assert words in lines[name]["error"], name


def test_the_ai_sdk(lines: dict[str, Any]) -> None:
    plain = {"text": "plain words", "finishReason": "stop"}
    assert lines["sdk: text"]["value"] == lines["sdk: streamed text"]["value"] == plain
    assert lines["sdk: calls"]["value"] == {
        "text": "Well.", "thinking": "hm", "calls": CALLS, "results": ["the sky is blue", 3],
    }  # fmt: skip
    assert lines["sdk: streamed calls"]["value"] == {"kinds": ["look", "add"], "thinking": "hm"}
    talk = lines["sdk: a conversation with tools"]["value"]
    assert talk == {"steps": 2, "first": "the sky is blue"}
    assert lines["sdk: an object"]["value"] is True
