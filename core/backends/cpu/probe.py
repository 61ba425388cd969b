"""The cpu device's probe: each kernel's time by the host's clock."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rushlight.core.backends import profiling
from rushlight.core.backends.cpu import simd
from rushlight.core.backends.profiling import Event, Steps, cost, now
from rushlight.core.backends.protocol import Operand
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import DType, float32
from rushlight.core.basis.graph import Step
from rushlight.core.basis.layout import Layout, Shape

# A running op: its name, inputs, result and attributes.
_Op = tuple[str, Sequence[Operand | None], Operand, Mapping[str, Any]]


class Probe:
    """Times the ops of the cpu device, those of executables too."""

    timing, resolution = "host clock", 0.0

    def __init__(self, backend: Any, began: float) -> None:
        self.backend, self.began = backend, began
        self.events: list[Event] = []
        self._next_ops: Iterator[_Op] = iter(())  # the ops of the next message
        self._depth = 0

    def start(self) -> None:
        """Begin to record."""
        self.live = True
        self._run = self.backend.run
        self.backend.run = self._eager
        if simd.library is not None:
            simd.library.observer = self._message
        profiling.watching.append(self._executable)

    def stop(self) -> None:
        """Stop recording; calls that were bound meanwhile still come here and pass through."""
        self.live = False
        del self.backend.run
        if simd.library is not None:
            simd.library.observer = None
        profiling.watching.remove(self._executable)

    def collect(self) -> Steps[None]:
        """Do nothing: every op is complete when it returns."""
        yield from ()

    def read(self, asked: Any) -> Any:
        """Never called, as nothing is requested."""
        raise NotImplementedError

    def begin(self, asked: Any) -> Readback[Any]:
        """Never called, as nothing is requested."""
        raise NotImplementedError

    def ceilings(self) -> Steps[tuple[float, float]]:
        """Bytes and float32 operations per second of the best kernels: a copy and a product."""
        yield from ()
        nbytes, size = 32 << 20, 512
        flat, square = (nbytes // 4,), (size, size)
        copied = self._best("copy", [_ones(flat)], _ones(flat))
        done = self._best("linear", [_ones(square), _ones(square), None], _ones(square))
        return 2 * nbytes / copied, 2 * size**3 / done

    def _best(self, name: str, inputs: Sequence[Operand | None], out: Operand) -> float:
        """Seconds of the fastest of at least three runs, within a tenth of a second."""
        times: list[float] = []
        begun = now()
        while len(times) < 3 or now() - begun < 0.1:
            began = now()
            self.backend.run(name, inputs, out, {})
            times.append(now() - began)
        return min(times)

    def _eager(
        self,
        name: str,
        inputs: Sequence[Operand | None],
        out: Operand,
        attrs: Mapping[str, Any],
        memo: Any = None,
    ) -> None:
        """Run one op; time outside its kernel is the host's."""
        self._call((name, inputs, out, attrs), lambda: self._run(name, inputs, out, attrs))

    def _call(self, op: _Op, call: Callable[[], None]) -> None:
        """Run `call`, which computes `op` by a message to the C kernels or by NumPy."""
        if self._depth or not self.live:  # an op inside another one is a part of it
            call()
            return
        before, self._next_ops = len(self.events), iter([op])
        self._depth, began = 1, now()
        try:
            call()
        finally:
            self._depth = 0
        took = now() - began
        sent = self.events[before:]
        if sent:
            rest = took - sum(e.seconds for e in sent)
            self.events.append(Event(op[0], "", began - self.began, rest, track="record"))
        else:
            self._note(op, "NumPy", began, took)

    def _note(self, op: _Op, kernel: str, began: float, took: float) -> None:
        nbytes, operations = cost(*op)
        self.events.append(Event(op[0], kernel, began - self.began, took, nbytes, operations))

    def _executable(
        self, calls: Sequence[Callable[[], None]], call_steps: Sequence[Sequence[Step]]
    ) -> None:
        """Run the calls of an executable; call_steps: the steps of each."""
        with np.errstate(all="ignore"):
            for call, steps in zip(calls, call_steps, strict=True):
                ops = [(s.name, s.inputs, s.out, s.attrs) for s in steps]
                if len(ops) == 1:
                    self._call(ops[0], call)
                else:
                    self._next_ops = iter(ops)
                    call()

    def _message(
        self, words: array[int], names: Sequence[str], explain: Callable[[int], None] | None
    ) -> None:
        """Run the records of a message one by one."""
        library = simd.library
        assert library is not None
        count = words[2]
        buffers = words[4 : 4 + 2 * count]
        word = 4 + 2 * count
        kernels = list(library.numbers)
        library.observer = None
        try:
            for i, name in enumerate(names):
                record = words[word : word + words[word + 1]]
                word += len(record)
                single = array("q", [words[0], 4 + len(buffers) + len(record), count, 1])
                single += buffers + record
                began = now()
                # It is the first record of its message and number i of the executable.
                library.run(single, [name], explain and partial(_at, explain, i))
                took = now() - began
                op = next(self._next_ops, None)
                kernel = kernels[record[0]]
                kernel = "C" if kernel == name else f"C {kernel}"
                if op is None:
                    event = Event(name, kernel, began - self.began, took)
                    self.events.append(event)
                else:
                    self._note(op, kernel, began, took)
        finally:
            library.observer = self._message if self.live else None


def _at(explain: Callable[[int], None], place: int, _: int) -> None:
    explain(place)


class _Memory:
    """A storage of ones."""

    def __init__(self, count: int) -> None:
        self.buffer = np.ones(count, np.float32).view(np.uint8)
        self.address: int = self.buffer.__array_interface__["data"][0]


@dataclass(frozen=True)
class _Operand:
    storage: _Memory
    layout: Layout
    dtype: DType = float32

    @property
    def buffer(self) -> Any:
        return self.storage.buffer


def _ones(shape: Shape) -> _Operand:
    return _Operand(_Memory(math.prod(shape)), Layout.contiguous(shape))
