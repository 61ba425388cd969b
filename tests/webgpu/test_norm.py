"""Softmax, the norms, rope and running sums on webgpu: lengths around the lanes, every dim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.lowering import norm
from rushlight.core.tools.testing import assert_close, draws

LENGTHS = (1, 31, 33, 256, 257, 2048, 2051)


@pytest.fixture(params=["DiscreteGPU", "CPU"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Kernels for both kinds of adapters, whatever this one is."""
    monkeypatch.setitem(backend.port.info, "type", request.param)


def test_the_lengths_reach_every_variant() -> None:
    assert {norm.lanes_for(n) for n in LENGTHS} == {32, 64, 256}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_softmax(gpu: rl.Device, length: int, dtype: str, dim: int) -> None:
    shape = [2, 3, 2]
    shape[dim] = length
    x = rl.tensor(draws(1, shape, -9, 9)).to(dtype)
    wide = x.double().numpy()
    e = np.exp(wide - wide.max(dim, keepdims=True))
    want = e / e.sum(dim, keepdims=True)
    there = x.to(gpu)
    assert_close(there.softmax(dim).cpu(), want, "sum")
    assert_close(there.log_softmax(dim).cpu(), np.log(want), "sum")
    turned = there.permute(2, 0, 1)
    assert_close(turned.softmax((dim + 1) % 3).permute(1, 2, 0).cpu(), want, "sum")


def test_softmax_of_infinities(gpu: rl.Device) -> None:
    inf, nan = float("inf"), float("nan")
    rows = [[0.0, -inf, 0.0], [-inf, -inf, -inf], [1.0, inf, 0.0], [nan, 0.0, 1.0]]
    here, there = rl.tensor(rows), rl.tensor(rows, device=gpu)
    assert_close(there.softmax(1).cpu(), here.double().softmax(1).numpy(), "sum")
    assert_close(there.log_softmax(1).cpu(), here.double().log_softmax(1).numpy(), "sum")
    assert rl.tensor([1e30, 1e30, -3e38], device=gpu).softmax(0).tolist() == [0.5, 0.5, 0]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_norms(gpu: rl.Device, length: int, dtype: str) -> None:
    x = rl.tensor(draws(1, (3, length), -2, 5)).to(dtype)
    weight, bias = (rl.tensor(draws(s, (length,))).to(dtype) for s in (2, 3))
    a, w, b = (t.double().numpy() for t in (x, weight, bias))
    centred = a - a.mean(1, keepdims=True)
    layer = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    rms = a / np.sqrt((a**2).mean(1, keepdims=True) + 1e-6)
    x, weight, bias = (t.to(gpu) for t in (x, weight, bias))
    for given in (x, x.repeat(1, 2)[:, :length]):
        assert_close(rl.layer_norm(given, length).cpu(), layer, "product")
        assert_close(rl.layer_norm(given, length, weight, bias).cpu(), layer * w + b, "product")
        assert_close(rl.rms_norm(given, length).cpu(), rms, "product")
        assert_close(rl.rms_norm(given, length, weight).cpu(), rms * w, "product")


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rope_with_repeated_angles(gpu: rl.Device, interleaved: bool, dtype: str) -> None:
    x = rl.tensor(draws(1, (2, 3, 4, 9))).to(dtype).permute(0, 2, 1, 3)
    angle = rl.tensor(draws(2, (3, 3)))
    cos, sin = (t.to(dtype) for t in (angle.cos(), angle.sin()))
    want = rl.rope(*(t.double() for t in (x, cos, sin)), interleaved=interleaved)
    found = rl.rope(*(t.to(gpu) for t in (x, cos, sin)), interleaved=interleaved)
    assert_close(found.cpu(), want.numpy(), "product")


@pytest.mark.parametrize("length", [1, 8, 9, 64, 65, 256, 257, 1024, 1025, 5000])
@pytest.mark.parametrize("dim", [0, 1])
def test_running_sums_of_both_kinds(gpu: rl.Device, length: int, dim: int) -> None:
    """By lanes that share a part, and by parts of one invocation: around the ends of parts."""
    x = np.floor(draws(4, (3, length) if dim else (length, 3), -50, 50)) / 64
    found = rl.tensor(x.astype(np.float32), device=gpu).cumsum(dim).numpy()
    assert np.array_equal(found, x.cumsum(dim))  # 64ths of small numbers: every sum is exact
