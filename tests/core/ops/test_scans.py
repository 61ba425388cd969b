"""Scans over a sequence: on every device, by tokens as by chunks, with both derivatives."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.tools.testing import assert_close, check_gradient

Array = npt.NDArray[Any]
F = rl.nn.functional


def given(arrays: tuple[Array, ...], device: str) -> list[rl.Tensor]:
    return [rl.tensor(x.astype(np.float32), device=device) for x in arrays]


@pytest.mark.parametrize("kind", ["SCAN_HEADS", "SCAN_STATES"])
def test_a_scan_on_the_device(kind: str, device: str, composite_samples: ModuleType) -> None:
    arrays = getattr(composite_samples, kind)
    expected = composite_samples._scan(*arrays)
    for chunk in (7, 2):
        found = composite_samples._scanned(chunk)(*given(arrays, device))
        assert_close(found, expected, "several", label=f"chunks of {chunk}")
    x, dt, a, b, c, state = given(arrays, device)
    parts = []
    for t in range(x.shape[1]):
        y, state = F.selective_scan(
            x[:, t : t + 1],
            dt[:, t : t + 1],
            a,
            b[:, t : t + 1],
            c[:, t : t + 1],
            rl.full((6,), 0.5, device=device),
            state,
        )
        parts.append(y)
    found = rl.cat([rl.cat(parts, 1).reshape(-1), state.reshape(-1)])
    assert_close(found, expected, "several", label="by tokens")


@pytest.mark.parametrize("name", ["causal_conv1d", "linear_recurrence"])
def test_a_step_on_the_device(name: str, device: str, composite_samples: ModuleType) -> None:
    sample = composite_samples.SAMPLES[name]
    if name == "causal_conv1d":
        x, w, bias, state = given(sample.inputs, device)
        y, last = F.causal_conv1d(x, w, bias, state, rl.tensor([2, 5], device=device))
        found = rl.cat([y.reshape(-1), last.reshape(-1)])
    else:
        found = sample.call(*given(sample.inputs, device))
    assert_close(found, sample.reference(*sample.inputs), "several")


@pytest.mark.parametrize("kind", ["SCAN_HEADS", "SCAN_STATES"])
def test_both_derivatives_of_a_scan(kind: str, composite_samples: ModuleType) -> None:
    # A part of each, so that the differences stay few.
    x, dt, a, b, c, h = getattr(composite_samples, kind)
    x, dt, h = x[:1, :3, :1, :1], dt[:1, :3, :1], h[:1, :1, :1, :2]
    small = x, dt, a[:1] if a.ndim == 1 else a[:1, :2], b[:1, :3, :1, :2], c[:1, :3, :1, :2], h
    check_gradient(composite_samples._scanned(2), list(small), label=kind)


@pytest.mark.parametrize("kind", ["SCAN_HEADS", "SCAN_STATES"])
def test_a_gradient_on_the_device(kind: str, device: str, composite_samples: ModuleType) -> None:
    def gradients(where: str, dtype: str) -> list[Any]:
        leaves = [
            rl.tensor(t, dtype=dtype, device=where, requires_grad=True)
            for t in getattr(composite_samples, kind)
        ]
        composite_samples._scanned(4)(*leaves).square().sum().backward()
        return [leaf.grad for leaf in leaves]

    expected = gradients("cpu", "float64")
    for found, want in zip(gradients(device, "float32"), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), want.numpy(), rtol=1e-3, atol=1e-4)


def test_errors_name_what_does_not_fit() -> None:
    x, dt, b = rl.ones(1, 3, 4, 2), rl.ones(1, 3, 4), rl.ones(1, 3, 2, 5)
    a = -rl.ones(4)
    with pytest.raises(ValueError, match=r"selective_scan: c is \(1, 2, 2, 5\); it must be"):
        F.selective_scan(x, dt, a, b, b[:, :2])
    with pytest.raises(ValueError, match="selective_scan: 3 groups do not divide the heads"):
        F.selective_scan(x, dt, a, rl.ones(1, 3, 3, 5), rl.ones(1, 3, 3, 5))
    with pytest.raises(ValueError, match=r"selective_scan: x \(1, 3, 4\) and b"):
        F.selective_scan(dt, dt, a, b, b)
    with pytest.raises(ValueError, match=r"linear_recurrence: state is \(2,\); it must be \(1, 4"):
        F.linear_recurrence(dt, dt, rl.ones(2))
    with pytest.raises(ValueError, match=r"causal_conv1d: weight \(4, 2, 3\) does not fit x"):
        F.causal_conv1d(dt, rl.ones(4, 2, 3))
    with pytest.raises(ValueError, match=r"causal_conv1d: state is \(1, 3, 4\); it must be"):
        F.causal_conv1d(dt, rl.ones(4, 1, 3), None, dt)


@pytest.mark.parametrize("chunk", [64, 16])
def test_parts_side_by_side(chunk: int, device: str, composite_samples: ModuleType) -> None:
    draw = np.random.default_rng(chunk)
    a, b, h = draw.uniform(0, 1, (2, 40, 3)), draw.normal(size=(2, 40, 3)), draw.normal(size=(2, 3))
    x, y, state = given((a, b, h), device)
    for first, start in ((None, 0 * h), (state, h)):
        found = F.linear_recurrence(x, y, first, chunk)
        assert_close(found, composite_samples._recurrence(a, b, start), "several")
