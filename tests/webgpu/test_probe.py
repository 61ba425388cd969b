"""What a profile sees of the device: timestamps dispatch by dispatch, or the host's clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.modes import debugging
from rushlight.core.backends.profiling import Label, credit, drive
from rushlight.core.backends.webgpu import ceilings, probe
from rushlight.core.backends.webgpu.runtime.port import PART
from rushlight.core.basis.errors import DeviceMemoryError


def many(x: rl.Tensor, count: int) -> rl.Tensor:
    for _ in range(count):
        x = x + 1.0
    return x


@pytest.mark.parametrize("stamps", [True, False])
def test_each_dispatch_counts(backend: Any, monkeypatch: Any, stamps: bool) -> None:
    """More than a part of a command list, and of a batch; with and without timestamps."""
    if not stamps:
        features = backend.port.features - {"timestamp-query"}
        monkeypatch.setattr(backend.port, "features", features)
    count = 3 if not stamps else PART + 3
    x = rl.ones((70,), device="webgpu")

    @rl.jit(passes=())
    def captured(x: rl.Tensor) -> rl.Tensor:
        return many(x, count)

    with rl.no_grad():
        captured(x)
        with rl.profile("webgpu", ceilings=False) as p:
            assert captured(x).tolist() == [1.0 + count] * 70
            many(x, 4)
    rows = [row for row in p.summary()["rows"] if row["op"] == "add"]
    assert [row["calls"] for row in rows] == [count + 4]
    assert (p.timing == "timestamps") == (stamps and "timestamp-query" in backend.port.features)
    assert not debugging[0]
    # In the order in which they were submitted, and none before.
    starts = [e.start for e in p.events if e.name == "add" and e.track == "kernel"]
    submitted = min(e.start for e in p.events if e.track == "submit")
    assert starts == sorted(starts) and starts[0] >= submitted


def test_the_longest_batch_is_timed_whole(backend: Any) -> None:
    if "timestamp-query" not in backend.port.features:
        return  # tested with the host's clock above
    x = rl.ones((4,), device="webgpu")
    with rl.no_grad(), rl.profile("webgpu", ceilings=False) as p:
        many(x, 1100)
    assert sum(e.name == "add" and e.track == "kernel" for e in p.events) == 1100


def test_the_port_times_what_is_submitted_meanwhile(backend: Any) -> None:
    port = backend.port
    if "timestamp-query" not in port.features:
        return
    x = many(rl.ones((4,), device="webgpu"), 1)  # which fills the constant, where none was yet
    backend.recorder.flush()
    for _ in range(2):
        port.time(True)
        many(x, 2)
        backend.recorder.flush()
        log = port.log
        port.time(False)
        many(x, 1)
        backend.recorder.flush()
        ranges, period = port.times()
        ticks = np.concatenate([r.view(np.uint64) for r in port.read(ranges)])
        assert [str(op) for ops in log for op in ops] == ["add", "add"]
        assert ticks.size == 4 and period > 0 and ticks[1] >= ticks[0] and port.log is None


def test_rounded_timestamps_are_told_of() -> None:
    ticks = np.array([[100_000, 300_000], [500_000, 500_000]], np.uint64)
    assert probe._resolution(ticks) == pytest.approx(1e-4)
    assert probe._resolution(ticks + np.uint64(1)) == 0


def test_the_largest_dispatch_has_what_an_op_costs() -> None:
    small, large = Label.of("sum", "a", (2, 1, 1)), Label.of("sum", "b", (3, 2, 1))
    credit([small, large, "plain"], (8, 5))
    assert (small.nbytes, small.operations) == (0, 0)
    assert (large.nbytes, large.operations, large.groups) == (8, 5, 6)
    credit([], (8, 5))


def test_ceilings_leave_no_memory_behind(backend: Any) -> None:
    backend.pool.collect()
    used = backend.pool.used + backend.pool.kept
    made, gone = (dict(x) for x in (backend.port.created, backend.port.destroyed))
    rates = drive(ceilings.measure(backend), backend.port.read)
    assert min(rates) > 0
    assert backend.pool.used + backend.pool.kept == used
    assert backend.port.created["bytes"] - made["bytes"] == (
        backend.port.destroyed["bytes"] - gone["bytes"]
    )
    backend.pool.budget = 1 << 20
    try:
        with pytest.raises(DeviceMemoryError, match="no memory for measuring"):
            drive(ceilings.measure(backend), backend.port.read)
    finally:
        backend.pool.budget = None
