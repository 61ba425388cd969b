"""linear_experts on webgpu: every configuration, over the binding limit, no copy of the weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.lowering.products import gemm
from rushlight.core.nn import functional as F
from rushlight.core.tools.testing import assert_close, draws


def both(rows: int, experts: int, out: int, k: int) -> tuple[list[rl.Tensor], Any, Any]:
    x, w = draws(1, (rows, k)).astype(np.float32), draws(2, (experts, out, k)).astype(np.float32)
    g, b = draws(3, (rows, out)).astype(np.float32), draws(4, (experts, out)).astype(np.float32)
    index = draws(5, (rows,), 0, experts).astype(np.int64)
    index[index == 1] = 0  # one that nobody names
    each = w.astype(np.float64)[index]
    want = np.einsum("rk,rmk->rm", x.astype(np.float64), each) + b[index]
    slope = np.einsum("rm,rmk->rk", g.astype(np.float64), each)
    tensors = [rl.tensor(a, device="webgpu") for a in (x, w, index, b, g)]
    return tensors, want, slope


def check(tensors: list[rl.Tensor], want: Any, slope: Any, family: str = "product") -> None:
    x, w, index, b, g = tensors
    x = x.detach().requires_grad_()
    out = F.linear_experts(x, w, index, b)
    assert_close(out.detach().cpu(), want, family)
    (grad,) = rl.autograd.grad(out, [x], g)
    assert grad is not None
    assert_close(grad.cpu(), slope, family)


@pytest.mark.parametrize("name", list(gemm.CONFIGS))
def test_every_configuration(name: str, force: Callable[[str], None]) -> None:
    force(name)
    check(*both(150, 4, 70, 36))


def test_the_configuration_that_is_chosen(monkeypatch: pytest.MonkeyPatch, gpu: rl.Device) -> None:
    """With the choices of a GPU, too: few rows, some for each expert, many."""
    for kind in (gpu.backend.port.info["type"], "DiscreteGPU"):  # type: ignore[attr-defined]
        monkeypatch.setitem(gpu.backend.port.info, "type", kind)  # type: ignore[attr-defined]
        for rows in (3, 20, 100):
            check(*both(rows, 4, 6, 10))


def test_experts_over_the_binding_limit(small_bindings: Any) -> None:
    """1 MiB at once: several experts, and one that is larger; with rows of it and without."""
    for experts, out, k in ((6, 96, 1024), (2, 600, 1024)):
        for rows in (3, 40):
            check(*both(rows, experts, out, k), "several")
    # More rows than can be bound.
    check(*both(3000, 3, 100, 96), "several")


def test_the_weight_is_not_copied(backend: Any) -> None:
    for rows in (2, 100):
        raw = draws(1, (4 * 32 * 2, 34), 0, 100).astype(np.uint8)
        raw[:, 1] = 0x20
        w = rl.Tensor.from_buffer(raw.tobytes(), "q8_0", (4, 32, 64)).to("webgpu")
        x = rl.ones(rows, 64, device="webgpu").requires_grad_()
        index = rl.zeros(rows, dtype=rl.int64, device="webgpu")
        backend.recorder.observer = []
        F.linear_experts(x, w, index).sum().backward()
        seen = {label for op, label in backend.recorder.observer if op.startswith("linear_experts")}
        backend.recorder.observer = None
        assert seen <= {
            "experts_sort",
            *(c.file for c in (*gemm.CONFIGS.values(), *gemm.BLOCKS.values())),
        }
        assert x.grad is not None
        values = w.cpu().dequantize().numpy()[0]
        assert_close(x.grad.cpu(), np.broadcast_to(values.sum(0), (rows, 64)), "several")
