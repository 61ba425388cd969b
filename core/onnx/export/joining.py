"""Several traces of a function at different sizes as one graph, whose integers follow the sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.core.basis.errors import brief
from rushlight.core.onnx.export.integers import Dim, Finder, Int
from rushlight.core.onnx.export.recording import ExportError, Trace, Traced, Value, array_of
from rushlight.core.tensor.tensor import Tensor


@dataclass(slots=True, eq=False)
class Step:
    """An op of the graph; the integers of `attrs` may be expressions, see `Int`.

    problem: why it cannot be written, which matters only where its result is needed.
    """

    name: str
    inputs: tuple[int | None, ...]
    attrs: Mapping[str, Any]
    out: int
    line: str
    problem: ExportError | None = None

    @property
    def title(self) -> str:
        """The op and where it is called, for messages."""
        return f"the op {self.name} at {self.line}"


@dataclass(slots=True, eq=False)
class Joined:
    """A graph over the values of the first trace.

    shapes: of each value, in each trace. varying: the elements of a tensor from outside that differ
    from size to size, as expressions, in its shape; the start, step and count of a range; or one
    number, see `Real`.
    """

    traces: list[Trace]
    steps: list[Step] = field(default_factory=list)
    shapes: list[list[tuple[int, ...]]] = field(default_factory=list)
    varying: dict[int, Any] = field(default_factory=dict)

    @property
    def values(self) -> list[Value]:
        """The values of the first trace."""
        return self.traces[0].values

    def is_fixed(self, value: int) -> bool:
        """Whether a value has one shape in all traces."""
        return len(set(self.shapes[value])) == 1


def compare(a: Trace, b: Trace) -> None:
    """ExportError where two traces are not of the same ops."""
    for x, y in zip(a.steps, b.steps, strict=False):
        if x.name != y.name or _wiring(x) != _wiring(y):
            raise ExportError(
                f"onnx.export: the op {x.name} at {x.line}, of shape {x.out.shape}, is the op "
                f"{y.name} of shape {y.out.shape} at other sizes; which ops run must not depend on "
                "the sizes that are free"
            )
    if len(a.steps) != len(b.steps) or len(a.inputs) != len(b.inputs):
        longer = max(a, b, key=lambda t: len(t.steps))
        extra = longer.steps[min(len(a.steps), len(b.steps))]
        raise ExportError(
            f"onnx.export: the op {extra.name} at {extra.line} runs at some sizes only; which ops "
            "run must not depend on the sizes that are free"
        )


def _wiring(step: Traced) -> list[int | None]:
    return [None if v is None else v.number for v in step.inputs] + [step.out.number]


def _same(a: Tensor, b: Tensor) -> bool:
    if a is b or (a.storage is b.storage and a.layout == b.layout and a.dtype is b.dtype):
        return True
    if a.shape != b.shape or a.dtype is not b.dtype or a.dtype.kind == "q":
        return False
    return np.array_equal(array_of(a), array_of(b), equal_nan=a.dtype.kind in "fc")


def _varying(value: int, tensors: Sequence[Tensor], finder: Finder, users: Sequence[Step]) -> Any:
    """The elements of a tensor that differs, as expressions; ("range", start, step, count)."""
    arrays = [array_of(t) for t in tensors]
    where = users[0].title if users else "the result"
    error = ExportError(
        f"onnx.export: a tensor of shape {arrays[0].shape} that {where} uses is made from Python "
        "values that depend on a free size in no way that a graph can repeat; compute it by ops "
        "such as arange, or leave the size fixed"
    )
    if arrays[0].dtype.kind == "f" and arrays[0].size == 1:
        real = finder.find_real([float(a.reshape(())) for a in arrays])
        if real is not None:
            return real
    if arrays[0].dtype.kind not in "ui" or any(a.ndim != arrays[0].ndim for a in arrays):
        raise error
    if all(a.shape == arrays[0].shape for a in arrays) and arrays[0].size <= 64:
        flat = np.stack([a.reshape(-1) for a in arrays], 1).tolist()
        elements = [finder.find(tuple(row)) for row in flat]
        if any(e is None for e in elements):
            raise error
        return elements
    if arrays[0].ndim == 1 and all(a.size > 1 for a in arrays):
        ranges = [(int(a[0]), int(a[1] - a[0]), a.size) for a in arrays]
        fits = all(
            np.array_equal(a, r[0] + r[1] * np.arange(r[2]))
            for a, r in zip(arrays, ranges, strict=True)
        )
        found = [finder.find(tuple(column)) for column in zip(*ranges, strict=True)]
        if fits and all(e is not None for e in found):
            return ("range", *found)
    raise error


class _Joiner:
    def __init__(self, traces: list[Trace], finder: Finder) -> None:
        self.joined, self.finder, self.traces = Joined(traces), finder, traces

    def run(self) -> Joined:
        joined, traces = self.joined, self.traces
        for other in traces[1:]:
            compare(traces[0], other)
        count = len(traces[0].values)
        joined.shapes = [[t.values[i].shape for t in traces] for i in range(count)]
        by_value = {v.step: v.number for v in traces[0].values if v.step >= 0}
        assert len(by_value) == len(traces[0].steps)
        for value in traces[0].inputs:
            self.finder.add(value.number, joined.shapes[value.number])
        waiting: dict[int, list[Tensor]] = {}
        for values in zip(*(t.outer for t in traces), strict=True):
            tensors = [v.tensor for v in values]
            number = values[0].number
            if any(v.number != number for v in values) or None in tensors:
                raise ExportError("onnx.export: the tensors that ops read differ from size to size")
            if not all(_same(tensors[0], t) for t in tensors[1:]):
                waiting[number] = tensors
        for i, first in enumerate(traces[0].steps):
            self._step(i, first, waiting)
        for number, tensors in waiting.items():
            users = [s for s in joined.steps if number in s.inputs]
            try:
                joined.varying[number] = _varying(number, tensors, self.finder, users)
            except ExportError as error:  # it may not be needed
                joined.varying[number] = error
        return joined

    def _step(self, i: int, first: Traced, waiting: Mapping[int, Any]) -> None:
        every = [t.steps[i] for t in self.traces]
        operands = [v.number for v in first.inputs if v is not None and v.number not in waiting]
        near = [
            (tuple(shape[axis] for shape in self.joined.shapes[v]), (v, axis))
            for v in operands
            for axis in range(len(self.joined.shapes[v][0]))
        ]
        attrs, problem = {}, None
        for key in first.attrs:
            try:
                attrs[key] = self._attribute(first, key, [s.attrs[key] for s in every], near)
            except ExportError as error:
                attrs[key], problem = first.attrs[key], error
        numbers = tuple(None if v is None else v.number for v in first.inputs)
        step = Step(first.name, numbers, attrs, first.out.number, first.line, problem)
        self.joined.steps.append(step)
        self.finder.add(first.out.number, self.joined.shapes[first.out.number])

    def _attribute(self, step: Traced, key: str, values: list[Any], near: Any) -> Any:
        first = values[0]
        if isinstance(first, tuple | list):
            if any(len(v) != len(first) for v in values):
                raise self._varies(step, key, values)
            columns = zip(*values, strict=True)
            return tuple(self._attribute(step, key, list(c), near) for c in columns)
        if isinstance(first, int) and not isinstance(first, bool):
            found = self.finder.find(tuple(values), [(s, Dim(*at)) for s, at in near])
            if found is None:
                raise self._varies(step, key, values)
            return found
        if isinstance(first, float) and step.name == "full" and len(set(values)) > 1:
            real = self.finder.find_real(values)
            if real is not None:
                return real
        same = all(v is first or v == first or (v != v and first != first) for v in values)
        if not same:
            raise self._varies(step, key, values)
        return first

    def _varies(self, step: Traced, key: str, values: list[Any]) -> ExportError:
        shown = ", ".join(dict.fromkeys(brief(str(v)) for v in values))
        return ExportError(
            f"onnx.export: {key} of the op {step.name} at {step.line} is {shown} at different "
            "sizes of the inputs, and no sum, product or quotient of their dims; leave that size "
            "fixed, or compute by ops what follows from it"
        )


def join(traces: list[Trace], finder: Finder) -> Joined:
    """One graph of traces at several sizes. ExportError where they do not agree."""
    return _Joiner(traces, finder).run()


def constant_int(step: Step, key: str, value: Int) -> int:
    """An integer that must not depend on sizes. ExportError where it does."""
    if not isinstance(value, int):
        raise ExportError(
            f"onnx.export: {key} of {step.title} depends on a free size, which its operator of "
            "ONNX does not take; leave that size fixed"
        )
    return value
