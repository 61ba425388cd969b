"""Choices among several kernels for an op: measured ones, else a guess.

A lowering with several candidates calls `Choices.pick` with its guess and the class: a tuple of the
family and of properties of the operands, with sizes rounded up to powers of two. `rl.autotune`
measures through a backend's Tuner. Nothing is measured without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from rushlight.core.backends.modes import get_linear_mode
from rushlight.core.backends.protocol import Operand
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.layout import Layout

Key = tuple[str | int, ...]

# Descriptions of the classes of each family. Sizes are the largest of the class.
FAMILIES = {
    "product": "{1} rows, {3} long, {2} columns, batch {4}, weights {5} {6} the sums",
    "rows": "{1}, {3} rows of {2}",
    "reduce": "{2} rows of {1}, {3}",
    "attention": "{2} queries, {3} keys of {1}, {4} heads",
}
_MOST_CLASSES = 1024


class Sample(NamedTuple):
    """An op and operands of a class: dtypes and layouts. None for an omitted operand.

    mode: of products with quantized weights, see `rl.set_linear_mode`.
    """

    op: str
    inputs: tuple[tuple[DType, Layout] | None, ...]
    out: tuple[DType, Layout]
    attrs: Mapping[str, Any]
    mode: str = "exact"


class Row(NamedTuple):
    """The measurement of a class: the choice, the guess, seconds by name."""

    key: Key
    choice: str
    guess: str
    seconds: Mapping[str, float]
    refused: Mapping[str, str] = {}  # candidates that failed or differed, and why; not saved

    def __str__(self) -> str:
        return FAMILIES[str(self.key[0])].format(*self.key)


class Choices:
    """The decisions of one device, and the classes that its lowerings asked for.

    turn: counts changes of decisions; captured functions are compiled again after one. banned: the
    names that give wrong values on this adapter, and why; instead: what is taken in place of them.
    """

    def __init__(self) -> None:
        self.table: dict[Key, str] = {}
        self.met: dict[Key, tuple[str, Sample | None]] = {}  # seen classes: guess, sample
        self.asked: list[Key] = []  # new classes of the running op
        self.rows: dict[Key, Row] = {}
        self.banned: dict[Key, dict[str, str]] = {}
        self.instead: dict[Key, str] = {}
        self.turn = 0

    def pick(self, key: Key, guess: str) -> str:
        """The choice for a class."""
        if key not in self.met and len(self.met) < _MOST_CLASSES:
            self.met[key] = guess, None
            self.asked.append(key)
        return self.name(key, guess)

    def name(self, key: Key, guess: str) -> str:
        """The choice for a class, which is not counted as seen."""
        chosen = self.table.get(key, guess)
        return self.instead[key] if chosen in self.banned.get(key, ()) else chosen

    def note(
        self, op: str, inputs: Sequence[Operand | None], out: Operand, attrs: Mapping[str, Any]
    ) -> None:
        """Record the op that asked last as the sample of its classes."""
        operands = tuple(None if x is None else (x.dtype, x.layout) for x in inputs)
        # A fused op asks like its ops, but cannot run by itself.
        for key in self.asked if "epilogue" not in attrs else ():
            self.met[key] = (
                self.met[key][0],
                Sample(op, operands, (out.dtype, out.layout), attrs, get_linear_mode()),
            )
        self.asked.clear()

    def adopt(self, rows: Sequence[Row]) -> None:
        """Use the measured choices from now on."""
        before = self.table.copy()
        for row in rows:
            self.rows[row.key] = row
            if row.choice != row.guess:
                self.table[row.key] = row.choice
            else:
                self.table.pop(row.key, None)
        self.turn += self.table != before

    def clear(self) -> None:
        """Use the guesses again."""
        self.turn += bool(self.table)
        self.table.clear()
        self.rows.clear()


class Tuner(Protocol):
    """The part of a backend with a choice among kernels that `rl.autotune` works with."""

    choices: Choices

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """A lock that keeps other ops from running in between."""

    @property
    def place(self) -> str:
        """The place of the saved table, for messages."""

    @property
    def dispatches(self) -> int:
        """The number of dispatches so far."""

    @property
    def submits(self) -> int:
        """The number of submits so far."""

    def candidates(self, key: Key) -> Sequence[str]:
        """The candidates for a class on this adapter; empty if there is no choice."""

    async def keep(self) -> str:
        """Save the table; returns its place, or "" if it cannot be saved."""

    def forget(self) -> bool:
        """Delete the table and use guesses; returns whether a table existed."""
