"""Reductions at sizes and layouts where the kernel takes another path."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.tools.testing import assert_close, draws

NAMES = ("sum", "amax", "amin", "any", "all")
# Around the lanes of a row (4, 16, 64, 256), its blocks of 32, and its parts.
SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((1,), 0), ((7,), 0), ((8,), 0), ((33,), 0), ((511,), 0), ((512,), 0), ((8193,), 0),
    ((100003,), 0), ((3, 20000), 1), ((20000, 3), 0), ((300, 130), 1), ((130, 300), 0),
    ((70000, 2), 1), ((5, 70, 6, 9), (1, 3)), ((5, 70, 6, 9), (0, 2)), ((2, 3, 2, 3, 2, 3), (1, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_shapes(gpu: rl.Device, shape: tuple[int, ...], dim: Any) -> None:
    x = draws(1, shape).astype(np.float32)
    x.reshape(-1)[:: max(x.size // 7, 1)] = 0
    t = rl.tensor(x, device=gpu)
    axis = (dim,) if isinstance(dim, int) else dim
    assert_close(t.sum(dim).cpu(), x.astype(float).sum(axis), "sum", label=f"sum {shape}")
    np.testing.assert_array_equal(t.amax(dim).numpy(), x.max(axis))
    np.testing.assert_array_equal(t.amin(dim).numpy(), x.min(axis))
    np.testing.assert_array_equal((t != 0).all(dim).numpy(), (x != 0).all(axis))
    np.testing.assert_array_equal((t > 0.9).any(dim).numpy(), (x > 0.9).any(axis))
    if isinstance(dim, int):
        np.testing.assert_array_equal(t.argmax(dim).numpy(), x.argmax(dim))
        np.testing.assert_array_equal(t.argmin(dim).numpy(), x.argmin(dim))


def test_the_first_of_many_equals(gpu: rl.Device) -> None:
    x = np.zeros(50000, np.float32)
    x[[777, 20000, 49999]] = 1
    assert rl.tensor(x, device=gpu).argmax().item() == 777
    x[[30000, 40000]] = np.nan
    assert rl.tensor(x, device=gpu).argmax().item() == 30000
    assert rl.tensor(x, device=gpu).argmin().item() == 30000
    same = rl.full((40000,), 3, dtype=rl.int32, device=gpu)
    assert same.argmax().item() == 0 and same.argmin().item() == 0
    assert rl.tensor([-(2**31), -(2**31)], dtype=rl.int32, device=gpu).argmax().item() == 0


@pytest.mark.parametrize("layout", ["transposed", "stepped", "flipped", "expanded"])
def test_strided_inputs_are_read_where_they_lie(
    gpu: rl.Device, backend: Any, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = draws(1, (60, 80)).astype(np.float32)
    views: dict[str, Any] = {
        "transposed": (lambda t: t.t(), x.T),
        "stepped": (lambda t: t[1::3, ::2], x[1::3, ::2]),
        "flipped": (lambda t: t[5:, 7:], x[5:, 7:]),
        "expanded": (lambda t: t[:1].expand(50, 80), np.broadcast_to(x[:1], (50, 80))),
    }
    view, want = views[layout]
    t = view(rl.tensor(x, device=gpu))
    seen: list[tuple[str, str]] = []
    monkeypatch.setattr(backend.recorder, "observer", seen)
    for dim in (0, 1, (0, 1)):
        assert_close(t.sum(dim).cpu(), want.astype(float).sum(dim), "sum")
        np.testing.assert_array_equal(t.amax(dim).numpy(), want.max(dim))
    assert {op for op, _ in seen} == {"sum", "amax"} and len(seen) <= 12, "nothing is copied first"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8", "int8", "int16", "bool"])
def test_narrow_dtypes(gpu: rl.Device, dtype: str) -> None:
    x = rl.tensor(draws(1, (37, 75), -9, 9).astype(np.float32)).to(dtype)
    t = x.to(gpu)
    for name in NAMES:
        for dim in (0, 1):
            found, want = getattr(rl, name)(t, dim).cpu(), getattr(rl, name)(x, dim)
            assert found.dtype is want.dtype
            assert_close(found, want.host_values(), "sum", label=name)


def test_int64_sums(gpu: rl.Device) -> None:
    near = rl.tensor([2**31 - 1, 2**31 - 1, 5, -(2**31), -(2**31)] * 3, device=gpu)
    assert near.sum().item() == sum(near.tolist()), "what is between may be beyond"
    for values in ([2**31 - 1, 1], [-(2**31), -1], [2**31 - 1] * 4096):
        with pytest.raises(OverflowError, match="^sum: an int64 result is beyond"):
            rl.tensor(values, device=gpu).sum().item()
    many = rl.full((20000,), 107374, device=gpu)
    assert many.sum().item() == 2147480000
    assert rl.tensor([2**31 - 1, 1], dtype=rl.int32, device=gpu).sum(dtype="int32").item() == -(
        2**31
    )


@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
@pytest.mark.parametrize("turned", [False, True])
def test_beyond_a_binding(small_bindings: Any, dim: Any, turned: bool) -> None:
    x = draws(1, (700, 1000), 0, 1).astype(np.float32)
    t = rl.tensor(x, device="webgpu")
    t, x = (t.t(), x.T) if turned else (t, x)
    assert_close(t.sum(dim).cpu(), x.astype(float).sum(dim), "sum")
    np.testing.assert_array_equal(t.amin(dim).numpy(), x.min(dim))
    if isinstance(dim, int):
        np.testing.assert_array_equal(t.argmax(dim).numpy(), x.argmax(dim))
    wide = rl.tensor(x[0], device="webgpu").expand(600, x.shape[1])
    assert_close(wide.sum(1).cpu(), np.full(600, math.fsum(x[0].tolist())), "sum")
