"""OpenAI's chat completions: requests, and answers as an object or a stream of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from rushlight.models.serving import able
from rushlight.models.serving.answers import Answer, Call, Delta, Event, Logprob, Usage, now
from rushlight.models.serving.asking import (
    MOST_ANSWERS,
    MOST_NEW,
    MOST_STOPS,
    Ask,
    sampling_of,
    variables_of,
)
from rushlight.models.serving.errors import ApiError
from rushlight.models.serving.fields import Fields
from rushlight.models.serving.messages import chosen_tools, messages_of, tools_of

# Fields that change no answer here.
IGNORED = (
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "verbosity", "cache_prompt", "id", "chat_id", "session_id",
    "keep_alive",
)  # fmt: skip


def read(fields: Fields) -> Ask:
    """The request of a body; ApiError names a field that is wrong or not supported."""
    fields.text("model", most=512)
    ask = Ask(messages=messages_of(fields), options=sampling_of(fields))
    ask.most = fields.whole("max_completion_tokens", 1, MOST_NEW)
    older = fields.whole("max_tokens", 1, MOST_NEW)
    ask.most = older if ask.most is None else ask.most
    ask.count = fields.whole("n", 1, MOST_ANSWERS) or 1
    ask.stops = tuple(fields.texts("stop", MOST_STOPS))
    ask.variables = variables_of(fields)
    ask.tools, ask.forced = chosen_tools(tools_of(fields), fields.value("tool_choice"))
    ask.one_call = not fields.flag("parallel_tool_calls", True)
    ask.logprobs = fields.flag("logprobs")
    if top := fields.whole("top_logprobs", 0, 20):
        ask.options["logprobs"] = top
    ask.options |= able.form(fields.value("response_format"))
    read_stream(fields, ask)
    for name in ("functions", "function_call"):
        fields.only(name, ((), []), "give tools and tool_choice")
    fields.only("modalities", (["text"],), "answers are texts")
    for name in ("audio", "prediction", "web_search_options", "moderation"):
        fields.only(name, (), "leave it out")
    fields.ignored(*IGNORED)
    fields.done()
    return ask


def read_stream(fields: Fields, ask: Ask) -> None:
    """Read whether the answer is a stream, and whether that ends with the usage."""
    ask.stream = fields.flag("stream")
    options = Fields(fields.object("stream_options"), fields.name("stream_options"))
    ask.usage = options.flag("include_usage")
    options.ignored("include_obfuscation")
    options.done()


def call_of(call: Call) -> dict[str, Any]:
    """A call in OpenAI's shape."""
    return {
        "id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text},
    }  # fmt: skip


def logprobs_of(rows: Sequence[Logprob]) -> dict[str, Any]:
    """The logprobs of an answer's tokens in OpenAI's shape."""
    return {
        "content": [
            {
                **_token(row.text, row.logprob),
                "top_logprobs": [_token(text, logprob) for text, logprob in row.top],
            }
            for row in rows
        ],
        "refusal": None,
    }


def _token(text: str, logprob: float) -> dict[str, Any]:
    return {
        "token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace")),
    }  # fmt: skip


class ChatWriter:
    """Answers as OpenAI's chat completions have them; thoughts are `reasoning_content`."""

    def __init__(self, ask: Ask, model: str) -> None:
        self.ask, self.calls = ask, 0
        self.facts = {
            "id": f"chatcmpl-{token_hex(12)}",
            "created": now(),
            "model": model,
            "system_fingerprint": "rushlight",
        }
        self._begun: set[int] = set()
        self._calls: dict[int, int] = {}

    def _chunk(
        self, index: int, delta: dict[str, Any], reason: str | None = None, logprobs: Any = None
    ) -> Event:
        choice = {
            "index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason,
        }  # fmt: skip
        more = {"usage": None} if self.ask.usage else {}
        return "", {
            **self.facts, "object": "chat.completion.chunk", "choices": [choice], **more,
        }  # fmt: skip

    def opening(self) -> list[Event]:
        """Nothing: each answer begins with its role."""
        return []

    def _role(self, index: int) -> list[Event]:
        if index in self._begun:
            return []
        self._begun.add(index)
        return [self._chunk(index, {"role": "assistant", "content": ""})]

    def delta(self, answer: Answer, delta: Delta) -> list[Event]:
        """A chunk of what a token adds."""
        words: dict[str, Any] = {}
        if delta.thinking:
            words["reasoning_content"] = delta.thinking
        if delta.content:
            words["content"] = delta.content
        if delta.calls:
            first = self._calls.get(answer.index, 0)
            self._calls[answer.index] = first + len(delta.calls)
            words["tool_calls"] = [
                {"index": first + i, **call_of(call)} for i, call in enumerate(delta.calls)
            ]
        logprobs = logprobs_of(delta.logprobs) if delta.logprobs else None
        if not words and logprobs is None:
            return self._role(answer.index)
        chunk = self._chunk(answer.index, words, logprobs=logprobs)
        return [*self._role(answer.index), chunk]

    def ended(self, answer: Answer) -> list[Event]:
        """The chunk with the reason."""
        return [*self._role(answer.index), self._chunk(answer.index, {}, answer.reason)]

    def closing(self, answers: Sequence[Answer], usage: Usage) -> list[Event]:
        """The usage, if it was asked for, and the end."""
        last: list[Event] = [("", "[DONE]")]
        if not self.ask.usage:
            return last
        chunk = {**self.facts, "object": "chat.completion.chunk", "choices": []}
        return [("", {**chunk, "usage": usage.openai()}), *last]

    def failed(self, error: ApiError) -> list[Event]:
        """An error in the middle."""
        return [("", error.openai())]

    def body(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        """A chat.completion."""
        return {
            **self.facts,
            "object": "chat.completion",
            "choices": [self._choice(answer) for answer in answers],
            "usage": usage.openai(),
        }

    def _choice(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": answer.content if answer.content or not answer.calls else None,
            "refusal": None,
        }
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        if answer.calls:
            message["tool_calls"] = [call_of(call) for call in answer.calls]
        return {
            "index": answer.index,
            "message": message,
            "logprobs": logprobs_of(answer.logprobs) if self.ask.logprobs else None,
            "finish_reason": answer.reason,
        }
