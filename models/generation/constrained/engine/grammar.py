"""Grammars: nodes that choose between rows of nodes, down to lexemes; threads that follow them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.models.generation.constrained.engine.lexeme import Lexeme
from rushlight.models.generation.constrained.engine.trie import Trie

Array = npt.NDArray[Any]
# Masks that are kept, and threads of a state.
_KEPT, _MOST_THREADS = 256, 4096
_MOST_HEADS = 100_000


class Node:
    """A part of a grammar: `choices` are the rows of nodes of which one must follow."""

    def choices(self) -> Sequence[Sequence[Node]]:
        """Rows of nodes; an empty row is nothing at all."""
        raise NotImplementedError


class Leaf(Node):
    """A lexeme."""

    def __init__(self, lexeme: Lexeme) -> None:
        self.lexeme = lexeme


class Choice(Node):
    """One of several rows; they may be said after the node is made, for nodes within themselves."""

    def __init__(self, rows: Sequence[Sequence[Node]] = ()) -> None:
        self.rows = rows

    def choices(self) -> Sequence[Sequence[Node]]:
        """The rows."""
        return self.rows


class Later(Node):
    """A node whose rows are made when they are first needed."""

    def __init__(self, make: Callable[[], Sequence[Sequence[Node]]]) -> None:
        self._make, self._rows = make, None

    def choices(self) -> Sequence[Sequence[Node]]:
        """The rows."""
        if self._rows is None:
            self._rows = self._make()  # type: ignore[assignment]
        return self._rows  # type: ignore[return-value]


class Stack:
    """What must follow: a node, and then the rest. None is the end."""

    __slots__ = ("heads", "node", "rest")

    def __init__(self, node: Node, rest: Stack | None) -> None:
        self.node, self.rest = node, rest
        self.heads: frozenset[Thread] | None = None


# A lexeme, its state, and what follows it. The end is a thread without a lexeme.
Thread = tuple[Lexeme | None, int, Stack | None]
END: Thread = (None, 0, None)
Threads = frozenset[Thread]


class Grammar:
    """A grammar over a vocabulary's trie: states, what follows them, and masks."""

    def __init__(self, start: Node, trie: Trie) -> None:
        self.trie = trie
        self._stacks: dict[tuple[int, int], Stack] = {}
        self._nodes: dict[int, Node] = {}  # kept, so that ids stay theirs
        self._masks: OrderedDict[Threads, Array] = OrderedDict()
        self._steps: dict[tuple[Threads, int], Threads] = {}
        self.start = self._heads(self._push((start,), None))

    def _push(self, row: Sequence[Node], rest: Stack | None) -> Stack | None:
        for node in reversed(row):
            key = (id(node), id(rest))
            stack = self._stacks.get(key)
            if stack is None:
                self._nodes[id(node)] = node
                stack = self._stacks[key] = Stack(node, rest)
            rest = stack
        return rest

    def _heads(self, stack: Stack | None) -> Threads:
        """The threads that begin what follows."""
        if stack is None:
            return frozenset((END,))
        if stack.heads is not None:
            return stack.heads
        heads: set[Thread] = set()
        seen: set[int] = set()
        waiting: list[Stack | None] = [stack]
        while waiting:
            top = waiting.pop()
            if top is None:
                heads.add(END)
                continue
            if id(top) in seen:
                continue
            seen.add(id(top))
            if len(seen) > _MOST_HEADS:
                raise ValueError(
                    "response_format: the grammar goes on without a character; a rule begins "
                    "with itself"
                )
            if isinstance(top.node, Leaf):
                lexeme = top.node.lexeme
                if lexeme.goes_on(0):
                    heads.add((lexeme, 0, top.rest))
                if lexeme.accepts[0]:
                    waiting.append(top.rest)
            else:
                waiting += [self._push(row, top.rest) for row in top.node.choices()]
        stack.heads = frozenset(heads)
        return stack.heads

    def step(self, threads: Threads, byte: int) -> Threads:
        """The threads after a byte; none if it may not follow."""
        key = (threads, byte)
        known = self._steps.get(key)
        if known is None:
            after: set[Thread] = set()
            for lexeme, state, rest in threads:
                if lexeme is None:
                    continue
                target = lexeme.next(state, byte)
                if target < 0:
                    continue
                if lexeme.goes_on(target):
                    after.add((lexeme, target, rest))
                if lexeme.accepts[target]:
                    after |= self._heads(rest)
            if len(after) > _MOST_THREADS:
                raise ValueError("response_format: the grammar is too ambiguous")
            if len(self._steps) > 65_536:
                self._steps.clear()
            known = self._steps[key] = frozenset(after)
        return known

    def allowed(self, threads: Threads) -> Array:
        """Which tokens may follow, a boolean for each."""
        bits = self._masks.get(threads)
        if bits is None:
            live = np.zeros(self.trie.size, np.bool_)
            self._walk(threads, None, live)
            bits = np.packbits(self.trie.mask(live))
            self._masks[threads] = bits
            if len(self._masks) > _KEPT:
                self._masks.popitem(last=False)
        return np.unpackbits(bits, count=self.trie.vocabulary).view(np.bool_)

    def _walk(self, threads: Threads, nodes: Array | None, live: Array) -> None:
        for lexeme, state, rest in threads:
            if lexeme is not None:
                reached, exits = self.trie.walk(lexeme, state, nodes)
                live[reached] = True
                if len(exits):
                    self._walk(self._heads(rest), exits, live)
