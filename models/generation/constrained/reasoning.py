"""Where an answer's reasoning ends, so that a form begins behind it."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import Any

import numpy as np

from rushlight.core.io.text.tokenizer import Tokenizer
from rushlight.models.generation.answers.formats import THOUGHTS
from rushlight.models.generation.answers.tokens import _TAIL, _opened, _turn_ends
from rushlight.models.generation.streaming import Pieces

_ANALYSIS = "<|channel|>analysis<|message|>"
_ASSISTANT = "<|start|>assistant"


class Reasoning:
    """Follows the tokens of an answer up to where its reasoning ends.

    `within`: whether the answer is in a thought. `opening`: the tokens that would begin one, none
    if the answer has none. `after`: the tokens that must follow it.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], template: Any = None) -> None:
        self._tokenizer = tokenizer
        self.within, self.opening, self.after = False, [], []
        self.at = 0  # how many tokens of the opening were said
        self._close: int | None = None
        self._closing = ""
        self._text, self._pieces = "", Pieces(tokenizer, ())
        thought, _ = _opened(tokenizer, prompt)
        tail = tokenizer.decode(list(prompt[-_TAIL:]), skip_special_tokens=False).rstrip()
        if thought:
            self._enter(str(thought))
        elif harmonic(tokenizer) and tail.endswith(_ASSISTANT):
            self.opening = self._ids(_ANALYSIS)
            self.after = self._ids(_ASSISTANT)
            self._close, self._closing = tokenizer.token_to_id("<|end|>"), "<|end|>"
        elif self._is_chat(prompt) and not any(tail.endswith(r.closing) for r in THOUGHTS):
            for row in THOUGHTS:
                id = tokenizer.token_to_id(row.opening)
                if id is not None and _says(template, row.opening):
                    self.opening = [id]
                    self._close_by(row.closing)
                    break

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def _is_chat(self, prompt: Sequence[int]) -> bool:
        return bool(_turn_ends(self._tokenizer) & {*prompt})

    def _enter(self, opening: str) -> None:
        self._close_by(next(row.closing for row in THOUGHTS if row.opening == opening))
        self.within = True

    def _close_by(self, closing: str) -> None:
        self._closing = closing
        id = self._tokenizer.token_to_id(closing)
        alone = id is not None and self._tokenizer.decode([id], skip_special_tokens=False)
        self._close = id if alone == closing else None

    def begin(self) -> None:
        """The opening was said."""
        self.within, self.opening = True, []

    def add(self, token: int) -> None:
        """Go on after a token of a thought; `within` tells whether it goes on."""
        if self._close is not None:
            self.within = token != self._close
            return
        self._text = (self._text + self._pieces.add(token)[0])[-4096:]
        self.within = self._closing not in self._text

    def allowed(self, size: int, ends: Set[int], marks: Collection[int]) -> Any:
        """The tokens of a thought: all but those that end an answer, or mark other parts of it."""
        mask = np.ones(size, np.bool_)
        mask[[id for id in (*ends, *marks) if id < size and id != self._close]] = False
        return mask


def _says(template: Any, text: str) -> bool:
    """Whether a text occurs in a chat template."""
    return template is not None and any(text in source for source in template.named.values())


def harmonic(tokenizer: Tokenizer) -> bool:
    """Whether a vocabulary is one of harmony, the form of gpt-oss."""
    return all(
        tokenizer.token_to_id(mark) is not None
        for mark in ("<|channel|>", "<|message|>", "<|start|>", "<|end|>")
    )
