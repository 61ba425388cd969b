"""GBNF, llama.cpp's notation of grammars, as nodes."""

from __future__ import annotations

import re

from rushlight.models.generation.constrained.engine.grammar import Choice, Leaf, Node
from rushlight.models.generation.constrained.engine.regex import LAST, Nfa, Regex, complement

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_IN_LINE = re.compile(r"(?:[ \t]|#[^\n]*)*")
_COUNT = re.compile(r"\{\s*(\d{1,6})\s*(?:(,)\s*(\d{1,6})?\s*)?\}")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_HEX = {"x": 2, "u": 4, "U": 8}
# Repetitions of one part, and levels of brackets.
_MOST, _DEEPEST = 2_000, 64


def gbnf_node(source: str) -> Node:
    """The grammar that GBNF describes, from its rule `root`.

    ValueError that names the place of what is wrong, rules without an end, and rules that begin
    with themselves.
    """
    return _Reader(source).grammar()


class _Reader:
    def __init__(self, source: str) -> None:
        self._text, self._at = source, 0
        self._rules: dict[str, Choice] = {}
        self._defined: set[str] = set()

    def grammar(self) -> Node:
        self._skip()
        while self._at < len(self._text):
            name = self._name()
            self._skip()
            self._expect("::=")
            self._skip()
            if name in self._defined:
                raise self._wrong(f"the rule {name!r} is there twice")
            self._defined.add(name)
            self._rule(name).rows = self._alternatives(0)
            self._skip()
        missing = sorted({*self._rules} - self._defined)
        if missing or "root" not in self._defined:
            raise ValueError(
                f"response_format: the grammar has no rule {(missing or ['root'])[0]!r}"
            )
        _check(self._rules)
        return self._rules["root"]

    def _rule(self, name: str) -> Choice:
        return self._rules.setdefault(name, Choice())

    def _wrong(self, what: str) -> ValueError:
        line = self._text.count("\n", 0, self._at) + 1
        return ValueError(f"response_format: the grammar's line {line}: {what}")

    def _skip(self, in_line: bool = False) -> None:
        match = (_IN_LINE if in_line else _BLANK).match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _sees(self, text: str) -> bool:
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._sees(text):
            raise self._wrong(
                f"{text!r} is expected before {self._text[self._at : self._at + 20]!r}"
            )

    def _name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            raise self._wrong(f"a name is expected before {self._text[self._at : self._at + 20]!r}")
        self._at = match.end()
        return match[0]

    def _alternatives(self, depth: int) -> list[list[Node]]:
        rows = [self._row(depth)]
        while True:
            place = self._at
            self._skip()
            if not self._sees("|"):
                self._at = place
                return rows
            self._skip()
            rows.append(self._row(depth))

    def _row(self, depth: int) -> list[Node]:
        if depth > _DEEPEST:
            raise self._wrong(f"there are more than {_DEEPEST} levels of brackets")
        row: list[Node] = []
        while True:
            self._skip(in_line=depth == 0)
            node = self._part(depth)
            if node is None:
                return row
            row.append(self._repeated(node))

    def _part(self, depth: int) -> Node | None:
        text = self._text
        char = text[self._at : self._at + 1]
        if char == '"':
            self._at += 1
            letters = []
            while not self._sees('"'):
                letters.append(self._character())
            nfa = Nfa("a text")
            begin = nfa.state()
            return Leaf(Regex(nfa, begin, nfa.data(begin, "".join(letters).encode())))
        if char == "[":
            return self._class()
        if char == ".":
            self._at += 1
            return _one_of([(0, LAST)])
        if char == "(":
            self._at += 1
            self._skip()
            node = Choice(self._alternatives(depth + 1))
            self._skip()
            self._expect(")")
            return node
        match = _NAME.match(text, self._at)
        if match is None or re.compile(r"\s*::=").match(text, match.end()):
            return None
        self._at = match.end()
        return self._rule(match[0])

    def _character(self) -> str:
        if self._at >= len(self._text):
            raise self._wrong("a text or a class has no end")
        char = self._text[self._at]
        self._at += 1
        if char != "\\":
            return char
        kind = self._text[self._at : self._at + 1]
        self._at += 1
        if kind in _HEX:
            digits = self._text[self._at : self._at + _HEX[kind]]
            self._at += _HEX[kind]
            try:
                return chr(int(digits, 16))
            except ValueError:
                raise self._wrong(f"{digits!r} is no character") from None
        return _ESCAPES.get(kind, kind)

    def _class(self) -> Node:
        self._at += 1
        negated = self._sees("^")
        ranges = []
        while not self._sees("]"):
            low = high = ord(self._character())
            if self._text[self._at : self._at + 1] == "-" and not self._text.startswith(
                "-]", self._at
            ):
                self._at += 1
                high = ord(self._character())
            ranges.append((low, high))
        return _one_of(complement(ranges) if negated else ranges)

    def _repeated(self, node: Node) -> Node:
        while True:
            match = _COUNT.match(self._text, self._at)
            if self._sees("*"):
                least, most = 0, None
            elif self._sees("+"):
                least, most = 1, None
            elif self._sees("?"):
                least, most = 0, 1
            elif match is not None:
                self._at = match.end()
                least = int(match[1])
                most = least if match[2] is None else int(match[3]) if match[3] else None
            else:
                return node
            if max(least, most or 0) > _MOST or (most is not None and most < least):
                raise self._wrong(f"a repetition is from 0 to {_MOST} times, the lesser first")
            node = _times(node, least, most)


def _times(node: Node, least: int, most: int | None) -> Node:
    """A node so many times."""
    more: Node
    if most is None:
        loop = Choice()
        loop.rows = [[], [node, loop]]
        more = loop
    else:
        more = Choice([[]])
        for _ in range(most - least):
            more = Choice([[], [node, more]])
    return Choice([[*[node] * least, more]])


def _one_of(ranges: list[tuple[int, int]]) -> Leaf:
    nfa = Nfa("a class")
    begin = nfa.state()
    return Leaf(Regex(nfa, begin, nfa.characters(begin, ranges)))


def _check(rules: dict[str, Choice]) -> None:
    """Raise ValueError for a rule that never ends, and for one that begins with itself."""
    ends: set[int] = set()
    nodes: list[Choice] = []
    waiting, seen = list(rules.values()), set()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            nodes.append(node)
            waiting += [inner for row in node.rows for inner in row if isinstance(inner, Choice)]

    def ended(row: list[Node], known: set[int]) -> bool:
        return all(isinstance(node, Leaf) or id(node) in known for node in row)

    grows = True
    while grows:
        grows = False
        for node in reversed(nodes):
            if id(node) not in ends and any(ended(list(row), ends) for row in node.rows):
                ends.add(id(node))
                grows = True
    for name, rule in rules.items():
        if id(rule) not in ends:
            raise ValueError(f"response_format: the grammar's rule {name!r} never ends")
    _check_beginnings(rules, nodes)


def _check_beginnings(rules: dict[str, Choice], nodes: list[Choice]) -> None:
    """Raise ValueError for a rule that begins with itself and goes on: it would grow for ever."""
    empty: set[int] = set()

    def vanishes(node: Node) -> bool:
        return bool(node.lexeme.accepts[0]) if isinstance(node, Leaf) else id(node) in empty

    grows = True
    while grows:
        grows = False
        for node in nodes:
            if id(node) not in empty and any(all(map(vanishes, row)) for row in node.rows):
                empty.add(id(node))
                grows = True
    first: dict[int, set[int]] = {id(node): set() for node in nodes}
    inner: list[tuple[int, int]] = []  # what begins a row that goes on
    for node in nodes:
        for row in node.rows:
            for i, begin in enumerate(row):
                if not isinstance(begin, Leaf):
                    first[id(node)].add(id(begin))
                    if i + 1 < len(row):
                        inner.append((id(node), id(begin)))
                if not vanishes(begin):
                    break
    names = {id(rule): name for name, rule in rules.items()}
    for source, target in inner:
        reached, waiting = {target}, [target]
        while waiting:
            for after in first[waiting.pop()] - reached:
                reached.add(after)
                waiting.append(after)
        if source in reached:
            name = next((names[id] for id in (source, *reached) if id in names), "root")
            raise ValueError(
                f"response_format: the grammar's rule {name!r} begins with itself; turn it into a "
                "repetition"
            )
