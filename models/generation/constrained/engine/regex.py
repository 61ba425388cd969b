"""Regular expressions as automata over bytes of UTF-8, or of JSON's spelling of characters.

The NFA is Thompson's (1968); its sets of states are made deterministic as they are reached. Classes
of code points become ranges of bytes as in Russ Cox's RE2.
"""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found, unused-ignore]
import re._parser as parser  # type: ignore[import-not-found, unused-ignore]
import warnings
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from rushlight.models.generation.constrained.engine.lexeme import Lexeme

Ranges = list[tuple[int, int]]
# States of an NFA: a pattern with large repetitions needs more and is refused.
MOST_PARTS = 12_000
LAST = 0x10FFFF
_ESCAPED = {'"': b'\\"', "\\": b"\\\\", "\b": b"\\b", "\f": b"\\f", "\n": b"\\n", "\r": b"\\r"}
_ESCAPED["\t"] = b"\\t"
_DIGIT: Ranges = [(48, 57)]
_WORD: Ranges = [(48, 57), (65, 90), (95, 95), (97, 122)]
_SPACE: Ranges = [(9, 13), (32, 32)]
# Characters that some engines count as blanks, words or digits, and others do not, are in neither a
# class nor its complement.
_BLANKS: Ranges = [(9, 13), (28, 32), (133, 133), (160, 160), (5760, 5760), (8192, 8202)]
_BLANKS += [(8232, 8233), (8239, 8239), (8287, 8287), (12288, 12288), (65279, 65279)]
_NAMED_GROUP = re.compile(r"\(\?<(?![=!])(\w+)>")


def complement(ranges: Ranges, last: int = LAST) -> Ranges:
    """The code points up to the `last` that are in none of the ranges."""
    answer, place = [], 0
    for low, high in sorted(ranges):
        if low > place:
            answer.append((place, low - 1))
        place = max(place, high + 1)
    return answer + ([(place, last)] if place <= last else [])


class Nfa:
    """States with edges by ranges of bytes and without; `Regex` makes it deterministic."""

    def __init__(self, what: str, json: bool = False) -> None:
        self.what, self.json = what, json
        self.edges: list[list[tuple[int, int, int]]] = []
        self.empty: list[list[int]] = []

    def state(self) -> int:
        """A new state."""
        if len(self.edges) >= MOST_PARTS:
            raise ValueError(
                f"response_format: {self.what} needs more than {MOST_PARTS} states; use smaller "
                "repetitions"
            )
        self.edges.append([])
        self.empty.append([])
        return len(self.edges) - 1

    def data(self, begin: int, data: bytes) -> int:
        """Go on with bytes; returns the last state."""
        for byte in data:
            end = self.state()
            self.edges[begin].append((byte, byte, end))
            begin = end
        return begin

    def characters(self, begin: int, ranges: Ranges) -> int:
        """Go on with one of some code points."""
        end = self.state()
        if self.json:
            for char, spelled in _ESCAPED.items():
                if any(low <= ord(char) <= high for low, high in ranges):
                    last = self.data(begin, spelled[:-1])
                    self.edges[last].append((spelled[-1], spelled[-1], end))
            outside = complement([(0, 31), (34, 34), (92, 92)])
            ranges = [
                (max(a, low), min(b, high))
                for a, b in outside
                for low, high in ranges
                if max(a, low) <= min(b, high)
            ]
        for low, high in ranges:
            for row in utf8(low, high):
                state = begin
                for a, b in row[:-1]:
                    target = self.state()
                    self.edges[state].append((a, b, target))
                    state = target
                self.edges[state].append((*row[-1], end))
        return end


def utf8(low: int, high: int) -> Iterator[list[tuple[int, int]]]:
    """The code points of a range as rows of ranges of bytes; surrogates are left out."""
    for first, last, size in ((0, 0x7F, 1), (0x80, 0x7FF, 2), (0x800, 0xD7FF, 3),
                              (0xE000, 0xFFFF, 3), (0x10000, LAST, 4)):  # fmt: skip
        a, b = max(low, first), min(high, last)
        if a <= b:
            yield from _split(a, b, size)


def _split(low: int, high: int, size: int) -> Iterator[list[tuple[int, int]]]:
    for i in range(1, size):
        mask = (1 << (6 * i)) - 1
        if low & ~mask != high & ~mask:
            if low & mask:
                yield from _split(low, low | mask, size)
                yield from _split((low | mask) + 1, high, size)
                return
            if high & mask != mask:
                yield from _split(low, (high & ~mask) - 1, size)
                yield from _split(high & ~mask, high, size)
                return
    yield list(zip(chr(low).encode(), chr(high).encode(), strict=True))


class Regex(Lexeme):
    """The automaton of an NFA between two of its states."""

    def __init__(self, nfa: Nfa, begin: int, end: int) -> None:
        self._end = end
        useful = _reaching(nfa, end)
        if begin not in useful:
            raise ValueError(f"response_format: nothing satisfies {nfa.what}")
        self._edges = [[e for e in row if e[2] in useful] for row in nfa.edges]
        self._empty = nfa.empty
        self._closures: dict[int, frozenset[int]] = {}
        cuts = np.zeros(257, np.bool_)
        for row in self._edges:
            for low, high, _ in row:
                cuts[low] = cuts[high + 1] = True
        classes = np.cumsum(cuts[:256]) - int(cuts[0])
        self._class = classes.tolist()
        super().__init__(classes, self._closure({begin}))

    def _closure(self, states: set[int]) -> frozenset[int]:
        """The states with what they reach without a byte, those alone that matter."""
        answer, waiting = {*states}, [*states]
        while waiting:
            for target in self._empty[waiting.pop()]:
                if target not in answer:
                    answer.add(target)
                    waiting.append(target)
        return frozenset(s for s in answer if self._edges[s] or s == self._end)

    def _successors(self, meaning: Any) -> list[Hashable | None]:
        targets: list[set[int]] = [set() for _ in range(self.width)]
        for state in meaning:
            for low, high, target in self._edges[state]:
                for number in range(self._class[low], self._class[high] + 1):
                    targets[number].add(target)
        known: dict[frozenset[int], frozenset[int]] = {}
        answer: list[Hashable | None] = []
        for row in targets:
            key = frozenset(row)
            if key and key not in known:
                known[key] = self._closure(row)
            answer.append(known[key] if key else None)
        return answer

    def _accepts(self, meaning: Any) -> bool:
        return self._end in meaning


def _reaching(nfa: Nfa, end: int) -> set[int]:
    """The states from which the last one is reached."""
    before: list[list[int]] = [[] for _ in nfa.edges]
    for state, (edges, empty) in enumerate(zip(nfa.edges, nfa.empty, strict=True)):
        for target in (*(e[2] for e in edges), *empty):
            before[target].append(state)
    answer, waiting = {end}, [end]
    while waiting:
        for source in before[waiting.pop()]:
            if source not in answer:
                answer.add(source)
                waiting.append(source)
    return answer


def regex(pattern: str, *, json: bool = False, search: bool = False) -> Regex:
    """The automaton of a regular expression, from the beginning of a text to its end.

    json: over the spelling of a string of JSON, with its quotes. search: the pattern may match
    anywhere, as "pattern" of JSON Schema does, unless ^ and $ stand at its ends. ValueError for
    what no automaton can follow (look-around, back references), and for a pattern that is too
    large.
    """
    what = f"the pattern {pattern if len(pattern) < 80 else pattern[:77] + '...'!r}"
    nfa = Nfa(what, json)
    begin = nfa.state()
    first = nfa.data(begin, b'"') if json else begin
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parser.parse(_NAMED_GROUP.sub(r"(", pattern))
        last = _Builder(nfa, what).top(tree, first, search)
    except re.error as error:
        raise ValueError(f"response_format: {what}: {error}") from None
    except (RecursionError, OverflowError):
        raise ValueError(f"response_format: {what} is nested too deeply or too large") from None
    return Regex(nfa, begin, nfa.data(last, b'"') if json else last)


def texts(rows: list[bytes], what: str = "the choices") -> Regex:
    """The automaton of some texts."""
    nfa = Nfa(what)
    begin, end = nfa.state(), nfa.state()
    steps: dict[tuple[int, int], int] = {}
    for row in rows:  # as a tree, so that many texts with one beginning stay few states
        state = begin
        for byte in row:
            target = steps.get((state, byte))
            if target is None:
                target = steps[state, byte] = nfa.state()
                nfa.edges[state].append((byte, byte, target))
            state = target
        nfa.empty[state].append(end)
    return Regex(nfa, begin, end)


class _Builder:
    """Makes an NFA of what Python's own parser of regular expressions reads."""

    def __init__(self, nfa: Nfa, what: str) -> None:
        self._nfa, self._what = nfa, what
        self._flags = 0

    def top(self, tree: Any, begin: int, search: bool) -> int:
        """The whole pattern, whose anchors stand at the ends of its alternatives."""
        self._flags = tree.state.flags
        rows = [list(tree)]
        if len(rows[0]) == 1 and rows[0][0][0] is sre.BRANCH:
            rows = [list(row) for row in rows[0][0][1][1]]
        end = self._nfa.state()
        for row in rows:
            head = bool(row) and row[0] in (
                (sre.AT, sre.AT_BEGINNING),
                (sre.AT, sre.AT_BEGINNING_STRING),
            )
            row = row[1:] if head else row
            tail = bool(row) and row[-1] in ((sre.AT, sre.AT_END), (sre.AT, sre.AT_END_STRING))
            row = row[:-1] if tail else row
            state = self._nfa.state()
            self._nfa.empty[begin].append(state)
            if search and not head:
                state = self._anything(state)
            state = self._row(row, state)
            if search and not tail:
                state = self._anything(state)
            self._nfa.empty[state].append(end)
        return end

    def _anything(self, begin: int) -> int:
        loop = self._nfa.state()
        self._nfa.empty[begin].append(loop)
        self._nfa.empty[self._nfa.characters(loop, [(0, LAST)])].append(loop)
        return loop

    def _row(self, row: Any, begin: int) -> int:
        for op, value in row:
            begin = self._one(op, value, begin)
        return begin

    def _one(self, op: Any, value: Any, begin: int) -> int:
        nfa = self._nfa
        if op in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            return nfa.characters(begin, self._ranges(op, value))
        if op is sre.SUBPATTERN:
            _, add, drop, inner = value
            flags, self._flags = self._flags, (self._flags | add) & ~drop
            end = self._row(inner, begin)
            self._flags = flags
            return end
        if op is sre.BRANCH:
            end = nfa.state()
            for row in value[1]:
                nfa.empty[self._row(row, begin)].append(end)
            return end
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            return self._repeated(value, begin)
        raise ValueError(
            f"response_format: {self._what}: {_named(op, value)} is not supported; supported: "
            "classes, groups, alternatives, repetitions, and ^ and $ at the ends"
        )

    def _repeated(self, value: Any, begin: int) -> int:
        nfa = self._nfa
        least, most, inner = value
        for _ in range(least):
            begin = self._row(inner, begin)
        if most is sre.MAXREPEAT:
            loop = nfa.state()
            nfa.empty[begin].append(loop)
            nfa.empty[self._row(inner, loop)].append(loop)
            end = nfa.state()
            nfa.empty[loop].append(end)
            return end
        end = nfa.state()
        nfa.empty[begin].append(end)
        for _ in range(most - least):
            state = nfa.state()
            nfa.empty[begin].append(state)
            begin = self._row(inner, state)
            nfa.empty[begin].append(end)
        return end

    def _ranges(self, op: Any, value: Any) -> Ranges:
        if op is sre.ANY:
            return [(0, LAST)] if self._flags & re.DOTALL else complement([(10, 10)])
        if op is sre.LITERAL:
            return self._cased([(value, value)])
        if op is sre.NOT_LITERAL:
            return complement(self._cased([(value, value)]))
        ranges: Ranges = []
        negated = False
        for kind, inner in value:
            if kind is sre.NEGATE:
                negated = True
            elif kind is sre.LITERAL:
                ranges.append((inner, inner))
            elif kind is sre.RANGE:
                ranges.append(inner)
            elif kind is sre.CATEGORY:
                ranges += _category(inner, negated)
            else:
                raise ValueError(f"response_format: {self._what}: {kind} is not supported")
        ranges = self._cased(ranges)
        return complement(ranges) if negated else ranges

    def _cased(self, ranges: Ranges) -> Ranges:
        if not self._flags & re.IGNORECASE:
            return ranges
        small = [(max(a, 97) - 32, min(b, 122) - 32) for a, b in ranges if a <= 122 and b >= 97]
        large = [(max(a, 65) + 32, min(b, 90) + 32) for a, b in ranges if a <= 90 and b >= 65]
        return ranges + small + large


def _category(category: Any, negated: bool) -> Ranges:
    """The code points of a class such as \\d.

    negated: it stands in a class that is complemented, so that what engines disagree about is in.
    """
    beyond: Ranges = [(128, LAST)]
    match category:
        case sre.CATEGORY_DIGIT:
            return _DIGIT + (beyond if negated else [])
        case sre.CATEGORY_NOT_DIGIT:
            return complement(_DIGIT) if negated else complement(_DIGIT, 127)
        case sre.CATEGORY_WORD:
            return _WORD + (beyond if negated else [])
        case sre.CATEGORY_NOT_WORD:
            return complement(_WORD) if negated else complement(_WORD, 127)
        case sre.CATEGORY_SPACE:
            return _BLANKS if negated else _SPACE
        case sre.CATEGORY_NOT_SPACE:
            return complement(_SPACE) if negated else complement(_BLANKS)
    raise ValueError(f"response_format: the class {category} is not supported in a pattern")


def _named(op: Any, value: Any) -> str:
    names = {
        sre.ASSERT: "look-around",
        sre.ASSERT_NOT: "look-around",
        sre.GROUPREF: "a back reference",
        sre.GROUPREF_EXISTS: "a condition on a group",
        sre.AT: "an anchor within the pattern",
    }
    return names.get(op, str(op).lower())
