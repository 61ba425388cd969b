"""The syntax of regular expressions, as a program of an automaton."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

LONGEST = 1024  # characters of a pattern
_MOST = 1 << 12  # steps of a program, and of the copies that counted repeats make
Test = Callable[[str], bool]


class Refused(Exception):
    """A part of the syntax that no automaton has; the message names it."""


@dataclass(frozen=True, eq=False)
class Look:
    """A condition on a place of a text: a function, or a program that matches or does not."""

    place: Callable[[str, int], bool] | None = None
    program: Program | None = None
    negative: bool = False


@dataclass(frozen=True, eq=False)
class Step:
    """One state: a test of the next character, a condition, or jumps to states at distances."""

    test: Test | None = None
    look: Look | None = None
    jumps: tuple[int, ...] = ()


@dataclass(eq=False)
class Program:
    """Steps; a match ends past the last."""

    steps: list[Step] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The state of a match."""
        return len(self.steps)


def program_of(text: str) -> Program:
    """The program of a pattern that Python's `re` accepts; Refused for what no automaton has."""
    parser = _Parser(text)
    return Program(parser.alternatives(parser.flags_at_start()))


Steps = list[Step]


def _joined(parts: list[Steps]) -> Steps:
    return _bounded([step for steps in parts for step in steps])


def _bounded(steps: Steps) -> Steps:
    if len(steps) > _MOST:
        raise Refused(f"repeats that make more than {_MOST} states")
    return steps


def _either(parts: list[Steps]) -> Steps:
    """Steps that match one of several."""
    joined = parts[-1]
    for branch in reversed(parts[:-1]):
        # split; part; jump past the rest; the rest
        joined = [
            Step(jumps=(1, len(branch) + 2)),
            *branch,
            Step(jumps=(len(joined) + 1,)),
            *joined,
        ]
    return _bounded(joined)


def _repeated(steps: Steps, least: int, most: int | None) -> Steps:
    if len(steps) * max(least, most or 0) > _MOST:
        raise Refused(f"repeats that make more than {_MOST} states")
    repeated = steps * least
    if most is None:
        loop = [Step(jumps=(1, len(steps) + 2)), *steps, Step(jumps=(-len(steps) - 1,))]
        return _bounded(repeated + loop)
    optional: Steps = []
    for _ in range(most - least):
        inner = steps + optional
        optional = [Step(jumps=(1, len(inner) + 1)), *inner]
    return _bounded(repeated + optional)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CLASSES: dict[str, Test] = {
    "d": str.isdecimal,
    "w": _is_word,
    "s": str.isspace,
    "D": lambda c: not c.isdecimal(),
    "W": lambda c: not _is_word(c),
    "S": lambda c: not c.isspace(),
}
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


def _at_word_edge(text: str, place: int) -> bool:
    before = place > 0 and _is_word(text[place - 1])
    return before != (place < len(text) and _is_word(text[place]))


_PLACES: dict[str, Callable[[str, int], bool]] = {
    "A": lambda text, at: at == 0,
    "Z": lambda text, at: at == len(text),
    "b": _at_word_edge,
    "B": lambda text, at: not _at_word_edge(text, at),
}


def _line_start(text: str, place: int) -> bool:
    return place == 0 or text[place - 1] == "\n"


def _line_end(text: str, place: int) -> bool:
    return place == len(text) or text[place] == "\n"


def _text_end(text: str, place: int) -> bool:
    return place == len(text) or (place == len(text) - 1 and text[place] == "\n")


class _Parser:
    """Reads a pattern from front to back; the flags are a string of letters."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def flags_at_start(self) -> str:
        """The letters of (?i) and its like at the beginning."""
        match = re.match(r"\(\?([aiLmsux]+)\)", self.text)
        if match is None:
            return ""
        self.at = match.end()
        return self._known(match[1])

    def alternatives(self, flags: str) -> Steps:
        """What stands between |, up to the end of a group or of the pattern."""
        parts = [self._sequence(flags)]
        while self._next() == "|":
            self.at += 1
            parts.append(self._sequence(flags))
        return _either(parts)

    def _known(self, letters: str) -> str:
        if more := set(letters) - set("imsxu"):
            raise Refused(f"the flag {min(more)!r}")
        return letters

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _sequence(self, flags: str) -> Steps:
        parts: list[Steps] = []
        while self._next() not in ("", "|", ")"):
            char = self._next()
            if "x" in flags and (char.isspace() or char == "#"):
                self._skip_comment(char)
                continue
            atom = self._atom(flags)
            if atom is not None:
                if "x" in flags:
                    while self._next() and (self._next().isspace() or self._next() == "#"):
                        self._skip_comment(self._next())
                parts.append(self._quantified(atom))
        return _joined(parts)

    def _skip_comment(self, char: str) -> None:
        if char != "#":
            self.at += 1
            return
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end + 1

    def _quantified(self, atom: Steps) -> Steps:
        match = re.compile(r"[*+?]|\{(\d*)(,?)(\d*)\}").match(self.text, self.at)
        if match is None or match[0] in ("{}", "{,}"):
            if match is not None and match[0] == "{,}":
                self.at = match.end()
                return _repeated(atom, 0, None)
            return atom
        self.at = match.end()
        if self._next() == "+":
            raise Refused("a possessive repeat")
        if self._next() == "?":  # the shortest first: which match it is does not matter
            self.at += 1
        known: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if match[0] in known:
            return _repeated(atom, *known[match[0]])
        least = int(match[1] or 0)
        most = (int(match[3]) if match[3] else None) if match[2] else least
        return _repeated(atom, least, most)

    def _atom(self, flags: str) -> Steps | None:
        """One part that may be repeated; None for a comment."""
        char = self._next()
        self.at += 1
        if char == "(":
            return self._group(flags)
        if char == "[":
            return [Step(test=self._class(flags))]
        if char == ".":
            return [Step(test=(lambda c: True) if "s" in flags else (lambda c: c != "\n"))]
        if char == "^":
            place = _line_start if "m" in flags else _PLACES["A"]
            return [Step(look=Look(place))]
        if char == "$":
            return [Step(look=Look(_line_end if "m" in flags else _text_end))]
        if char == "\\":
            if self._next() in _PLACES:
                self.at += 1
                return [Step(look=Look(_PLACES[self.text[self.at - 1]]))]
            what = self._escape()
            return [Step(test=what if callable(what) else _of_char(what, flags))]
        return [Step(test=_of_char(char, flags))]

    def _escape(self) -> str | Test:
        """The character, or the class, that follows a backslash."""
        char = self._next()
        self.at += 1
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _NAMED:
            return _NAMED[char]
        if char in ("x", "u", "U"):
            size = {"x": 2, "u": 4, "U": 8}[char]
            code = int(self.text[self.at : self.at + size], 16)
            self.at += size
            return chr(code)
        if char == "0":
            digits = re.compile("[0-7]{0,2}").match(self.text, self.at)
            assert digits is not None
            self.at = digits.end()
            return chr(int(digits[0] or "0", 8))
        if char.isdigit():
            raise Refused("a reference to a group")
        if char.isalpha():
            raise Refused(f"the escape \\{char}")
        return char

    def _group(self, flags: str) -> Steps | None:
        if self._next() != "?":
            return self._inside(flags)
        rest = self.text[self.at :]
        if rest.startswith("?#"):
            self.at = self.text.index(")", self.at) + 1
            return None
        if rest[:2] in ("?=", "?!"):
            self.at += 2
            look = Look(program=Program(self._inside(flags)), negative=rest[1] == "!")
            return [Step(look=look)]
        named = re.match(r"\?P<\w+>", rest)
        if named is not None:
            self.at += named.end()
            return self._inside(flags)
        scoped = re.match(r"\?([aiLmsux]*)(?:-([imsx]+))?:", rest)
        if scoped is None:
            kinds = {
                "?<": "looking behind",
                "?>": "an atomic group",
                "?(": "a condition",
                "?P": "a reference to a group",
            }
            raise Refused(kinds.get(rest[:2], f"({rest[:3]}"))
        self.at += scoped.end()
        inner_flags = set(flags + self._known(scoped[1])) - set(scoped[2] or "")
        return self._inside("".join(inner_flags))

    def _inside(self, flags: str) -> Steps:
        steps = self.alternatives(flags)
        self.at += 1  # the closing parenthesis
        return steps

    def _class(self, flags: str) -> Test:
        """A class in brackets, whose first one is read."""
        negative = self._next() == "^"
        self.at += negative
        tests: list[Test] = []
        first = True
        while first or self._next() != "]":
            low = self._class_part()
            first = False
            if callable(low):
                tests.append(low)
                continue
            ranged = self._next() == "-" and self.text[self.at + 1 : self.at + 2] != "]"
            high: str | Test = low
            if ranged:
                self.at += 1
                high = self._class_part()
            assert isinstance(high, str)
            tests.append(_of_range(low, high, flags))
        self.at += 1
        return lambda c: any(test(c) for test in tests) != negative

    def _class_part(self) -> str | Test:
        char = self._next()
        self.at += 1
        if char != "\\":
            return char
        if self._next() == "b":
            self.at += 1
            return "\b"
        return self._escape()


def _of_char(char: str, flags: str) -> Test:
    return _of_range(char, char, flags)


def _of_range(low: str, high: str, flags: str) -> Test:
    if "i" not in flags:
        return lambda c: low <= c <= high
    return lambda c: any(low <= x <= high for x in (c, c.lower(), c.upper()) if len(x) == 1)
