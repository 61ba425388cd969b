"""Sorting by blocks in a workgroup's memory, by steps as on adapters that are a CPU, by digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.emit import Emitter


@pytest.mark.parametrize("on_cpu", [True, False])
@pytest.mark.parametrize("count", [2, 3, 1000, 1024, 1025, 3000])
def test_both_ways_sort(
    backend: Any, monkeypatch: pytest.MonkeyPatch, on_cpu: bool, count: int
) -> None:
    monkeypatch.setattr(Emitter, "on_cpu", property(lambda e: on_cpu))
    values = np.random.default_rng(count).integers(0, count, (2, count)).astype(np.float32)
    x = rl.from_numpy(values).to("webgpu")
    seen: list[tuple[str, str]] = []
    backend.recorder.observer = seen
    try:
        order = rl.argsort(x, -1).numpy()
        largest, at = rl.topk(x, 2, -1)
    finally:
        backend.recorder.observer = None
    assert np.array_equal(order, np.argsort(values, -1, kind="stable"))
    assert np.array_equal(largest.numpy(), -np.sort(-values, -1)[:, :2])
    assert np.array_equal(at.numpy(), np.argsort(-values, -1, kind="stable")[:, :2])
    used = {kernel for _, kernel in seen if kernel in ("sort_block", "sort_step")}
    far = {"sort_step"} if on_cpu or count > 1024 else set()
    assert used == far | (set() if on_cpu else {"sort_block"})


@pytest.mark.parametrize("shape", [(5000,), (2, 6001), (3, 4097, 2)])
def test_long_rows_sort_by_digits(backend: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    values = rng.integers(-900, 900, shape).astype(np.float32)
    values.flat[::701], values.flat[3::997] = np.nan, -np.inf
    dim = len(shape) // 2
    seen: list[tuple[str, str]] = []
    backend.recorder.observer = seen
    try:
        order = rl.argsort(rl.from_numpy(values).to("webgpu"), dim).numpy()
    finally:
        backend.recorder.observer = None
    assert np.array_equal(order, np.argsort(values, dim, kind="stable"))
    whole = rng.integers(-(2**31), 2**31, shape, dtype=np.int32)
    down = rl.argsort(rl.from_numpy(whole).to("webgpu"), dim, descending=True).numpy()
    assert np.array_equal(down, np.argsort(-whole.astype(np.int64), dim, kind="stable"))
    assert {kernel for _, kernel in seen} >= {"sort_count", "sort_place"}
