"""Answers as tokens: which of a vocabulary's tokens mark thoughts and calls.

A mark that is a token of the vocabulary counts only as this token: its letters may stand in a text.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

from rushlight.core.io.text.tokenizer import Tokenizer
from rushlight.models.generation.answers.formats import MARKS, THOUGHTS
from rushlight.models.generation.answers.reader import TOKEN, AnswerReader
from rushlight.models.generation.answers.records import AnswerDelta, AnswerParts
from rushlight.models.generation.streaming import Pieces

_TAIL = 16  # tokens of a prompt that may open a thought


class AnswerTokens:
    """Takes the tokens of an answer one by one and gives what each adds to its parts.

    ends: ids that end an answer. prompt: its last tokens tell whether the answer begins in a
    thought. tools: see `AnswerReader`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        ends: Set[int] = frozenset(),
        prompt: Sequence[int] = (),
        tools: bool | Sequence[Any] | None = True,
    ) -> None:
        self._tokenizer, self._ends = tokenizer, ends
        self._marks = _mark_tokens(tokenizer)
        self._plain = frozenset(
            id for id in self._marks if tokenizer.decode([id], skip_special_tokens=True)
        )
        thought, head = _opened(tokenizer, prompt)
        special = {text for id, text in self._marks.items() if id not in self._plain}
        self.reader = AnswerReader(
            tools, thinking=thought, tokens=frozenset(self._marks.values()), special=special
        )
        if head:
            self.reader.feed(head)
        self._pieces = _WithSpecial(tokenizer, self._marks)

    @property
    def parts(self) -> AnswerParts:
        """The parts of what was read."""
        return self.reader.parts

    def add(self, token: int) -> AnswerDelta:
        """What a token adds."""
        return self.reader.feed("" if token in self._ends else self._pieces.add(token))

    def finish(self) -> AnswerDelta:
        """What is certain only at the end."""
        first = self.reader.feed(self._pieces.rest())
        last = self.reader.finish()
        return AnswerDelta(
            last.content if last.restart else first.content + last.content,
            last.thinking if last.restart else first.thinking + last.thinking,
            last.tool_calls if last.restart else first.tool_calls + last.tool_calls,
            first.restart or last.restart,
        )


class _WithSpecial:
    """The text of tokens, with `TOKEN` before each that is a mark."""

    def __init__(self, tokenizer: Tokenizer, marks: dict[int, str]) -> None:
        self._tokenizer, self._marks = tokenizer, marks
        self._pieces = Pieces(tokenizer, ())

    def add(self, token: int) -> str:
        mark = self._marks.get(token)
        if mark is None:
            return self._pieces.add(token)[0]
        rest = self.rest()
        self._pieces.start = len(self._pieces.ids)
        # The mark stays as context: some tokenizers drop a space at the very beginning.
        self._pieces.ids.append(token)
        self._pieces.given = self._tokenizer.decode([token])
        return f"{rest}{TOKEN}{mark}"

    def rest(self) -> str:
        return self._pieces.finish()


def parts_of_tokens(
    tokenizer: Tokenizer | None,
    ends: Set[int],
    ids: Sequence[int],
    prompt: Sequence[int],
    tools: bool | Sequence[Any] | None,
) -> AnswerParts:
    """The parts of an answer's tokens; special tokens mark calls and thoughts."""
    if tokenizer is None:
        return AnswerParts("", "", [])
    answer = AnswerTokens(tokenizer, ends, prompt, tools)
    for token in ids:
        answer.add(token)
    answer.finish()
    parts = answer.parts
    text = tokenizer.decode([id for id in ids if id not in ends])
    plain = not (parts.tool_calls or parts.thinking) and parts.content == text.strip()
    return replace(parts, content=text) if plain else parts


def _mark_tokens(tokenizer: Tokenizer) -> dict[int, str]:
    """The marks that are tokens of a vocabulary, by their ids."""
    by_id: dict[int, str] = {}
    for mark in dict.fromkeys(MARKS):
        id = tokenizer.token_to_id(mark)
        if id is not None and tokenizer.decode([id], skip_special_tokens=False) == mark:
            by_id[id] = mark
    return by_id


def _opened(tokenizer: Tokenizer, prompt: Sequence[int]) -> tuple[str | bool, str]:
    """The tag of a thought that the end of a prompt opens, and the header of an open message."""
    tail = tokenizer.decode(list(prompt[-_TAIL:]), skip_special_tokens=False).rstrip()
    for row in THOUGHTS:
        if tail.endswith(row.opening):
            return row.opening, ""
    # A prompt may end within a thought that is continued.
    for row in THOUGHTS:
        opening, closing = map(tokenizer.token_to_id, (row.opening, row.closing))
        if opening is not None and closing is not None and opening in prompt:
            last = max(i for i, id in enumerate(prompt) if id == opening)
            if not {closing, *_turn_ends(tokenizer)} & {*prompt[last:]}:
                return row.opening, ""
    begin = tail.rfind("<|channel|>")
    if tail.endswith("<|message|>") and begin >= 0:
        return False, "".join(
            TOKEN + tag + text
            for tag, text in (("<|channel|>", tail[begin + 11 : -11]), ("<|message|>", ""))
        )
    return False, ""


def _turn_ends(tokenizer: Tokenizer) -> set[int]:
    names = ("<|im_end|>", "<|im_start|>", "</s>", "<|eot_id|>", "<|end|>", "[/INST]", "[INST]")
    return {id for name in names if (id := tokenizer.token_to_id(name)) is not None}
