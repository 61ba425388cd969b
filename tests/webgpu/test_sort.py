"""Sorting by blocks in a workgroup's memory, and step by step as on adapters that are a CPU."""

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
