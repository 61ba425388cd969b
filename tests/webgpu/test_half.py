"""Products of float16, where the adapter computes with it and where it only stores it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.tools.testing import assert_close, draws


@pytest.fixture
def ways(backend: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Iterator[bool]]:
    """Whether kernels may use shader-f16: where the adapter has it, one way, then the other."""

    def each() -> Iterator[bool]:
        have = backend.port.features
        for features in {have, have - {"shader-f16"}}:
            monkeypatch.setattr(backend.port, "features", features)
            yield "shader-f16" in features

    return each


@pytest.mark.parametrize("config", ["rows", "row_split", "registers", "quads", "tile64"])
def test_matmul(
    gpu: rl.Device,
    backend: Any,
    ways: Callable[[], Iterator[bool]],
    force: Callable[[str], None],
    config: str,
) -> None:
    force(config)
    for half in ways():
        known = set(backend.recorder.pipelines)
        for n, k, m in ((5, 7, 3), (20, 68, 36)):
            a, b = (draws(i, s).astype(np.float16) for i, s in ((1, (n, k)), (2, (k, m))))
            found = rl.tensor(a, device=gpu) @ rl.tensor(b, device=gpu)
            assert found.dtype is rl.float16
            assert_close(found.cpu(), a.astype(np.float64) @ b.astype(np.float64), "product")
        sources = [kernel.source for kernel in set(backend.recorder.pipelines) - known]
        assert half or not any("enable f16" in source for source in sources)


def test_linear_and_embedding(
    gpu: rl.Device, backend: Any, ways: Callable[[], Iterator[bool]]
) -> None:
    x, w = draws(1, (3, 64)).astype(np.float32), draws(2, (16, 64)).astype(np.float16)
    weight = rl.tensor(w, device=gpu)
    for half in ways():
        found = rl.linear(rl.tensor(x, device=gpu), weight)
        assert_close(found.cpu(), x.astype(np.float64) @ w.astype(np.float64).T, "product")
        used = any("enable f16" in kernel.source for kernel in backend.recorder.pipelines)
        assert used or not half
        rows = rl.embedding(weight, rl.tensor([3, 0, 15], device=gpu))
        assert rows.dtype is rl.float16 and np.array_equal(rows.numpy(), w[[3, 0, 15]])
