"""An optimizer's step in a captured function: the Python code that every replay runs."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.basis.dtype import PARTS, DType, float32
from rushlight.core.jit import capture
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.core.optim.optimizer import Optimizer

Due = Sequence[tuple[Tensor, Tensor, dict[str, Any], int]]


class CapturedStep:
    """Before each replay, counts a step and writes the numbers of `Optimizer.rates` to tensors.

    due: (parameter, gradient, state, number of its group) of each parameter with a gradient.
    """

    def __init__(self, optimizer: Optimizer, due: Due) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.groups = [(_kinds(g), [id(p) for p in g["params"]]) for g in optimizer._groups]
        self.state: list[list[tuple[weakref.ref[Tensor], list[Any]]]] = []
        self.counts: list[tuple[dict[str, Any], dict[str, Any]]] = []
        # Parameters of one group with the same numbers in their state share a row of numbers.
        self.rows: dict[Any, list[weakref.ref[Tensor]]] = {}
        for p, _, state, number in due:
            key = (number, len(state), tuple(numbers(state).items()))
            self.rows.setdefault(key, []).append(weakref.ref(p))
        where = {(p.device, compute_dtype(p.dtype)) for p, *_ in due}
        values = self._count(optimizer)
        with capture.tracing(None):
            tables = {(d, t): tensor(values, dtype=t, device=d) for d, t in where}
        self.tables = list(tables.values())
        row = {id(r()): i for i, members in enumerate(self.rows.values()) for r in members}
        views = {(i, key): t[i].unbind() for key, t in tables.items() for i in range(len(values))}
        self.rates: list[Any] = [
            views[row[id(p)], (p.device, compute_dtype(p.dtype))] for p, *_ in due
        ]

    def keep(self, due: Due) -> None:
        """Record the states' tensors, which the executable writes to."""
        self.rates = []
        by_id = {}
        for p, _, state, _ in due:
            tensors = [(k, weakref.ref(v)) for k, v in state.items() if isinstance(v, Tensor)]
            by_id[id(p)] = tensors
        self.state = [[(r, by_id[id(r())]) for r in members] for members in self.rows.values()]

    def current(self) -> bool:
        """Whether the options still select the same ops, and the states are the same tensors."""
        optimizer = self.optimizer()
        if optimizer is None or len(optimizer._groups) != len(self.groups):
            return False
        for group, (kinds, ids) in zip(optimizer._groups, self.groups, strict=True):
            if _kinds(group) != kinds or [id(p) for p in group["params"]] != ids:
                return False
        known: dict[Any, dict[str, Any]] = optimizer._state
        for members in self.state:
            first = numbers(known.get(members[0][0](), {}))
            for ref, tensors in members:
                state = known.get(ref())
                if state is None or numbers(state) != first:
                    return False
                for key, reference in tensors:
                    if state.get(key) is not reference():
                        return False
        return True

    def run(self) -> None:
        """Count the step and write its numbers."""
        optimizer = self.optimizer()
        assert optimizer is not None  # `current` has checked it
        values = self._count(optimizer)
        for table in self.tables:
            data = tensor(values, dtype=table.dtype).stored()
            table.device.backend.write(table.buffer, data.reshape(-1).view(np.uint8))

    def undo(self) -> None:
        """Undo the count."""
        for state, before in self.counts:
            state.update(before)
        self.counts = []

    def _count(self, optimizer: Optimizer) -> list[tuple[float, ...]]:
        values = []
        self.counts = []
        for (number, *_), members in self.rows.items():
            states = [optimizer._state[p] for r in members if (p := r()) is not None]
            self.counts += [(s, numbers(s)) for s in states]
            rates = optimizer.rates(states[0], plain(optimizer._groups[number]))
            assert rates is not None
            values.append(rates)
            counted = numbers(states[0])
            for state in states[1:]:
                state.update(counted)
        return values


def compute_dtype(dtype: DType) -> DType:
    """The dtype of a step's numbers: that of the parameter's parts, float32 for narrow floats."""
    return PARTS.get(dtype) or (dtype if dtype.itemsize >= 4 else float32)


def plain(group: Mapping[str, Any]) -> dict[str, Any]:
    """A group with numbers in place of options that are tensors, such as lr."""
    if not any(isinstance(v, Tensor) for v in group.values()):
        return dict(group)
    with capture.tracing(None):  # a captured step reads them anew in each run
        return {k: v.item() if isinstance(v, Tensor) else v for k, v in group.items()}


def numbers(state: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of a state."""
    return {k: v for k, v in state.items() if not isinstance(v, Tensor)}


def _kinds(group: Mapping[str, Any]) -> list[Any]:
    """The properties of options that may select ops: for numbers, whether they are zero."""
    return [
        bool(v)
        if isinstance(v, (int, float, np.generic)) and not key.endswith("_steps")
        else len(v)
        if isinstance(v, tuple)
        else v
        for key, v in group.items()
        if key not in ("params", "initial_lr")
    ]
