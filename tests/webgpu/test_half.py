"""Products of float16, where the adapter computes with it and where it only stores it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.plans import gemm
from rushlight.core.testing import assert_close, draws


@pytest.fixture(params=[True, False], ids=["with", "without"])
def half(request: pytest.FixtureRequest, backend: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether kernels may use shader-f16: where the adapter has it, both ways."""
    if not request.param:
        monkeypatch.setattr(backend.port, "features", backend.port.features - {"shader-f16"})
    return "shader-f16" in backend.port.features


@pytest.mark.parametrize("config", gemm.CONFIGS)
def test_matmul_in_every_configuration(
    gpu: rl.Device, backend: Any, half: bool, force: Callable[[str], None], config: str
) -> None:
    force(config)
    known = set(backend.recorder.pipelines)
    for n, k, m in ((1, 64, 8), (5, 7, 3), (36, 68, 44)):
        a, b = (draws(i, s).astype(np.float16) for i, s in ((1, (n, k)), (2, (k, m))))
        found = rl.tensor(a, device=gpu) @ rl.tensor(b, device=gpu)
        assert found.dtype is rl.float16
        assert_close(found.cpu(), a.astype(np.float64) @ b.astype(np.float64), "product")
    sources = [kernel.source for kernel in set(backend.recorder.pipelines) - known]
    assert half or not any("enable f16" in source for source in sources)


def test_linear_and_embedding(gpu: rl.Device, backend: Any, half: bool) -> None:
    x, w = draws(1, (3, 64)).astype(np.float32), draws(2, (16, 64)).astype(np.float16)
    weight = rl.tensor(w, device=gpu)
    found = rl.linear(rl.tensor(x, device=gpu), weight)
    assert_close(found.cpu(), x.astype(np.float64) @ w.astype(np.float64).T, "product")
    used = any("enable f16" in kernel.source for kernel in backend.recorder.pipelines)
    assert used or not half
    rows = rl.embedding(weight, rl.tensor([3, 0, 15], device=gpu))
    assert rows.dtype is rl.float16 and np.array_equal(rows.numpy(), w[[3, 0, 15]])
