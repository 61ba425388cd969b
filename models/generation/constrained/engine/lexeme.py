"""Lexemes: automata over bytes whose states are made when they are first reached."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
DEAD = -1
# States of one automaton, and numbers of a state of a product.
MOST_STATES = 20_000


class Lexeme:
    """An automaton: states are numbers, 0 the first; every state can reach one that accepts.

    classes: the class of each of the 256 bytes; bytes of one class lead to the same states.
    Subclasses say what a state's successors are by `_successors` of what the state stands for.
    """

    def __init__(self, classes: Array, start: Hashable) -> None:
        self.classes = classes
        self.width = int(classes.max()) + 1
        self.meanings: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self.table = np.full((16, self.width), DEAD, np.int32)
        self.filled = np.zeros(16, np.bool_)
        self.accepts = np.zeros(16, np.bool_)
        self._number(start)

    def _successors(self, meaning: Any) -> list[Hashable | None]:
        """What each class of bytes leads to, None for nothing."""
        raise NotImplementedError

    def _accepts(self, meaning: Any) -> bool:
        raise NotImplementedError

    def _number(self, meaning: Hashable) -> int:
        number = self._numbers.get(meaning)
        if number is None:
            number = self._numbers[meaning] = len(self.meanings)
            if number >= MOST_STATES:
                raise ValueError(
                    f"response_format: a pattern needs more than {MOST_STATES} states; simplify it"
                )
            self.meanings.append(meaning)
            if number >= len(self.filled):
                more = len(self.filled)
                self.table = np.concatenate(
                    [self.table, np.full((more, self.width), DEAD, np.int32)]
                )
                self.filled = np.concatenate([self.filled, np.zeros(more, np.bool_)])
                self.accepts = np.concatenate([self.accepts, np.zeros(more, np.bool_)])
            self.accepts[number] = self._accepts(meaning)
        return number

    def fill(self, state: int) -> None:
        """Make the successors of a state."""
        row = [
            DEAD if meaning is None else self._number(meaning)
            for meaning in self._successors(self.meanings[state])
        ]
        self.table[state] = row
        self.filled[state] = True

    def next(self, state: int, byte: int) -> int:
        """The state after a byte, DEAD for none."""
        if not self.filled[state]:
            self.fill(state)
        return int(self.table[state, self.classes[byte]])

    def goes_on(self, state: int) -> bool:
        """Whether a byte may follow a state."""
        if not self.filled[state]:
            self.fill(state)
        return bool((self.table[state] >= 0).any())

    def matches(self, data: bytes) -> bool:
        """Whether the automaton accepts all of some bytes."""
        state = 0
        for byte in data:
            state = self.next(state, byte)
            if state < 0:
                return False
        return bool(self.accepts[state])


def one_class_each(bytes_of_interest: str) -> Array:
    """Classes of which each of some ASCII characters has its own, and all others share the last."""
    classes = np.full(256, len(bytes_of_interest), np.int64)
    for i, char in enumerate(bytes_of_interest):
        classes[ord(char)] = i
    return classes


class Product(Lexeme):
    """What several automata accept, explored at once; dead ends are cut.

    ValueError if it has too many states, or accepts nothing.
    """

    def __init__(self, parts: list[Lexeme], what: str) -> None:
        self._parts = parts
        pairs = list(zip(*(part.classes.tolist() for part in parts), strict=True))
        ids: dict[Any, int] = {}
        classes = np.array([ids.setdefault(pair, len(ids)) for pair in pairs])
        self._pairs = list(ids)
        super().__init__(classes, (0,) * len(parts))
        before: list[list[int]] = [[]]
        state = 0
        try:
            while state < len(self.meanings):
                self.fill(state)
                before += [[] for _ in range(len(self.meanings) - len(before))]
                for target in {*self.table[state].tolist()} - {DEAD}:
                    before[target].append(state)
                state += 1
        except ValueError:
            raise ValueError(f"response_format: {what} together are too large") from None
        count = len(self.meanings)
        useful = self.accepts.copy()
        waiting = np.flatnonzero(useful[:count]).tolist()
        while waiting:
            for source in before[waiting.pop()]:
                if not useful[source]:
                    useful[source] = True
                    waiting.append(source)
        if not useful[0]:
            raise ValueError(f"response_format: nothing satisfies {what} together")
        self.table = np.where((self.table >= 0) & useful[self.table], self.table, DEAD)

    def _successors(self, meaning: Any) -> list[Hashable | None]:
        rows = []
        for part, state in zip(self._parts, meaning, strict=True):
            if not part.filled[state]:
                part.fill(state)
            rows.append(part.table[state].tolist())
        answer: list[Hashable | None] = []
        for pair in self._pairs:
            target = tuple(row[c] for row, c in zip(rows, pair, strict=True))
            answer.append(None if DEAD in target else target)
        return answer

    def _accepts(self, meaning: Any) -> bool:
        return all(
            bool(part.accepts[state]) for part, state in zip(self._parts, meaning, strict=True)
        )
