"""Marks in a text that is not complete, and texts without the blanks around them."""

from __future__ import annotations

import re
from copy import copy

_OF_LINE = re.compile(r"\n|`+|[^\S\n]+|[^\s`][^\n`]*")
_FENCE = 3  # backticks


class Search:
    """Finds the first of several marks; where two begin at one place, the longer one."""

    def __init__(self, *marks: str) -> None:
        self.marks = frozenset(marks)
        self.longest = max(map(len, marks), default=0)
        longer_first = sorted(self.marks, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longer_first)) or r"(?!)")
        self._firsts = frozenset(mark[0] for mark in self.marks)
        self._begun = {mark[:n] for mark in self.marks for n in range(1, len(mark))}

    def next(self, text: str, start: int, end: int | None = None) -> tuple[int, int] | None:
        """Where the first mark at or after a place, and before another, begins and ends."""
        match = self._pattern.search(text, start, len(text) if end is None else end)
        return None if match is None else match.span()

    def held(self, text: str, start: int, *, complete: bool = False) -> int:
        """How many characters at the end may be the beginning of a mark, or a `complete` one."""
        most = min(self.longest - (not complete), len(text) - start)
        tail = text[len(text) - most :] if most > 0 else ""
        for place, char in enumerate(tail):
            if char in self._firsts and (
                tail[place:] in self._begun or (complete and tail[place:] in self.marks)
            ):
                return most - place
        return 0


class Fence:
    """Whether a text that comes in pieces is code: between lines of ```, or between ` in a line."""

    def __init__(self) -> None:
        self._block = False
        self._line = 0  # 0: blanks so far, 1: words behind a fence, 2: other words
        self._ticks = 0  # how many are at the beginning of the line
        self._code = False  # between ` in this line
        self._run = False  # whether a run of ` goes on

    def add(self, text: str) -> None:
        """Go on after a piece of the text."""
        for match in _OF_LINE.finditer(text):
            char = match[0][0]
            if char == "\n":
                self._block ^= self._is_fence()
                self._line, self._ticks, self._code = 0, 0, False
            elif char == "`":
                if self._line == 0:
                    self._ticks += len(match[0])
                else:
                    self._line = 2
                self._code ^= not self._run
            elif self._ticks or not char.isspace():
                fence = self._ticks >= _FENCE and self._line < 2
                self._line = 1 if fence else 2
            self._run = char == "`"

    def _is_fence(self) -> bool:
        return self._line < 2 and self._ticks >= _FENCE

    def within(self, text: str = "") -> bool:
        """Whether what comes after the text so far, and `text`, is code."""
        if text:
            later = copy(self)
            later.add(text)
            return later.within()
        if self._is_fence():
            return not self._block
        return self._block or self._code


class Said:
    """A text that comes in pieces, without the blanks at its ends; or several, with a line between.

    `open` begins another text, and `close` ends it.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._blanks: list[str] = []  # kept back: they may be the last
        self.begun = False  # whether the text that is open has anything but blanks
        self.last = ""  # the last character
        self._some = False

    def add(self, text: str) -> str:
        """What a piece adds to the text."""
        if not text:
            return ""
        self.last = text[-1]
        core = text.strip()
        if not core:
            if self.begun:
                self._blanks.append(text)
            return ""
        if self.begun:
            text = "".join(self._blanks) + text
        else:
            text = ("\n\n" if self._some else "") + text.lstrip()
        self._blanks.clear()
        stripped = text.rstrip()
        if len(stripped) < len(text):
            self._blanks.append(text[len(stripped) :])
        self.begun = self._some = True
        self._pieces.append(stripped)
        return stripped

    def open(self) -> None:
        """Begin another text."""
        self.begun = False
        self._blanks.clear()

    close = open

    def line_begins(self, after: str) -> bool:
        """Whether a line begins after what was added and some blanks."""
        blanks = "".join(self._blanks) + after
        return not self._some or "\n" in blanks

    def text(self) -> str:
        """The whole text."""
        return "".join(self._pieces)
