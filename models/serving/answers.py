"""Answers as they grow: tokens become content, thoughts and calls, until something ends them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Protocol

from rushlight.models.generation.answers import AnswerDelta, AnswerTokens
from rushlight.models.generation.steps import Token
from rushlight.models.serving.asking import Ask
from rushlight.models.serving.errors import ApiError

# An event of a stream: its name, or "" without one, and its payload.
Event = tuple[str, Any]


@dataclass(frozen=True)
class Call:
    """A call of a tool in an answer."""

    id: str
    name: str
    arguments: dict[str, Any]

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Logprob:
    """A token's text, and the logarithm of its probability."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()  # the likeliest tokens, where they were asked for


@dataclass
class Delta:
    """What a token adds to an answer."""

    content: str = ""
    thinking: str = ""
    calls: list[Call] = field(default_factory=list)
    logprobs: list[Logprob] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.content or self.thinking or self.calls or self.logprobs)


@dataclass
class Usage:
    """Tokens of a request: of its prompts, those of them that a cache held, those that were
    written, and those of them that are thoughts. seconds: of reading and of writing.
    """

    prompt: int = 0
    cached: int = 0
    written: int = 0
    thinking: int = 0
    reading_seconds: float = 0.0
    writing_seconds: float = 0.0

    def openai(self) -> dict[str, Any]:
        """The usage in OpenAI's shape."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.written,
            "total_tokens": self.prompt + self.written,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.thinking},
        }


class StopTexts:
    """Cuts a stream of text before the first of some texts; holds back what may begin one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops, self._kept = stops, ""
        self.hit = ""  # the text that ended the stream

    def add(self, text: str) -> str:
        """The text that is certain by now."""
        text = self._kept + text
        places = [(text.find(stop), stop) for stop in self.stops if stop in text]
        if places:
            place, self.hit = min(places)
            self._kept = ""
            return text[:place]
        size = max((_begun(text, stop) for stop in self.stops), default=0)
        self._kept = text[len(text) - size :]
        return text[: len(text) - size]

    def rest(self) -> str:
        """The text that was held back, at the end."""
        rest, self._kept = self._kept, ""
        return rest


def _begun(text: str, stop: str) -> int:
    """How many characters at the end of a text may be the beginning of a stop text."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(stop[:size])), 0)


class Answer:
    """One answer: `add` takes its tokens, `end` what is certain only at the end.

    The sum of what they return is `content`, `thinking` and `calls`, which is what a request
    without a stream gets: both have the same. reason: why it ended: "" while it grows, else "stop",
    "length" or "tool_calls". stop_text: the text that ended it.
    """

    def __init__(self, model: Any, ask: Ask, ids: Sequence[int], index: int = 0) -> None:
        self.index, self.ask, self.prompt = index, ask, ids
        self._tokenizer, self._ends = model.tokenizer, model.eos_ids
        self._reader = None
        if ask.messages is not None and model.tokenizer is not None:
            self._reader = AnswerTokens(model.tokenizer, model.eos_ids, ids, ask.tools or None)
        self._stops = StopTexts(ask.stops if self._reader is not None else ())
        self._content: list[str] = []
        self._thinking: list[str] = []
        self.calls: list[Call] = []
        self.logprobs: list[Logprob] = []
        self.ids: list[int] = []
        self.thoughts = 0  # tokens of thoughts
        self.reason = self._told = ""

    @property
    def content(self) -> str:
        """What was said so far."""
        return "".join(self._content)

    @property
    def thinking(self) -> str:
        """What was thought so far."""
        return "".join(self._thinking)

    @property
    def stop_text(self) -> str:
        """The stop text that ended the content, or nothing."""
        return self._stops.hit

    def add(self, token: Token) -> Delta:
        """What a token adds; `reason` is set if it ends the answer."""
        self.ids.append(token.id)
        self._told = token.stopped
        if self._reader is None:
            delta = Delta(token.text)
        else:
            delta = self._folded(self._reader.add(token.id))
        if delta.thinking and not delta.content:
            self.thoughts += 1
        elif self.ask.logprobs and token.id not in self._ends:
            likeliest = getattr(token, "top", ())
            top = tuple((self._text(id), logprob) for id, logprob in likeliest)
            delta.logprobs.append(Logprob(self._text(token.id), token.logprob, top))
        return self._noted(delta)

    def end(self) -> Delta:
        """What is certain only at the end, after the last token, or where it was cut short."""
        if self.reason:
            return Delta()
        delta = Delta()
        if self._reader is not None:
            delta = self._folded(self._reader.finish())
            if not self.reason:
                delta.content += self._stops.rest()
        if not self.reason:
            calls = self.calls or delta.calls
            whole = self._told in ("eos", "stop")
            self.reason = "length" if not whole else "tool_calls" if calls else "stop"
        return self._noted(delta)

    def _noted(self, delta: Delta) -> Delta:
        self._content.append(delta.content)
        self._thinking.append(delta.thinking)
        self.calls += delta.calls
        self.logprobs += delta.logprobs
        return delta

    def _folded(self, delta: AnswerDelta) -> Delta:
        """A reader's delta. What was said stays said, though the reader may call it a thought."""
        content, thinking = delta.content, delta.thinking
        if delta.restart:
            shown = self.content
            rest = thinking[len(shown) :] if thinking.startswith(shown) else ""
            content, thinking = rest + content, ""
        content = self._stops.add(content) if content else ""
        out = Delta(content, thinking)
        if self._stops.hit:
            self.reason = "stop"
            return out
        for call in delta.tool_calls:
            out.calls.append(Call(f"call_{token_hex(12)}", call.name, call.arguments))
            if self.ask.one_call:
                self.reason = "tool_calls"
                break
        return out

    def _text(self, token: int) -> str:
        if self._tokenizer is None:
            return ""
        text: str = self._tokenizer.decode([token], skip_special_tokens=False)
        return text


class Writer(Protocol):
    """An interface's form of answers, as one object or as events of a stream."""

    def opening(self) -> list[Event]:
        """Events before the first delta."""

    def delta(self, answer: Answer, delta: Delta) -> list[Event]:
        """Events of what a token adds."""

    def ended(self, answer: Answer) -> list[Event]:
        """Events of an answer's end."""

    def closing(self, answers: Sequence[Answer], usage: Usage) -> list[Event]:
        """Events after all answers."""

    def failed(self, error: ApiError) -> list[Event]:
        """Events of an error in the middle of a stream."""

    def body(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        """All of it as one object."""


def now() -> int:
    """Seconds since 1970."""
    return int(time.time())
