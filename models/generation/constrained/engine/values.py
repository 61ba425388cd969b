"""The lexemes of JSON: strings of a bounded length, numbers within bounds, further keys."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.models.generation.constrained.engine.lexeme import Lexeme, one_class_each
from rushlight.models.generation.constrained.engine.regex import LAST, Nfa, Regex, regex

Array = npt.NDArray[Any]
BLANK = r"[ \n\r\t]{0,32}"  # as much as `guidance.BLANKS` allows
INTEGER = r"-?(0|[1-9][0-9]*)"
NUMBER = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"
# Digits after the point of a number that has bounds.
_PLACES = 16

_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_DAY = (
    r"[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    r"|02-(0[1-9]|1[0-9]|2[0-8]))"
)
_TIME = (
    r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)
_LABEL = r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*"
FORMATS = {
    "date": _DAY,
    "time": _TIME,
    "date-time": f"{_DAY}T{_TIME}",
    "duration": r"P([1-9][0-9]{0,3}W|[1-9][0-9]{0,3}D(T[1-9][0-9]{0,3}[HMS])?"
    r"|T[1-9][0-9]{0,3}[HMS]|[1-9][0-9]{0,3}[YM])",
    "email": rf"[a-zA-Z0-9]+([._+-][a-zA-Z0-9]+)*@{_LABEL}(\.{_LABEL})+",
    "hostname": rf"{_LABEL}(\.{_LABEL})*",
    "ipv4": rf"{_OCTET}(\.{_OCTET}){{3}}",
    "ipv6": r"([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}"
    r"|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|::1?",
    "uuid": r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "uri": r"[a-zA-Z][a-zA-Z0-9+.-]+://[a-zA-Z0-9._~:/?#@!$&()*+,;=-]+",
}


@lru_cache(256)
def pattern_in_json(pattern: str, search: bool) -> Regex:
    """The lexeme of strings of JSON that a pattern matches, made once."""
    return regex(pattern, json=True, search=search)


@lru_cache(1024)
def lexeme(pattern: str) -> Regex:
    """The lexeme of a pattern of bytes, made once."""
    return regex(pattern)


@cache
def string() -> Regex:
    """A string of JSON: characters, and the escapes of those that need one."""
    nfa = Nfa("a string")
    begin = nfa.state()
    loop = nfa.data(begin, b'"')
    nfa.empty[nfa.characters(loop, [(32, 33), (35, 91), (93, 126), (128, LAST)])].append(loop)
    escape = nfa.data(loop, b"\\")
    nfa.empty[nfa.characters(escape, [(ord(c), ord(c)) for c in '"\\bfnrt'])].append(loop)
    code = nfa.data(escape, b"u00")  # of characters that JSON does not take as they are
    low = nfa.characters(code, [(48, 49)])
    nfa.empty[nfa.characters(low, [(48, 57), (65, 70), (97, 102)])].append(loop)
    nfa.empty[nfa.characters(nfa.data(code, b"7"), [(70, 70), (102, 102)])].append(loop)
    return Regex(nfa, begin, nfa.data(loop, b'"'))


class Counted(Lexeme):
    """A string of at least and at most so many characters.

    Its walk is that of any string, less what has too many or too few characters.
    """

    def __init__(self, least: int, most: int | None) -> None:
        self._least, self._most = least, most
        self._plain = string()
        self._inside = self._plain.next(0, ord('"'))
        super().__init__(self._plain.classes, (0, 0))

    def _successors(self, meaning: Any) -> list[Hashable | None]:
        state, count = meaning
        if not self._plain.filled[state]:
            self._plain.fill(state)
        answer: list[Hashable | None] = []
        for target in self._plain.table[state].tolist():
            after = count + (target == self._inside and state != 0)
            if self._most is None:
                after = min(after, self._least)
            within = self._most is None or after <= self._most
            # A character that is begun needs room, too.
            begun = target not in (self._inside, DEAD) and not self._plain.accepts[target]
            room = self._most is None or not begun or count < self._most
            enough = target < 0 or not self._plain.accepts[target] or count >= self._least
            answer.append((target, after) if target >= 0 and within and room and enough else None)
        return answer

    def _accepts(self, meaning: Any) -> bool:
        return bool(self._plain.accepts[meaning[0]])


DEAD = -1


class Bounded(Lexeme):
    """A number between bounds, without an exponent.

    low, high: None for none; open_low, open_high: whether the bound itself is out. whole: only
    integers. ValueError if there is no such number.
    """

    def __init__(
        self,
        low: Fraction | None,
        high: Fraction | None,
        open_low: bool,
        open_high: bool,
        whole: bool,
    ) -> None:
        self._whole = whole
        if whole:
            if low is not None:
                low = Fraction(math.floor(low) + 1 if open_low else math.ceil(low))
            if high is not None:
                high = Fraction(math.ceil(high) - 1 if open_high else math.floor(high))
            open_low = open_high = False
        # Bounds and numbers are counted in this part of one, so that all are integers.
        scale = math.lcm(*(bound.denominator for bound in (low, high) if bound is not None))
        self._scale = scale = 1 if whole else scale * 10**_PLACES
        self._low = None if low is None else int(low * scale), open_low
        self._high = None if high is None else int(high * scale), open_high
        self._bounds = [self._magnitudes(negative) for negative in (False, True)]
        super().__init__(one_class_each("0123456789-."), ("start",))
        if not self._reaches(("start",)):
            raise ValueError(
                f"response_format: no {'integer' if whole else 'number'} is from {low} to {high}"
            )

    def _magnitudes(self, negative: bool) -> tuple[int, bool, int | None, bool]:
        """The bounds of a number's magnitude: low, whether it is out, high, whether it is out."""
        (low, open_low), (high, open_high) = self._low, self._high
        if negative:
            low, high = None if high is None else -high, None if low is None else -low
            open_low, open_high = open_high, open_low
        if low is None or low < 0:
            low, open_low = 0, False
        return low, open_low, high, open_high

    def _meets(self, negative: bool, first: int, last: int, closed: bool) -> bool:
        """Whether a magnitude from `first` to `last`, itself in if `closed`, is within bounds."""
        low, open_low, high, open_high = self._bounds[negative]
        if high is not None and (first > high or (first == high and open_high)):
            return False
        return bool(last > low or (last == low and closed and not open_low))

    def _reaches(self, meaning: Any) -> bool:
        """Whether a number that begins so may be within the bounds."""
        kind = meaning[0]
        if kind in ("start", "minus"):
            signs = (False, True) if kind == "start" else (True,)
            if kind == "minus" and self._low[0] is not None and self._low[0] >= 0:
                return False
            return any(
                self._reaches(("whole", sign, digit)) for sign in signs for digit in range(10)
            )
        if kind == "free":
            return True
        _, negative, value = meaning[:3]
        if kind == "whole":
            if negative and value == 0 and self._whole:
                return False
            high = self._bounds[negative][2]
            power = 1
            while True:
                first = value * power * self._scale
                last = first + (power - 1 if self._whole else power * self._scale)
                if self._meets(negative, first, last, self._whole):
                    return True
                if value == 0 or (high is not None and first > high):
                    return False
                power *= 10
        step = self._scale // 10 ** meaning[3]
        if meaning[3] >= _PLACES:
            return self._meets(negative, value * step, value * step, True)
        return self._meets(negative, value * step, (value + 1) * step, False)

    def _settled(self, meaning: Any) -> Any:
        """One state for all that any digits may follow."""
        if meaning[0] not in ("whole", "places"):
            return meaning
        low, _, high, _ = self._bounds[meaning[1]]
        if meaning[0] == "whole" and high is None:
            if meaning[2] * self._scale > low and meaning[2] > 0:
                return ("free", "whole")
        elif meaning[0] == "places" and meaning[3]:
            step = self._scale // 10 ** meaning[3]
            first, last = meaning[2] * step, (meaning[2] + 1) * step
            if first > low and (high is None or last <= high):
                return ("free", "places")
        return meaning

    def _successors(self, meaning: Any) -> list[Hashable | None]:
        answer: list[Hashable | None] = []
        for char in "0123456789-.~":
            target = self._after(meaning, char)
            if target is not None and not self._reaches(target):
                target = None
            answer.append(None if target is None else self._settled(target))
        return answer

    def _after(self, meaning: Any, char: str) -> Any:
        kind = meaning[0]
        if char == "~":
            return None
        if char == "-":
            return ("minus",) if kind == "start" else None
        if kind == "free":
            if char == ".":
                if meaning[1] == "whole" and not self._whole:
                    return ("free", "point")
                return None
            return meaning if meaning[1] == "whole" else ("free", "places")
        if char == ".":
            if kind == "whole" and not self._whole:
                return ("places", meaning[1], meaning[2], 0)
            return None
        digit = int(char)
        if kind in ("start", "minus"):
            return ("whole", kind == "minus", digit)
        if kind == "whole":
            return None if meaning[2] == 0 else ("whole", meaning[1], meaning[2] * 10 + digit)
        _, negative, value, places = meaning
        if places >= _PLACES:
            return None
        return ("places", negative, value * 10 + digit, places + 1)

    def _accepts(self, meaning: Any) -> bool:
        kind = meaning[0]
        if kind == "free":
            return bool(meaning[1] != "point")
        if kind == "whole":
            value = meaning[2] * self._scale
        elif kind == "places" and meaning[3] > 0:
            value = meaning[2] * (self._scale // 10 ** meaning[3])
        else:
            return False
        return self._meets(meaning[1], value, value, True)


class OtherKey(Lexeme):
    """A string that is none of some names."""

    def __init__(self, names: list[str]) -> None:
        self._plain = string()
        self._inside = self._plain.next(0, ord('"'))
        self._tree: list[dict[int, int]] = [{}]
        self._ends: set[int] = set()
        # A name of control characters has several spellings.
        self._codes = all(char >= " " for name in names for char in name)
        for name in names:
            node = 0
            for byte in json.dumps(name, ensure_ascii=False)[1:-1].encode():
                node = self._tree[node].setdefault(byte, len(self._tree))
                if node == len(self._tree):
                    self._tree.append({})
            self._ends.add(node)
        super().__init__(np.arange(256), (0, 0))

    def _successors(self, meaning: Any) -> list[Hashable | None]:
        state, node = meaning
        if not self._plain.filled[state]:
            self._plain.fill(state)
        row = self._plain.table[state].tolist()
        classes = self._plain.classes.tolist()
        answer: list[Hashable | None] = []
        for byte in range(256):
            target = row[classes[byte]]
            after = node
            if state != 0:
                after = self._tree[node].get(byte, -1) if node >= 0 else -1
            escaped = state not in (0, self._inside)
            bad = target < 0 or (byte == ord("u") and escaped and not self._codes)
            if not bad and self._plain.accepts[target]:
                bad, after = node in self._ends, -1
            answer.append(None if bad else (target, after))
        return answer

    def _accepts(self, meaning: Any) -> bool:
        return bool(self._plain.accepts[meaning[0]])
