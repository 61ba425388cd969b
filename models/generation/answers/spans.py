"""Marks in a text that is not complete, and texts without the blanks around them."""

from __future__ import annotations

import re


class Search:
    """Finds the first of several marks; where two begin at one place, the longer one."""

    def __init__(self, *marks: str) -> None:
        self.marks = frozenset(marks)
        self.longest = max(map(len, marks), default=0)
        longer_first = sorted(self.marks, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longer_first)) or r"(?!)")
        self._begun = {mark[:n] for mark in self.marks for n in range(1, len(mark))}

    def next(self, text: str, start: int, end: int | None = None) -> tuple[int, int] | None:
        """Where the first mark at or after a place, and before another, begins and ends."""
        match = self._pattern.search(text, start, len(text) if end is None else end)
        return None if match is None else match.span()

    def held(self, text: str, start: int) -> int:
        """How many characters at the end may be the beginning of a mark."""
        most = min(self.longest - 1, len(text) - start)
        return next((n for n in range(most, 0, -1) if text[len(text) - n :] in self._begun), 0)


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
        kept = text.rstrip()
        if len(kept) < len(text):
            self._blanks.append(text[len(kept) :])
        self.begun = self._some = True
        self._pieces.append(kept)
        return kept

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
