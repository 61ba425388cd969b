"""A webgpu device's probe: timestamps of each dispatch, and the host's work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends.modes import debugging
from rushlight.core.backends.profiling import Event, Label, Steps, cost, credit, now
from rushlight.core.backends.protocol import Bytes, Operand
from rushlight.core.backends.readback import Readback
from rushlight.core.backends.webgpu.ceilings import measure

if TYPE_CHECKING:
    from rushlight.core.backends.webgpu.backend import WebGpuBackend

# How the port's methods count, by name.
_METHODS = {"submit": "submit", "replay": "submit", "read": "wait", "check": "wait"}
_STEPS = (100_000, 65_536)  # nanoseconds that browsers round timestamps to


class Probe:
    """Times the dispatches of one device.

    Without timestamps every dispatch is submitted by itself and waited for, as in `rl.debug`.
    """

    def __init__(self, backend: WebGpuBackend, began: float) -> None:
        self.backend: Any = backend
        self.port: Any = backend.port
        self.began = began
        self.events: list[Event] = []
        self.stamps = "timestamp-query" in backend.port.features
        self.timing = "timestamps" if self.stamps else "host clock, each dispatch by itself"
        self.resolution = 0.0
        self._starts: list[float] = []  # when each batch was submitted
        self._batches: list[Sequence[str]] = []
        self._spans: list[tuple[float, float]] = []  # of the batches, without timestamps
        self._depth = 0
        self.live = False

    def start(self) -> None:
        """Begin to record."""
        with self.backend.lock:
            self.backend.recorder.flush()
            self.live = True
            if self.stamps:
                self.port.time(True)
            else:
                self._debugging, debugging[0] = debugging[0], True
            self._run = self.backend.run
            self.backend.run = self._op
            for name, track in _METHODS.items():
                setattr(self.port, name, self._timed(name, track, getattr(self.port, name)))
            begin = self.port.begin
            self.port.begin = lambda ranges: _Watched(self, begin(ranges))
            self.backend.recorder.labels = []

    def stop(self) -> None:
        """Submit the waiting dispatches and stop recording."""
        with self.backend.lock:
            try:
                self.backend.recorder.flush()
            finally:
                self.live = False
                for name in (*_METHODS, "begin"):
                    delattr(self.port, name)
                del self.backend.run
                self.backend.recorder.labels = None
                if self.stamps:
                    self._batches = self.port.log or []
                    self.port.time(False)
                else:
                    debugging[0] = self._debugging

    def _timed(self, name: str, track: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            if not self.live:
                return call(*args)
            with self.span(name, track):
                if track == "submit":
                    self._starts.append(now() - self.began)
                if name == "submit" and not self.stamps:
                    self._batches.append(args[2])
                done = call(*args)
            if name == "check" and len(self._spans) < len(self._batches):
                self._spans.append((self._starts[-1], now() - self.began))
            return done

        return timed

    @contextmanager
    def span(self, name: str, track: str) -> Iterator[None]:
        """An event of the host."""
        began = now()
        try:
            yield
        finally:
            if self.live:
                start = began - self.began
                self.events.append(Event(name, "", start, now() - began, track=track))

    def _op(
        self,
        name: str,
        inputs: Sequence[Operand | None],
        out: Operand,
        attrs: Mapping[str, Any],
        memo: Any = None,
    ) -> None:
        """Record one op; its cost is added to its largest dispatch."""
        if not self.live:
            self._run(name, inputs, out, attrs)
            return
        recorder = self.backend.recorder
        with self.backend.lock:
            before, recorder.labels = recorder.labels, []
            try:
                with self.span(name, "record"):
                    self._run(name, inputs, out, attrs)
            finally:
                labels, recorder.labels = recorder.labels, before
            credit(labels, cost(name, inputs, out, attrs))

    def read(self, asked: Any) -> Any:
        """The contents of the ranges that `collect` or `ceilings` asks for; blocks."""
        return self.port.read(asked)

    def begin(self, asked: Any) -> Readback[Any]:
        """`read`, begun at once."""
        begun: Readback[Any] = self.port.begin(asked)
        return begun

    def ceilings(self) -> Steps[tuple[float, float]]:
        """Bytes and float32 operations per second."""
        return measure(self.backend)

    def collect(self) -> Steps[None]:
        """Request the timestamps and make events of them."""
        labels = [op for ops in self._batches for op in ops]
        if not labels:
            return
        if not self.stamps:  # one dispatch a batch
            self._add(labels, self._spans)
            return
        ranges, period = self.port.times()
        data: list[Bytes] = yield ranges
        ticks = np.concatenate([x.view(np.uint64) for x in data]).reshape(-1, 2)
        self.resolution = _resolution(ticks) if period == 1.0 else 0.0
        times = (ticks - ticks[:, 0].min()).astype(np.int64) * (period * 1e-9)
        # The device's clock is set so that no batch begins before it was submitted.
        dispatch, shift = 0, -np.inf
        for start, ops in zip(self._starts, self._batches, strict=True):
            shift = max(shift, start - times[dispatch, 0])
            dispatch += len(ops)
        self._add(labels, (times + shift).tolist())

    def _add(self, labels: Sequence[str], spans: Sequence[tuple[float, float]]) -> None:
        for op, (begin, end) in zip(labels, spans, strict=True):
            event = Event(str(op), "", begin, max(0.0, end - begin))
            if isinstance(op, Label):
                event.kernel, event.nbytes = op.kernel, op.nbytes
                event.operations = op.operations
            self.events.append(event)


def _resolution(ticks: npt.NDArray[np.uint64]) -> float:
    """Seconds that nanoseconds are multiples of, if a browser rounded them."""
    return next((step * 1e-9 for step in _STEPS if not np.any(ticks % np.uint64(step))), 0.0)


class _Watched(Readback[Any]):
    """A readback whose waiting time is recorded."""

    def __init__(self, probe: Probe, source: Readback[Any]) -> None:
        self.probe, self.source = probe, source

    def wait(self) -> Any:
        with self.probe.span("read", "wait"):
            return self.source.wait()

    async def later(self) -> Any:
        with self.probe.span("read", "wait"):
            return await self.source.later()
