"""Convolution on webgpu: any geometry, dtype, layout and configuration, and over the limits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.lowering.products import windows
from rushlight.core.nn import functional as F
from rushlight.core.tools.testing import assert_close, draws

# (x, filters, kernel, stride, padding, dilation, groups)
CASES: dict[str, tuple[Any, ...]] = {
    "plain": ((2, 5, 9, 11), 7, (3, 2), (1, 1), (0, 0), (1, 1), 1),
    "one by one": ((2, 6, 7, 5), 9, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    "one by one in groups": ((2, 6, 4, 4), 8, (1, 1), (1, 1), (0, 0), (1, 1), 2),
    "one by one with steps": ((2, 6, 7, 5), 9, (1, 1), (2, 3), (0, 0), (1, 1), 1),
    "steps and gaps": ((3, 4, 13, 12), 6, (3, 3), (2, 3), (2, 1), (2, 1), 2),
    "depthwise": ((2, 8, 10, 9), 8, (3, 3), (1, 1), (1, 1), (1, 1), 8),
    "depthwise, two each": ((1, 5, 8, 8), 10, (2, 3), (2, 1), (0, 1), (1, 2), 5),
    "a window as large as the image": ((4, 3, 6, 5), 2, (6, 5), (1, 1), (0, 0), (1, 1), 1),
    "more padding than image": ((1, 2, 2, 3), 3, (3, 3), (2, 2), (4, 3), (1, 1), 1),
    "many filters": ((1, 16, 12, 12), 80, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "a line": ((2, 4, 1, 60), 6, (1, 5), (1, 2), (0, 2), (1, 3), 1),
}


def results(case: str, device: str, dtype: str, layout: str = "plain") -> list[rl.Tensor]:
    """The convolution, and its gradients to x, the weight and the bias."""
    shape, filters, kernel, stride, padding, dilation, groups = CASES[case]
    arrays = [
        draws(1, shape),
        draws(2, (filters, shape[1] // groups, *kernel)),
        draws(3, (filters,)),
    ]
    x, w, b = (rl.tensor(a).to("float32" if dtype == "float64" else dtype) for a in arrays)
    if layout == "far":
        x, w = x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0), w.flip(0).T.contiguous().T
        wide = rl.zeros(shape[0], shape[1], shape[2], 2 * shape[3], dtype=x.dtype)
        wide[..., 1::2] = x
        x = wide.to(device)[..., 1::2]
        w = w.to(device).permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    x, w, b = (t.to(device).to(dtype).detach().requires_grad_() for t in (x, w, b))
    out = F.conv2d(x, w, b, stride, padding, dilation, groups)
    g = rl.tensor(draws(4, out.shape)).to("float32").to(device).to(dtype)
    grads: Any = rl.autograd.grad(out, [x, w, b], g)
    return [out, *grads]


def compare(case: str, dtype: str, layout: str = "plain") -> None:
    # The reference sums in float64 what the narrow dtype holds.
    exact = [t.detach() for t in results(case, "cpu", "float64", layout)]
    for name, found, want in zip(
        ("out", "x", "weight", "bias"), results(case, "webgpu", dtype, layout), exact, strict=True
    ):
        assert found.dtype.name == dtype
        if dtype == "float32":
            assert_close(found.cpu(), want.numpy(), "several", label=f"{case} {name}")
        else:  # inputs were rounded, too
            scale = float(np.abs(want.numpy()).max())
            far = np.abs(found.detach().cpu().float().numpy() - want.numpy()).max()
            assert far <= scale * {"float16": 4e-3, "bfloat16": 3e-2}[dtype], (case, name, far)


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_float64(case: str) -> None:
    compare(case, "float32")


@pytest.mark.parametrize("case", ["plain", "one by one", "steps and gaps"])
def test_operands_that_lie_apart(case: str) -> None:
    compare(case, "float32", "far")


@pytest.mark.parametrize("case", ["steps and gaps", "depthwise"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_dtypes(case: str, dtype: str) -> None:
    compare(case, dtype)


@pytest.mark.native  # the tab's software adapter takes minutes to compile these
@pytest.mark.parametrize("name", ["registers", "tile64", "tile128", "rows_split_columns"])
def test_windows_read_where_they_are(
    name: str, force: Callable[[str], None], backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: nothing is copied out."""
    monkeypatch.setitem(backend.port.info, "type", "DiscreteGPU")
    force(name)
    backend.recorder.observer = []
    compare("steps and gaps", "float32")
    assert "windows" not in {label for _, label in backend.recorder.observer}
    backend.recorder.observer = None


def test_windows_are_copied_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1 << 10, 1 << 13):
        monkeypatch.setattr(windows, "_AT_ONCE", size)
        for case in ("plain", "steps and gaps", "a window as large as the image"):
            compare(case, "float32")


def test_a_gradient_that_is_the_same_everywhere() -> None:
    grads = []
    for device in ("cpu", "webgpu"):
        x = rl.tensor(draws(1, (2, 3, 6, 7)), dtype=rl.float32, device=device).requires_grad_()
        w = rl.tensor(draws(2, (4, 3, 3, 3)), dtype=rl.float32, device=device).requires_grad_()
        F.conv2d(x, w, padding=1).sum().backward()
        grads.append([x.grad, w.grad])
    for cpu, gpu in zip(*grads, strict=True):
        assert_close(gpu.cpu(), cpu.numpy(), "several")


@pytest.mark.native
def test_images_over_the_binding_limit(
    small_bindings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 MiB at once: many images, channels of one image, and a channel that is larger itself."""
    cases = {
        "batch": ((8, 2, 200, 200), 3, (3, 3), 1),
        "channels": ((1, 12, 200, 200), 2, (3, 3), 1),
        "depthwise": ((1, 10, 200, 200), 10, (3, 3), 10),
        "rows": ((1, 1, 700, 600), 2, (5, 3), 1),
    }
    own = small_bindings.port.info["type"]
    for kind, (name, (shape, filters, kernel, groups)) in itertools.product(
        {own, "DiscreteGPU"}, cases.items()
    ):
        monkeypatch.setitem(small_bindings.port.info, "type", kind)
        found = []
        for device in ("cpu", "webgpu"):
            x = rl.tensor(draws(1, shape), dtype=rl.float32).to(device).requires_grad_()
            weight = draws(2, (filters, shape[1] // groups, *kernel))
            w = rl.tensor(weight, dtype=rl.float32).to(device).requires_grad_()
            b = rl.tensor(draws(3, (filters,)), dtype=rl.float32).to(device)
            out = F.conv2d(x, w, b, padding=1, groups=groups)
            g = rl.tensor(draws(4, out.shape), dtype=rl.float32).to(device)
            found.append([out.detach(), *rl.autograd.grad(out, [x, w], g)])
        for what, cpu, gpu in zip(("out", "x", "weight"), *found, strict=True):
            far = np.abs(gpu.cpu().numpy() - cpu.numpy()).max()
            # Sums of up to 400,000 products.
            assert far <= 1e-4 * np.abs(cpu.numpy()).max(), (name, what)


def test_nothing_to_sum() -> None:
    """No channels, no images, no filters: zeros, the bias, or nothing."""
    for n, c, filters in itertools.product((0, 2), (0, 3), (0, 4)):
        made = []
        for device in ("cpu", "webgpu"):
            x = rl.ones(n, c, 5, 5, device=device).requires_grad_()
            w = rl.ones(filters, c, 3, 3, device=device).requires_grad_()
            out = F.conv2d(x, w, rl.ones(filters, device=device))
            made.append([out, *rl.autograd.grad(out.sum(), [x, w])])
        for cpu, gpu in zip(*made, strict=True):
            assert_close(gpu.detach().cpu(), cpu.detach().numpy(), "exact", label=f"{n} {c}")


def test_ops_built_on_convolution() -> None:
    x = draws(1, (2, 4, 9, 12)).astype(np.float32)
    w = draws(2, (4, 3, 3, 2)).astype(np.float32)
    line = draws(3, (5, 4, 3)).astype(np.float32)

    def run(device: str) -> list[rl.Tensor]:
        t = rl.tensor(x, device=device).requires_grad_()
        outs = [
            F.conv_transpose2d(t, rl.tensor(w, device=device), None, (2, 3), 1, (1, 2)),
            F.conv1d(t[:, :, 3], rl.tensor(line, device=device), None, 2, 1, 2),
            F.max_pool2d(t, 3, 2, 1),
            F.avg_pool2d(t, (2, 3), 1, 1),
        ]
        total = rl.stack([(o * o).sum() for o in outs]).sum()
        grads: Any = rl.autograd.grad(total, [t])
        return [*outs, *grads]

    for cpu, gpu in zip(run("cpu"), run("webgpu"), strict=True):
        assert_close(gpu.detach().cpu(), cpu.detach().numpy(), "several")
