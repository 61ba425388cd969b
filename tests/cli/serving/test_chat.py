"""Chat completions by OpenAI's own client: words, thoughts, calls, streams, caches, limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

pytestmark = pytest.mark.native

ASK = "Say: "
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "the sky"}}\n</tool_call>'
TWO = f'{CALL}\n<tool_call>\n{{"name": "add", "arguments": {{"a": 1, "b": 2}}}}\n</tool_call>'
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "does so",
            "parameters": {"type": "object", "properties": {k: {"type": t} for k, t in keys}},
        },
    }
    for name, keys in (
        ("look", [("at", "string")]),
        ("add", [("a", "integer"), ("b", "integer")]),
    )
]


@pytest.fixture
def client(running: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.address}/v1", api_key="none", max_retries=0) as client:
        yield client


def user(text: str) -> Any:
    return [{"role": "user", "content": text}]


def ask(client: openai.OpenAI, text: str, **options: Any) -> Any:
    return client.chat.completions.create(model="tiny", messages=user(text), **options)


def folded(stream: Any) -> tuple[str, str, list[tuple[str, str]], str | None]:
    """Content, thoughts, calls and the reason of a stream of chunks."""
    content, thinking, reason = "", "", None
    calls: list[list[str]] = []
    for chunk in stream:
        for choice in chunk.choices:
            delta = choice.delta
            content += delta.content or ""
            thinking += getattr(delta, "reasoning_content", None) or ""
            for call in delta.tool_calls or ():
                if call.id:  # the first delta of a call has its index, id and name
                    assert call.index == len(calls) and call.function.name
                    calls.append([call.function.name, ""])
                calls[call.index][1] += call.function.arguments or ""
            reason = choice.finish_reason or reason
    return content, thinking, [(name, text) for name, text in calls], reason


def parts(answer: Any) -> tuple[str, str, list[tuple[str, str]], str | None]:
    (choice,) = answer.choices
    message = choice.message
    calls = [(c.function.name, c.function.arguments) for c in message.tool_calls or ()]
    thinking = getattr(message, "reasoning_content", None) or ""
    return message.content or "", thinking, calls, choice.finish_reason


def test_an_answer_equals_generation(client: openai.OpenAI, running: Any) -> None:
    model = running.server.models[0].model
    text = "".join(model.chat(user("Hello"), max_new_tokens=12))
    answer = ask(client, "Hello", max_tokens=12)
    assert answer.choices[0].message.content == text
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 12
    assert answer.usage.prompt_tokens == len(model.chat_ids(user("Hello")))
    assert answer.object == "chat.completion" and answer.model == "tiny"


@pytest.mark.parametrize("said", [
    "plain words, é 灯", f"<think>why\nnot</think>Yes. {CALL}", TWO, f"I call {CALL} and go on",
    "<tool_call>\n{broken", '<tool_call>{"name": "look", "arguments": {"at":',
    '{"name": "add", "arguments": {"a": 1, "b": 2}}', "<think>without an end", "", "a </think> b",
])  # fmt: skip
def test_a_stream_equals_the_object(client: openai.OpenAI, said: str) -> None:
    for most in (None, *range(1, len(said) + 1, max(1, len(said) // 4))):
        options: dict[str, Any] = {"tools": TOOLS} if most is None else {
            "tools": TOOLS, "max_tokens": most,
        }  # fmt: skip
        at_once = parts(ask(client, ASK + said, **options))
        assert folded(ask(client, ASK + said, stream=True, **options)) == at_once
        content, thinking, calls, reason = at_once
        assert reason in ("stop", "length", "tool_calls")
        if reason == "tool_calls":
            assert calls
        if said.startswith("<tool_call>") and not calls:  # what is no call stays content
            assert content and said.startswith(content.strip())


def test_calls_and_thoughts(client: openai.OpenAI) -> None:
    answer = ask(client, f"{ASK}<think>hm</think>Well. {TWO}", tools=TOOLS)
    content, thinking, calls, reason = parts(answer)
    assert (content.strip(), thinking, reason) == ("Well.", "hm", "tool_calls")
    assert [(name, json.loads(text)) for name, text in calls] == [
        ("look", {"at": "the sky"}), ("add", {"a": 1, "b": 2}),
    ]  # fmt: skip
    assert answer.usage.completion_tokens_details.reasoning_tokens > 0
    ids = [call.id for call in answer.choices[0].message.tool_calls]
    assert len(set(ids)) == 2
    again = user("x") + [answer.choices[0].message.model_dump(exclude_none=True)]
    again += [{"role": "tool", "tool_call_id": id, "content": "3"} for id in ids]
    after = client.chat.completions.create(
        model="tiny", messages=[*again, *user(f"{ASK}done")], tools=TOOLS
    )
    assert parts(after)[0] == "done"


def test_the_stream_helper_puts_two_calls_together(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="tiny", messages=user(ASK + TWO), tools=TOOLS
    ) as stream:
        done = [
            event.name for event in stream if event.type == "tool_calls.function.arguments.done"
        ]
        message = stream.get_final_completion().choices[0].message
    assert done == ["look", "add"] and message.tool_calls and len(message.tool_calls) == 2


def test_how_calls_are_chosen_is_obeyed_or_refused(client: openai.OpenAI) -> None:
    one = ask(client, ASK + TWO, tools=TOOLS, parallel_tool_calls=False)
    assert [name for name, _ in parts(one)[2]] == ["look"] and parts(one)[3] == "tool_calls"
    none = parts(ask(client, ASK + TWO, tools=TOOLS, tool_choice="none"))
    assert none[2] == [] and none[3] == "stop" and none[0] == TWO
    named: Any = {"type": "function", "function": {"name": "look"}}
    for choice in ("required", named):
        told = parts(ask(client, "x", tools=TOOLS, tool_choice=choice, max_tokens=400))
        assert told[2] or told[3] == "length"
        assert all(isinstance(json.loads(text), dict) for _, text in told[2])
    unknown: Any = {"type": "function", "function": {"name": "other"}}
    with pytest.raises(openai.BadRequestError, match="tool_choice is"):
        ask(client, "x", tools=TOOLS, tool_choice=unknown)
    with pytest.raises(openai.BadRequestError, match="two tools of the name 'look'"):
        ask(client, "x", tools=[TOOLS[0], TOOLS[0]])


def test_a_stop_text_cuts_the_content(client: openai.OpenAI) -> None:
    for stop in ("STOP", ["nothing", "STOP"]):
        for stream in (False, True):
            answer = ask(client, f"{ASK}one STOP two", stop=stop, stream=stream)
            found = folded(answer) if stream else parts(answer)
            assert found == ("one ", "", [], "stop")
    assert parts(ask(client, f"{ASK}one STO", stop="STOP")) == ("one STO", "", [], "stop")


def test_seeds_and_several_answers(client: openai.OpenAI) -> None:
    options: Any = {"temperature": 1.5, "max_tokens": 10, "seed": 7}
    first = ask(client, "draw", n=3, **options)
    texts = [choice.message.content for choice in first.choices]
    assert [choice.index for choice in first.choices] == [0, 1, 2] and len(set(texts)) > 1
    again = ask(client, "draw", n=3, stream=True, **options)
    streamed = ["", "", ""]
    for chunk in again:
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts
    assert 20 < first.usage.completion_tokens <= 30
    assert ask(client, "draw", **options).choices[0].message.content == texts[0]


def test_logprobs_and_usage(client: openai.OpenAI, running: Any) -> None:
    answer = ask(client, "Hello", max_tokens=5, logprobs=True)
    model = running.server.models[0].model
    tokens = list(model.tokens(model.chat_ids(user("Hello")), max_new_tokens=5))
    rows = answer.choices[0].logprobs.content
    assert [row.logprob for row in rows] == pytest.approx([t.logprob for t in tokens], abs=1e-4)
    chunks = list(ask(client, "Hello", max_tokens=5, logprobs=True, stream=True,
                      stream_options={"include_usage": True}))  # fmt: skip
    streamed = [r for c in chunks for o in c.choices if o.logprobs for r in o.logprobs.content]
    assert [row.token for row in streamed] == [row.token for row in rows]
    assert chunks[-1].usage.completion_tokens == 5 and not chunks[-1].choices
    told = ask(client, "Hello", max_tokens=2, logprobs=True, top_logprobs=3)
    assert [len(row.top_logprobs) for row in told.choices[0].logprobs.content] == [3, 3]


def test_the_next_turn_reads_what_is_new(client: openai.OpenAI) -> None:
    talk = user("a light of rush " * 80)
    first = client.chat.completions.create(model="tiny", messages=talk, max_tokens=8)
    ask(client, "another talk between", max_tokens=4)
    talk += [{"role": "assistant", "content": first.choices[0].message.content}, *user("more")]
    second = client.chat.completions.create(model="tiny", messages=talk, max_tokens=8)
    assert first.usage and second.usage and second.usage.prompt_tokens_details
    cached = second.usage.prompt_tokens_details.cached_tokens or 0
    assert cached >= first.usage.prompt_tokens - 1 > 1000
    assert second.usage.prompt_tokens - cached < 100


def test_a_prompt_past_the_context_is_refused_with_both_counts(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, "x" * 3000)
    assert refused.value.code == "context_length_exceeded"
    assert "has 30" in refused.value.message and "2048" in refused.value.message
    answer = ask(client, "y" * 2020)  # an answer fills the context and ends
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.total_tokens == 2048


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 3}, "temperature is 3; it must be a number from 0 to 2"),
        ({"response_format": {"type": "table"}}, "response_format 'table' is not supported"),
        ({"extra_body": {"colour": 1}}, "unrecognized field colour"),
        ({"extra_body": {"functions": [{}]}}, "functions is .*give tools"),
        ({"logit_bias": {"999": 1}}, "logit_bias names token 999"),
        ({"n": 99}, "n is 99"),
        ({"extra_body": {"chat_template_kwargs": {"messages": 1}}}, "'messages' is reserved"),
    ],
)
def test_what_is_not_supported_is_named(
    client: openai.OpenAI, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        ask(client, "x", **options)


def test_an_answer_fits_its_schema_or_is_refused(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"],
              "additionalProperties": False}  # fmt: skip
    form: Any = {"type": "json_schema", "json_schema": {"name": "pair", "schema": schema}}
    for most in (2, 400):
        for stream in (False, True):
            answer = ask(client, "x", response_format=form, max_tokens=most, stream=stream)
            content, _, _, reason = folded(answer) if stream else parts(answer)
            if reason == "stop":
                assert json.loads(content)["a"] in (1, 2)
            else:
                assert reason == "length"


def test_pictures_need_a_model_that_sees(client: openai.OpenAI) -> None:
    def shown(url: str) -> Any:
        return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]

    for url, words in (
        ("https://example.org/a.png", "pictures are read from data:"),
        ("data:image/png;base64,????", "is not base64"),
        ("data:image/png;base64,aGk=", "reads texts only"),
    ):
        with pytest.raises(openai.BadRequestError, match=words):
            client.chat.completions.create(model="tiny", messages=shown(url))


def test_models_are_listed_and_others_are_refused(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError, match="model 'other' is not served; supported: tiny"):
        client.chat.completions.create(model="other", messages=user("x"))
