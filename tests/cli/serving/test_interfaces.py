"""Messages by Anthropic's client, responses by OpenAI's, and what Ollama and llama.cpp have."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import numpy as np
import openai
import pytest

pytestmark = pytest.mark.native

CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "the sky"}}\n</tool_call>'
SCHEMA: Any = {"type": "object", "properties": {"at": {"type": "string"}}}
SAID = f"Say: <think>hm</think>Well. {CALL}"


@pytest.fixture(scope="module")
def claude(running: Any) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=running.address, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def client(running: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.address}/v1", api_key="none", max_retries=0) as client:
        yield client


def said(client: anthropic.Anthropic, text: str, **options: Any) -> Any:
    given: dict[str, Any] = {"max_tokens": 200, **options}
    messages: Any = [{"role": "user", "content": text}]
    return client.messages.create(model="tiny", messages=messages, **given)


TOOL: Any = {"name": "look", "description": "looks", "input_schema": SCHEMA}


def test_a_message_has_blocks(claude: anthropic.Anthropic) -> None:
    answer = said(claude, SAID, tools=[TOOL])
    kinds = [block.type for block in answer.content]
    assert kinds == ["thinking", "text", "tool_use"] and answer.stop_reason == "tool_use"
    thought, words, call = answer.content
    assert (thought.thinking, words.text.strip()) == ("hm", "Well.")
    assert (call.name, call.input) == ("look", {"at": "the sky"})
    turn: Any = [
        {"role": "user", "content": SAID},
        {"role": "assistant", "content": [b.model_dump() for b in answer.content]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": call.id, "content": "blue"},
                {"type": "text", "text": "Say: thanks"},
            ],
        },
    ]
    after = claude.messages.create(model="tiny", max_tokens=50, messages=turn, tools=[TOOL])
    assert after.content[0].type == "text" and after.content[0].text == "thanks"
    assert after.stop_reason == "end_turn"


def test_a_stream_of_a_message_equals_it(claude: anthropic.Anthropic) -> None:
    for text in (SAID, "Say: words", "Say: <tool_call>\n{broken"):
        whole = said(claude, text, tools=[TOOL])
        messages: Any = [{"role": "user", "content": text}]
        with claude.messages.stream(
            model="tiny", max_tokens=200, messages=messages, tools=[TOOL]
        ) as stream:
            streamed = stream.get_final_message()
        assert [_plain(b) for b in streamed.content] == [_plain(b) for b in whole.content]
        assert streamed.stop_reason == whole.stop_reason
        assert streamed.usage.output_tokens == whole.usage.output_tokens


def _plain(block: Any) -> Any:
    return {k: v for k, v in block.model_dump(exclude_none=True).items() if k != "id"}


def test_stops_limits_and_counts_of_messages(claude: anthropic.Anthropic) -> None:
    answer = said(claude, "Say: one STOP two", stop_sequences=["STOP"])
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "STOP")
    assert answer.content[0].text == "one "
    assert said(claude, "Say: one two", max_tokens=3).stop_reason == "max_tokens"
    system: Any = [{"type": "text", "text": "Be brief."}]
    count = claude.messages.count_tokens(
        model="tiny", system=system, messages=[{"role": "user", "content": "Hello"}]
    )
    first = said(claude, "Hello", system=system, max_tokens=2)
    assert count.input_tokens == first.usage.input_tokens + first.usage.cache_read_input_tokens
    one = said(claude, f"Say: {CALL}{CALL}", tools=[TOOL],
               tool_choice={"type": "auto", "disable_parallel_tool_use": True})  # fmt: skip
    assert [b.type for b in one.content] == ["tool_use"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tool_choice": {"type": "tool", "name": "other"}, "tools": [TOOL]}, "tool_choice is"),
        ({"extra_body": {"temperature": 1.5}}, "temperature is 1.5"),
        ({"extra_body": {"colour": 1}}, "unrecognized field colour"),
        ({"system": [{"type": "image"}]}, r"system\[0\].type"),
    ],
)
def test_errors_of_messages(claude: anthropic.Anthropic, options: Any, words: str) -> None:
    with pytest.raises(anthropic.BadRequestError, match=words) as refused:
        said(claude, "x", **options)
    assert refused.value.body["error"]["type"] == "invalid_request_error"  # type: ignore[index]


def test_a_model_that_is_not_there(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError):
        messages: Any = [{"role": "user", "content": "x"}]
        claude.messages.create(model="other", max_tokens=5, messages=messages)


FUNCTION: Any = {"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}


def test_responses(client: openai.OpenAI) -> None:
    whole = client.responses.create(model="tiny", input=SAID, tools=[FUNCTION])
    assert [item.type for item in whole.output] == ["reasoning", "message", "function_call"]
    assert whole.status == "completed" and whole.output_text.strip() == "Well."
    with client.responses.stream(model="tiny", input=SAID, tools=[FUNCTION]) as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_response()
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    assert [_item(i) for i in streamed.output] == [_item(i) for i in whole.output]
    call = whole.output[2]
    assert call.type == "function_call" and json.loads(call.arguments) == {"at": "the sky"}
    items: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
        *(item.model_dump(exclude_none=True) for item in whole.output),
        {"type": "function_call_output", "call_id": call.call_id, "output": "blue"},
        {"role": "user", "content": "Say: thanks"},
    ]
    after = client.responses.create(model="tiny", input=items, instructions="Be brief.")
    assert after.output_text == "thanks"
    cut = client.responses.create(model="tiny", input="Say: thanks", max_output_tokens=3)
    assert cut.status == "incomplete" and cut.output_text == "tha"
    assert cut.incomplete_details and cut.incomplete_details.reason == "max_output_tokens"
    with pytest.raises(openai.BadRequestError, match="nothing is stored"):
        client.responses.create(model="tiny", input="x", previous_response_id="resp_1")


def _item(item: Any) -> Any:
    kept = item.model_dump(exclude_none=True)
    return {k: v for k, v in kept.items() if k in ("type", "content", "name", "arguments")}


def test_completions(client: openai.OpenAI, running: Any) -> None:
    model = running.server.models[0].model
    text = "".join(model.generate("a rush", max_new_tokens=6))
    prompts: Any = ["a rush", "a light"]
    both = client.completions.create(model="tiny", prompt=prompts, max_tokens=6, echo=True)
    assert both.choices[0].text == f"a rush{text}" and len(both.choices) == 2
    ids: Any = model.prompt_ids("a rush")
    found = ""
    for chunk in client.completions.create(model="tiny", prompt=ids, max_tokens=6, stream=True):
        found += chunk.choices[0].text
    assert found == text
    rows = client.completions.create(model="tiny", prompt="a rush", max_tokens=6, logprobs=1)
    assert rows.choices[0].logprobs and len(rows.choices[0].logprobs.tokens or ()) == 6
    stopped = client.completions.create(model="tiny", prompt="Say: a STOP b", stop="STOP")
    assert stopped.choices[0].text == "a " and stopped.choices[0].finish_reason == "stop"


def test_embeddings(client: openai.OpenAI, running: Any) -> None:
    model = running.server.models[0].model
    texts = ["a light", "a rush"]
    expected = model.encode(texts).numpy()
    found = client.embeddings.create(model="tiny", input=texts)  # base64, which the client asks for
    assert np.array([row.embedding for row in found.data]) == pytest.approx(expected, abs=1e-6)
    plain = client.embeddings.create(model="tiny", input=texts, encoding_format="float")
    assert np.array(plain.data[1].embedding) == pytest.approx(expected[1], abs=1e-6)
    short = client.embeddings.create(model="tiny", input="a light", dimensions=4)
    assert np.array(short.data[0].embedding) == pytest.approx(
        model.encode("a light", dim=4).numpy(), abs=1e-6
    )
    with pytest.raises(openai.BadRequestError, match=r"input\[1\] has 3\d\d\d tokens, but .* 2048"):
        client.embeddings.create(model="tiny", input=["x", "y" * 3000])
    with pytest.raises(openai.BadRequestError, match="dimensions is 999"):
        client.embeddings.create(model="tiny", input="x", dimensions=999)


def test_ollama(http: httpx.Client) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
    body: Any = {"model": "tiny:latest", "messages": [{"role": "user", "content": SAID}],
                 "tools": [tool]}  # fmt: skip
    rows = [json.loads(line) for line in http.post("/api/chat", json=body).text.splitlines()]
    whole = http.post("/api/chat", json={**body, "stream": False}).json()
    for key in ("content", "thinking"):
        assert "".join(r["message"].get(key, "") for r in rows) == whole["message"][key]
    (call,) = whole["message"]["tool_calls"]
    assert call["function"] == {"name": "look", "arguments": {"at": "the sky"}}
    assert rows[-1]["done"] and rows[-1]["eval_count"] == whole["eval_count"] > 0
    options = {"num_predict": 3, "temperature": 0, "num_ctx": 4096}
    made = http.post(
        "/api/generate",
        json={"model": "tiny", "prompt": "Say: abcdef", "stream": False, "options": options},
    ).json()
    assert (made["response"], made["done_reason"]) == ("abc", "length")
    raw = {"model": "tiny", "prompt": "Say: ab", "raw": True, "stream": False}
    assert http.post("/api/generate", json=raw).json()["response"] == "ab"
    assert http.get("/api/tags").json()["models"][0]["name"] == "tiny:latest"
    assert "completion" in http.post("/api/show", json={"model": "tiny"}).json()["capabilities"]
    width = len(http.post("/api/embed", json={"input": "a"}).json()["embeddings"][0])
    assert width == 32
    wrong = http.post("/api/chat", json={"model": "other", "messages": []})
    assert wrong.status_code == 404 and "not served" in wrong.json()["error"]


def test_what_the_server_tells(http: httpx.Client) -> None:
    assert http.get("/health").json() == {"status": "ok"}
    props = http.get("/props").json()
    assert props["default_generation_settings"]["n_ctx"] == 2048 and "limits" in props
    end = time.monotonic() + 120  # an answer may be here before its work is put away
    while (slots := [slot["is_processing"] for slot in http.get("/slots").json()]) != [False] * 4:
        assert time.monotonic() < end, slots
    text = http.get("/metrics").text
    assert "\nllamacpp:tokens_predicted_total " in text and "# TYPE" in text
    assert "tiny" in http.get("/").text
    ids = http.post("/tokenize", json={"content": "a rush"}).json()["tokens"]
    assert http.post("/detokenize", json={"tokens": ids}).json() == {"content": "a rush"}
    messages = [{"role": "user", "content": "Hi"}]
    made = http.post("/apply-template", json={"messages": messages}).json()
    assert made["prompt"] == "<s>user: Hi</s><s>assistant:"
    for path in ("/v1/rerank", "/v1/chat/completions"):
        assert http.get(path).status_code == 405
    missing = http.post("/v1/rerank", json={"query": "a", "documents": ["b"]})
    assert missing.status_code in (200, 400)
