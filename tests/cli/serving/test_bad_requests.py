"""Wrong requests, hundreds of them, drawn by a seed: each gets an error of its interface."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.native

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
MESSAGES = [
    {"role": "system", "content": "a"},
    {"role": "user", "content": [{"type": "text", "text": "b"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "c"},
    {"role": "user", "content": "Say: d"},
]
CHAT = {
    "model": "tiny", "messages": MESSAGES, "tools": [TOOL], "max_tokens": 2, "temperature": 0.5,
    "top_p": 0.9, "n": 1, "stop": ["x"], "seed": 1, "logit_bias": {"5": 1}, "stream": False,
    "stream_options": {"include_usage": True}, "logprobs": True, "parallel_tool_calls": True,
    "chat_template_kwargs": {"a": 1}, "response_format": {"type": "text"}, "user": "me",
}  # fmt: skip
CLAUDE = {
    "model": "tiny", "max_tokens": 2, "system": [{"type": "text", "text": "a"}],
    "messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f",
                                           "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "b"},
                                     {"type": "text", "text": "Say: d"}]},
    ],
    "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "auto"},
    "stop_sequences": ["x"], "temperature": 0.5, "top_k": 3, "thinking": {"type": "disabled"},
}  # fmt: skip
RESPONSES = {
    "model": "tiny", "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]},
                               {"type": "function_call", "call_id": "1", "name": "f",
                                "arguments": "{}"},
                               {"type": "function_call_output", "call_id": "1", "output": "b"}],
    "instructions": "c", "max_output_tokens": 2, "tools": [{"type": "function", "name": "f"}],
    "text": {"format": {"type": "text"}}, "reasoning": {"effort": "low"}, "temperature": 1,
}  # fmt: skip
OLLAMA = {
    "model": "tiny", "messages": [{"role": "user", "content": "Say: a", "images": []}],
    "options": {"num_predict": 2, "temperature": 0.5, "seed": 1, "stop": ["x"], "top_k": 2},
    "stream": False, "think": False, "tools": [TOOL],
}  # fmt: skip
BODIES: dict[str, Any] = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": CLAUDE,
    "/v1/responses": RESPONSES,
    "/api/chat": OLLAMA,
    "/api/generate": {"prompt": "Say: a", "options": {"num_predict": 2}, "stream": False},
    "/v1/completions": {"prompt": ["Say: a", "b"], "max_tokens": 2, "n": 2, "echo": True},
    "/v1/embeddings": {"input": ["a", "b"], "dimensions": 4, "encoding_format": "float"},
    "/tokenize": {"content": "a", "add_special": True},
    "/detokenize": {"tokens": [1, 2]},
    "/apply-template": {"messages": MESSAGES},
}
WRONG: list[Any] = [
    None, True, -1, 0, 1.5, 1e308, 10**30, "", "\ud800", "x" * 300, [], {}, [[]], [None], {"": {}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}, "NaN",
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values of a body."""
    yield path
    rows: Any = enumerate(value) if isinstance(value, list) else ()
    for key, inner in value.items() if isinstance(value, dict) else rows:
        yield from places(inner, (*path, key))


def changed(body: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = json.loads(json.dumps(body))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if new is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return copy


def error_of(path: str, answer: httpx.Response) -> str:
    """The words of an error in the interface's shape."""
    body = answer.json()
    if path.startswith("/v1/messages"):
        assert body["type"] == "error" and body["error"]["type"]
        return str(body["error"]["message"])
    words = body["error"] if path.startswith("/api/") else body["error"]["message"]
    assert isinstance(words, str) and words
    return str(words)


@pytest.mark.parametrize("path", BODIES)
def test_a_changed_body_gets_an_answer_or_an_error_of_the_interface(
    http: httpx.Client, path: str
) -> None:
    body, draw = BODIES[path], random.Random(path)
    assert http.post(path, json=body).status_code == 200
    every, refused = list(places(body)), 0
    for _ in range(40):
        place = draw.choice(every)
        new = draw.choice([*WRONG, ...]) if place else draw.choice(WRONG)
        raw = json.dumps(changed(body, place, new))
        answer = http.post(path, content=raw, headers={"Content-Type": "application/json"})
        assert answer.status_code in (200, 400, 404), (raw, answer.text)
        if answer.status_code != 200:
            refused += 1
            error_of(path, answer)
    assert refused > 10


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat"])
def test_what_is_no_json(http: httpx.Client, path: str) -> None:
    draw = random.Random(3)
    text = json.dumps(BODIES[path])
    raws = [b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"a":NaN}', b"[" * 5000, b'{"a":' * 5000,
            b'{"messages": Infinity}']  # fmt: skip
    raws += [text[: draw.randrange(1, len(text))].encode() for _ in range(8)]
    for raw in raws:
        answer = http.post(path, content=raw, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, raw[:80]
        error_of(path, answer)


def test_bodies_and_lists_have_bounds(http: httpx.Client, running: Any) -> None:
    most = running.server.limits.body
    running.server.limits.body = 1000
    try:
        for raw in (b" " * 2000, iter([b" " * 600] * 3)):
            answer = http.post(
                "/tokenize", content=raw, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 413 and "at most 1000" in answer.text
    finally:
        running.server.limits.body = most
    many = {"messages": [{"role": "user", "content": "a"}] * 5000}
    answer = http.post("/v1/chat/completions", json=many)
    assert answer.status_code == 400 and "has 5000 items; at most 4096" in answer.text
    answer = http.post("/v1/embeddings", json={"input": ["a"] * 3000})
    assert answer.status_code == 400 and "at most 2048" in answer.text
