"""OpenAI's completions: prompts that are continued as they are."""

from __future__ import annotations

from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from rushlight.models.serving import able
from rushlight.models.serving.answers import Answer, Delta, Event, Logprob, Usage, now
from rushlight.models.serving.asking import (
    MOST_ANSWERS,
    MOST_NEW,
    MOST_STOPS,
    Ask,
    sampling_of,
)
from rushlight.models.serving.errors import ApiError
from rushlight.models.serving.fields import Fields
from rushlight.models.serving.openai_chat import IGNORED, read_stream

MOST_PROMPTS, MOST_IDS = 64, 1 << 20
_DEFAULT_TOKENS = 16  # OpenAI's


class Completion(Ask):
    """An Ask of completions: echo says whether an answer begins with its prompt."""

    echo: bool = False


def read(fields: Fields) -> Completion:
    """The request of a body; ApiError names a field that is wrong or not supported."""
    fields.text("model", most=512)
    ask = Completion(prompts=prompts_in(fields, "prompt"), options=sampling_of(fields))
    ask.most = fields.whole("max_tokens", 1, MOST_NEW) or _DEFAULT_TOKENS
    ask.count = fields.whole("n", 1, MOST_ANSWERS) or 1
    fields.only("best_of", (ask.count, 1), "give n")
    if ask.count * len(ask.prompts) > MOST_PROMPTS:
        raise ApiError(
            f"{len(ask.prompts)} prompts with n {ask.count} are more than {MOST_PROMPTS} answers",
            param="n",
        )
    ask.options["stop"] = tuple(fields.texts("stop", MOST_STOPS))
    ask.echo = fields.flag("echo")
    ask.logprobs = fields.has("logprobs")
    if top := fields.whole("logprobs", 0, 20):
        ask.options["logprobs"] = top
    fields.only("suffix", ("",), "leave it out")
    ask.options |= able.form(fields.value("response_format"))
    read_stream(fields, ask)
    if ask.echo and ask.logprobs:
        raise ApiError("echo with logprobs is not supported; leave one out", param="echo")
    fields.ignored(*IGNORED)
    fields.done()
    return ask


def prompts_in(fields: Fields, key: str, most: int = MOST_PROMPTS) -> list[str | list[int]]:
    """At most `most` prompts: a text, texts, token ids, or lists of them."""
    value = fields.value(key)
    if isinstance(value, str):
        return [fields.text(key)] if value else _empty(fields, key)
    rows = fields.items(key, MOST_IDS)
    if not rows:
        return _empty(fields, key)
    if all(map(_is_id, rows)):
        return [list(rows)]
    if len(rows) > most:
        raise ApiError(f"{key} has {len(rows)} items; at most {most}", param=key)
    for row in rows:
        if isinstance(row, list) and (not row or not all(map(_is_id, row))):
            raise fields.wrong(key, "it must be texts or lists of token ids")
        if not isinstance(row, str | list) or not row:
            raise fields.wrong(key, "it must be texts or lists of token ids")
    return rows


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _empty(fields: Fields, key: str) -> list[str | list[int]]:
    raise fields.wrong(key, "it must be a text, texts, or token ids, none of them empty")


class CompletionWriter:
    """Answers as OpenAI's completions have them."""

    def __init__(self, ask: Completion, model: str, echoes: Sequence[str]) -> None:
        self.ask, self.echoes = ask, echoes
        self.facts = {
            "id": f"cmpl-{token_hex(12)}",
            "object": "text_completion",
            "created": now(),
            "model": model,
            "system_fingerprint": "rushlight",
        }
        self._places: dict[int, int] = {}  # how many characters an answer has

    def _echo(self, answer: Answer) -> str:
        return self.echoes[answer.index // self.ask.count] if self.ask.echo else ""

    def _choice(self, answer: Answer, text: str, reason: str | None, rows: Any) -> dict[str, Any]:
        logprobs = self._logprobs(answer.index, rows) if self.ask.logprobs else None
        return {
            "index": answer.index, "text": text, "logprobs": logprobs, "finish_reason": reason,
        }  # fmt: skip

    def _logprobs(self, index: int, rows: Sequence[Logprob]) -> dict[str, Any]:
        offsets = []
        for row in rows:
            offsets.append(self._places.get(index, 0))
            self._places[index] = offsets[-1] + len(row.text)
        return {
            "tokens": [row.text for row in rows],
            "token_logprobs": [row.logprob for row in rows],
            "top_logprobs": [dict(row.top) for row in rows] if self._tops(rows) else None,
            "text_offset": offsets,
        }

    @staticmethod
    def _tops(rows: Sequence[Logprob]) -> bool:
        return any(row.top for row in rows)

    def opening(self) -> list[Event]:
        """Nothing."""
        return []

    def delta(self, answer: Answer, delta: Delta) -> list[Event]:
        """A chunk of what a token adds."""
        first = len(answer.ids) == 1
        text = (self._echo(answer) if first else "") + delta.content
        if not text and not delta.logprobs:
            return []
        choice = self._choice(answer, text, None, delta.logprobs)
        return [("", {**self.facts, "choices": [choice]})]

    def ended(self, answer: Answer) -> list[Event]:
        """The chunk with the reason."""
        return [("", {**self.facts, "choices": [self._choice(answer, "", answer.reason, [])]})]

    def closing(self, answers: Sequence[Answer], usage: Usage) -> list[Event]:
        """The usage, if it was asked for, and the end."""
        last: list[Event] = [("", "[DONE]")]
        if not self.ask.usage:
            return last
        return [("", {**self.facts, "choices": [], "usage": usage.openai()}), *last]

    def failed(self, error: ApiError) -> list[Event]:
        """An error in the middle."""
        return [("", error.openai())]

    def body(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        """A text_completion."""
        choices = [
            self._choice(a, self._echo(a) + a.content, a.reason, a.logprobs) for a in answers
        ]
        return {**self.facts, "choices": choices, "usage": usage.openai()}
