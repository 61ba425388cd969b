"""Every op runs on the device itself: forward and backward with reads forbidden, by its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.tensor.op import REGISTRY

PRODUCT = "matmul_"
# What the kernel of an op is called, where it is not called as the op is.
FAMILIES = {
    **dict.fromkeys(("copy", "flip", "cat", "assign", "pad", "slice_backward"), "copy"),
    **dict.fromkeys(("argsort", "topk"), "sort_"),
    **dict.fromkeys(("scatter", "put"), "scatter_write"),
    **dict.fromkeys(("scatter_add", "index_add"), "scatter_add"),
    **dict.fromkeys(("softmax", "log_softmax"), "softmax_rows"),
    **dict.fromkeys(("layer_norm", "rms_norm"), "norm_rows"),
    **dict.fromkeys(("matmul", "linear", "linear_t"), PRODUCT),
    **dict.fromkeys(("linear_experts", "linear_experts_t"), PRODUCT),
    **dict.fromkeys(("conv2d", "conv2d_input", "conv2d_weight"), PRODUCT),
    "window_max": "window_argmax",
    "index_select": "gather",
    "cumsum": "scan",
}
# Ops that no backend runs: the two devices of a transfer do.
NOT_RUN = {"transfer", "fft", "view_as_real", "view_as_complex", "conj"}  # complex: cpu only


def refused(name: str) -> bool:
    """Whether webgpu is without the op; core/ops/test_registry.py lists which may be so."""
    return not REGISTRY[name].view and not rl.device("webgpu").backend.supports(name)


def given(sample: Any) -> list[rl.Tensor | None]:
    """The inputs of a sample on the device."""
    tensors: list[rl.Tensor | None] = []
    for x in sample.inputs:
        t = None if x is None else rl.tensor(x)
        if t is not None:
            t = (t.float() if t.dtype is rl.float64 else t).to("webgpu")
        tensors.append(t)
    return tensors


class Seen:
    """What the recorder has been given."""

    def __init__(self, backend: Any) -> None:
        self.recorder = backend.recorder

    def take(self) -> list[tuple[str, str]]:
        """(op, kernel) of every dispatch since the last call."""
        found = self.recorder.observer or []
        self.recorder.observer = []
        return found


@pytest.fixture
def seen(backend: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """The recorder's dispatches, while nothing can be read from the device."""

    def refuse(ranges: Any) -> Any:
        raise AssertionError("an op read from the device")

    monkeypatch.setattr(backend.port, "read", refuse)
    monkeypatch.setattr(backend.port, "begin", refuse)
    found = Seen(backend)
    found.take()
    yield found
    backend.recorder.observer = None


def test_reads_are_forbidden_here(seen: Seen) -> None:
    with pytest.raises(AssertionError, match="read from the device"):
        rl.ones(2, device="webgpu").numpy()


def test_every_op_has_a_family(op_samples: ModuleType) -> None:
    assert FAMILIES.keys() <= REGISTRY.keys()
    assert not FAMILIES.keys() & ELEMENTWISE.keys()
    assert set(REGISTRY) == set(op_samples.SAMPLES) | NOT_RUN


def test_runs_on_the_device(seen: Seen, op_samples: ModuleType, op_name: str) -> None:
    op, family = REGISTRY[op_name], FAMILIES.get(op_name, op_name)
    if refused(op_name):
        with pytest.raises(rl.errors.DeviceError, match="does not support this op"):
            first = op_samples.samples_on("webgpu", op_name)[0]
            op(*given(first), device=rl.device("webgpu"), **first.attrs)
        return
    whole = 0
    for sample in op_samples.samples_on("webgpu", op_name):
        tensors = given(sample)
        seen.take()
        out = op(*tensors, device=rl.device("webgpu"), **sample.attrs)
        labels = {label for name, label in seen.take() if name == op_name}
        assert out.device.type == "webgpu", sample.label
        if op.view:
            assert not labels, f"{sample.label}: a view computes nothing"
            whole += 1
        elif out.numel() and all(t is None or t.numel() for t in tensors):
            first = tensors[0] if tensors else None
            same = op_name == "cast" and first is not None and first.dtype is out.dtype
            wanted = "copy" if same else family
            assert any(label.startswith(wanted) for label in labels), f"{sample.label}: {labels}"
            whole += 1
    assert whole, "no sample has elements"


def test_differentiates_on_the_device(seen: Seen, op_samples: ModuleType, op_name: str) -> None:
    if refused(op_name):
        return  # test_runs_on_the_device sees the refusal
    op = REGISTRY[op_name]
    for sample in op_samples.samples_on("webgpu", op_name):
        if not sample.grad:
            continue
        tensors = given(sample)
        leaves = []
        for i in sample.grad:
            leaf = tensors[i]
            assert leaf is not None
            leaves.append(leaf.requires_grad_())
        out = op(*tensors, device=rl.device("webgpu"), **sample.attrs)
        assert out.requires_grad
        seen.take()
        slope = rl.from_numpy(np.ones(out.shape, np.float32)).to("webgpu").to(out.dtype)
        grads = rl.autograd.grad(out, leaves, slope * 0.5)
        assert seen.take(), f"{sample.label}: nothing was computed"
        for leaf, grad in zip(leaves, grads, strict=True):
            assert grad is not None and grad.device.type == "webgpu"
            assert grad.shape == leaf.shape, sample.label
