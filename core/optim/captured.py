"""An optimizer's step in a captured function: the Python code that every replay runs."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.jit import capture
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.core.optim.optimizer import Optimizer

Due = Sequence[tuple[Tensor, dict[str, Any], int]]


class CapturedStep:
    """Before each replay, counts a step and writes the numbers of `Optimizer.rates` to tensors.

    due: (parameter, state, number of its group) of each parameter with a gradient.
    """

    def __init__(self, optimizer: Optimizer, due: Due) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.groups = [(_kinds(g), [id(p) for p in g["params"]]) for g in optimizer._groups]
        self.state: list[list[tuple[weakref.ref[Tensor], list[Any]]]] = []
        self.counts: list[tuple[dict[str, Any], Any]] = []
        # Parameters of one group with the same count of updates share a row of numbers.
        self.rows: dict[tuple[int, Any], list[weakref.ref[Tensor]]] = {}
        for p, state, number in due:
            self.rows.setdefault((number, state.get("step")), []).append(weakref.ref(p))
        where = {(p.device, p.dtype) for p, _, _ in due}
        values = self._count(optimizer)
        with capture.tracing(None):
            tables = {(d, t): tensor(values, dtype=t, device=d) for d, t in where}
        self.tables = list(tables.values())
        row = {id(r()): i for i, members in enumerate(self.rows.values()) for r in members}
        views = {(i, key): t[i].unbind() for key, t in tables.items() for i in range(len(values))}
        self.rates: list[Any] = [views[row[id(p)], (p.device, p.dtype)] for p, _, _ in due]

    def keep(self, due: Due) -> None:
        """Record the states' tensors, which the executable writes to."""
        self.rates = []
        found = {}
        for p, state, _ in due:
            tensors = [(k, weakref.ref(v)) for k, v in state.items() if isinstance(v, Tensor)]
            found[id(p)] = tensors
        self.state = [[(r, found[id(r())]) for r in members] for members in self.rows.values()]

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
            first = known.get(members[0][0](), {}).get("step")
            for ref, tensors in members:
                state = known.get(ref())
                if state is None or state.get("step") != first:
                    return False
                for key, held in tensors:
                    if state.get(key) is not held():
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
        for state, step in self.counts:
            if step is not None:
                state["step"] = step
        self.counts = []

    def _count(self, optimizer: Optimizer) -> list[tuple[float, ...]]:
        values = []
        self.counts = []
        for (number, _), members in self.rows.items():
            states = [optimizer._state[p] for r in members if (p := r()) is not None]
            self.counts += [(s, s.get("step")) for s in states]
            rates = optimizer.rates(states[0], optimizer._groups[number])
            assert rates is not None
            values.append(rates)
            if "step" in states[0]:
                for state in states[1:]:
                    state["step"] = states[0]["step"]
        return values


def _kinds(group: Mapping[str, Any]) -> list[Any]:
    """The properties of options that may select ops: for numbers, whether they are zero."""
    return [
        bool(v)
        if isinstance(v, (int, float, np.generic))
        else len(v)
        if isinstance(v, tuple)
        else v
        for key, v in group.items()
        if key != "params"
    ]
