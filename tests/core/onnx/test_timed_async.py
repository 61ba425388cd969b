"""Timed runs without blocking: the results of a call, a time for each node, and late nodes."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as rl

_PATH = Path(__file__).with_name("test_load_async.py")
_SPEC = importlib.util.spec_from_file_location("onnx_files", _PATH)
assert _SPEC is not None and _SPEC.loader is not None
files: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(files)


def test_times_and_results(device: str) -> None:
    weight, bias = files.weight_and_bias()
    module = rl.onnx.load(files.model_of(weight, bias), device=device)
    x = np.linspace(-1, 1, files.WIDTH, dtype=np.float32)[None]
    told: list[tuple[int, int | None]] = []
    shapes: list[Any] = []

    async def run() -> Any:
        y, times = await rl.onnx.timed_async(
            module,
            x,
            report=lambda *numbers: told.append(numbers),
            look=lambda step, results: shapes.append(tuple(results[0].shape)),
        )
        return await y.detach().numpy_async(), times

    y, times = asyncio.run(run())
    np.testing.assert_allclose(y, files.expected(x, weight, bias), rtol=1e-4, atol=1e-4)
    assert [t.op for t in times] == ["MatMul", "Add", "Relu"]
    assert [t.node for t in times] == module.model.graph.nodes
    assert told == [(1, 3), (2, 3), (3, 3)] and shapes == [(1, files.WIDTH)] * 3
    assert all(t.seconds >= 0 and t.shape == (1, files.WIDTH) for t in times)
