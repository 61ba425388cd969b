"""Regular expressions from files: matched in time that grows with text and pattern, never more.

A pattern is compiled to a nondeterministic automaton whose states are followed together (Thompson,
1968). It has Python's syntax without what no automaton has: references to groups, conditions,
possessive repeats and looking behind, which are refused by name. Matches are told, not their parts.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.patterns.parsed import LONGEST, Look, Program, Refused, program_of

_STEPS = 1 << 22  # of one match: far more than names of modules take
# Without any of these a pattern is a text. With at most two repeats, none of a group, Python's own
# matcher takes at most the cube of the text's length.
_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")
_REPEATS = re.compile(r"[*+?{]")
_SLOW, _REFERENCE = re.compile(r"\)[*+?{]|\(\?"), re.compile(r"\\[1-9]")
_PLAIN_PARTS = re.compile(r"\\.|\[[^\]]*\]", re.DOTALL)


class Pattern:
    """A compiled pattern; see `compiled`."""

    def __init__(self, text: str, program: Program | None, own: re.Pattern[str] | None) -> None:
        self.text, self._program, self._own = text, program, own

    def fullmatch(self, text: str) -> bool:
        """Whether the whole text matches."""
        if self._own is not None:
            return self._own.fullmatch(text) is not None
        return self._run(text, 0, to_end=True)

    def match(self, text: str) -> bool:
        """Whether the text begins with a match."""
        if self._own is not None:
            return self._own.match(text) is not None
        return self._run(text, 0)

    def search(self, text: str) -> bool:
        """Whether there is a match anywhere in the text."""
        if self._own is not None:
            return self._own.search(text) is not None
        return self._run(text, 0, anywhere=True)

    def _run(self, text: str, begin: int, to_end: bool = False, anywhere: bool = False) -> bool:
        if self._program is None:
            if to_end:
                return text == self.text
            return self.text in text if anywhere else text.startswith(self.text)
        return _Match(self.text, text).runs(self._program, begin, to_end, anywhere)


class _Match:
    """One match: the steps that are left, and what looking ahead found at each place."""

    def __init__(self, pattern: str, text: str) -> None:
        self.pattern, self.text, self.left = pattern, text, _STEPS
        self.seen: dict[tuple[int, int], bool] = {}

    def runs(self, program: Program, place: int, to_end: bool, anywhere: bool) -> bool:
        """Whether a program matches from a place on."""
        text, states = self.text, self._reached(program, [0], place)
        while True:
            if program.end in states and (not to_end or place == len(text)):
                return True
            if place == len(text) or not (states or anywhere):
                return False
            char, following = text[place], []
            for state in states - {program.end}:
                step = program.steps[state]
                if step.test is not None and step.test(char):
                    following.append(state + 1)
            place += 1
            if anywhere:
                following.append(0)
            states = self._reached(program, following, place)

    def _reached(self, program: Program, begin: list[int], place: int) -> set[int]:
        """The states that are reached without a character."""
        reached: set[int] = set()
        waiting = begin
        while waiting:
            state = waiting.pop()
            if state in reached:
                continue
            reached.add(state)
            self.left -= 1
            if self.left < 0:
                raise FormatError(
                    f"the pattern {brief(self.pattern)} takes more than {_STEPS} steps for one name"
                )
            if state == program.end:
                continue
            step = program.steps[state]
            if step.look is not None:
                if self._looks(step.look, place):
                    waiting.append(state + 1)
            elif step.test is None:
                waiting += [state + n for n in step.jumps]
        return reached

    def _looks(self, look: Look, place: int) -> bool:
        if look.place is not None:
            return look.place(self.text, place)
        assert look.program is not None
        key = id(look), place
        if key not in self.seen:
            self.seen[key] = self.runs(look.program, place, False, False) != look.negative
        return self.seen[key]


@lru_cache(maxsize=1 << 13)
def compiled(text: str, label: str, before: str = "", after: str = "") -> Pattern:
    """The pattern `text` of a file; FormatError that begins with `label` where it is refused.

    before, after: what the pattern stands between, in a group of its own, if they are given.
    """
    if len(text) > LONGEST:
        raise FormatError(f"{label}: a pattern of {len(text)} characters; at most {LONGEST}")
    around = f"{before}({text}){after}" if before or after else text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            by_re = re.compile(around)
        if not _SPECIAL.search(around):
            return Pattern(around, None, None)
        bare = _PLAIN_PARTS.sub("x", text)
        quick = len(_REPEATS.findall(bare)) <= 2 and not _SLOW.search(bare)
        quick = quick and not _REFERENCE.search(text)
        return Pattern(around, None if quick else program_of(around), by_re if quick else None)
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise FormatError(f"{label}: {brief(text)} is no regular expression: {error}") from None
    except Refused as error:
        raise FormatError(f"{label}: {brief(text)} is not supported: it has {error}") from None
