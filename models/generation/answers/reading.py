"""What the states of reading an answer share: the text, its marks, and the parts so far."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from rushlight.models.generation.answers import bodies
from rushlight.models.generation.answers.formats import (
    CALLS,
    ENDS,
    HARMONY,
    HEAD_ENDS,
    MESSAGE_ENDS,
    STRAY,
    THOUGHTS,
    TOKENS,
    WRAPPERS,
    Thoughts,
)
from rushlight.models.generation.answers.records import AnswerDelta, AnswerParts, ToolCall
from rushlight.models.generation.answers.schema import Tools
from rushlight.models.generation.answers.spans import Fence, Said, Search

# Before the text of a special token. It is no character, so no text has it.
TOKEN = "\U0010fffe"
_ENDS = Search(*ENDS)
_BLANKS = 64  # characters at the end of a text that are looked at
_QUOTES = frozenset(" \"'`(")


class Reading:
    """The text that is not yet used, and the parts of what was."""

    def __init__(
        self,
        tools: bool | Sequence[Any] | None = True,
        *,
        thinking: bool | str = False,
        tokens: Collection[str] | None = None,
        special: Collection[str] = (),
    ) -> None:
        self.tools, self.tokens = Tools(tools), frozenset(tokens or ())
        self._special = frozenset(map(self._mark, special))
        named = "|".join(re.escape(mark) for mark in sorted(special, key=len, reverse=True))
        self._silent = re.compile(f"{TOKEN}(?:{named})" if named else TOKEN)
        calls = CALLS if self.tools.wanted else ()
        self._calls = {self._mark(row.opening): row for row in calls}
        self._opens = {self._mark(row.opening): row for row in THOUGHTS}
        self._ends = {self._mark(row.closing): row for row in THOUGHTS if row.implied}
        self._wraps = {self._mark(a): self._mark(b) for a, b in WRAPPERS.items()}
        self._heads = frozenset(map(self._mark, HARMONY))
        self._dropped = frozenset(map(self._mark, TOKENS))
        self._stray = self._mark(STRAY)
        self._search = Search(
            *self._calls,
            *self._opens,
            *self._ends,
            *self._wraps,
            *self._wraps.values(),
            *self._heads,
            *self._dropped,
            self._stray,
        )
        self._head_end = Search(self._mark(HEAD_ENDS))
        self._message_end = Search(*map(self._mark, MESSAGE_ENDS))
        self._text, self._at = "", 0  # the text that is not yet used, from a place on
        self._ends_held = _ENDS if tokens is None else Search()
        self._kept = ""  # the end of the text so far, which may be a token that ends the answer
        self._before = ""  # the character before it
        self._raw: list[str] | None = []  # all text so far, until a thought ends
        self._said, self._thought = Said(), Said()
        self._fence = Fence()
        self.tool_calls: list[ToolCall] = []
        self._new: tuple[list[str], list[str], list[ToolCall]] = ([], [], [])
        self._restarted = False
        self._state: Any = self._in_text
        self._fresh = True  # nothing but blanks since the beginning, a thought or a call
        self._thoughts = 0
        self._dead: set[str] = set()  # openings that nothing closes any more
        self._wrapper = ""
        self._untagged = False  # the last call had no tags around it
        self._from = 0  # where the search for a mark goes on
        self._row: Any = None
        self._find = Search()
        self._read_to, self._quote = 0, ""  # how far strings were followed, and within which
        self._quotes: re.Pattern[str] | None = None  # what begins and ends them
        self._strings = True  # whether a closing within a string is none
        self._bare = self.tools.wanted
        if thinking:
            row = next((r for r in THOUGHTS if r.opening == thinking), None)
            self._begin_thought(row, "")

    def _in_text(self, final: bool) -> bool:
        """The first state; a state takes text and says whether there is more to do with it."""
        raise NotImplementedError("a reader has states")

    def _begin_thought(self, row: Thoughts | None, mark: str) -> None:
        """Go to the state of a thought."""
        raise NotImplementedError("a reader has states")

    # --- for callers --------------------------------------------------------------------------

    @property
    def parts(self) -> AnswerParts:
        """The parts of what was read."""
        return AnswerParts(self._said.text(), self._thought.text(), list(self.tool_calls))

    def feed(self, text: str) -> AnswerDelta:
        """What a piece of the answer adds."""
        text = self._kept + text
        size = len(text) - self._end_held(text)
        self._kept = text[size:]
        self._before = text[size - 1 : size] or self._before
        return self._feed(text[:size])

    def _feed(self, text: str) -> AnswerDelta:
        self._text = self._text[self._at :] + text
        self._from -= self._at
        self._read_to -= self._at
        self._at = 0
        return self._run(False)

    def _end_held(self, text: str) -> int:
        """How many characters at the end may be, or may become, a token that ends the answer."""
        stripped = text[-_BLANKS:].rstrip()
        size = self._ends_held.held(stripped, 0, complete=True)
        blanks = min(len(text), _BLANKS) - len(stripped)
        return size + blanks if size and (not blanks or stripped[-size:] in ENDS) else 0

    def finish(self) -> AnswerDelta:
        """What is certain only at the end: the answer is complete."""
        # Words about such a token have it in quotes or after a blank.
        ended = self._kept.rstrip() in ENDS and self._before and self._before not in _QUOTES
        self._text += "" if ended else self._kept
        self._kept = ""
        delta = self._run(True)
        self._thought.close()
        return delta

    def _run(self, final: bool) -> AnswerDelta:
        self._new, self._restarted = ([], [], []), False
        while self._state(final):
            pass
        content, thinking, calls = self._new
        return AnswerDelta("".join(content), "".join(thinking), calls, self._restarted)

    # --- parts --------------------------------------------------------------------------------

    def _mark(self, text: str) -> str:
        """A mark as it stands in the text."""
        for token in sorted(self.tokens, key=len, reverse=True):
            if text.startswith(token):
                return TOKEN + text
        return text

    def _take(self, end: int) -> str:
        """The text up to a place, which is used with this."""
        text, self._at = self._text[self._at : end], end
        if self._raw is not None:
            self._raw.append(text)
        return text

    def _say(self, text: str) -> None:
        text = self._silent.sub("", text)
        self._fence.add(text)
        if text and not text.isspace():
            self._fresh = False
        self._new[0].append(self._said.add(text))

    def _think(self, text: str) -> None:
        self._new[1].append(self._thought.add(self._silent.sub("", text)))

    def _call(self, rows: bodies.Rows) -> bool:
        """Take rows as calls, if they are."""
        if not rows:
            return False
        for name, arguments, texts in rows:
            call = ToolCall(name, self.tools.typed(name, arguments, texts))
            self.tool_calls.append(call)
            self._new[2].append(call)
        self._fresh, self._bare = True, False
        return True

    def _go(self, state: Any, row: Any = None) -> bool:
        self._state, self._row, self._from = state, row, self._at
        self._read_to, self._quote, self._quotes = self._at, "", None
        return True
