"""Reductions: sums nearer to float64 than NumPy's bound, the others exactly NumPy's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import lowering
from rushlight.core.tools.testing import assert_close, draws

Both = Callable[..., tuple[Any, Any]]
INF, NAN = float("inf"), float("nan")
SHAPES = [(1,), (7,), (3, 5), (17, 33), (2, 600, 3), (4, 3, 130), (3, 2, 2, 1030), (129, 67),
          (0, 3), (3, 0, 2)]  # fmt: skip
FLOATS = ("float32", "float16", "bfloat16")
INTS = ("bool", "uint8", "int8", "int32", "int64")


def _dims(count: int) -> list[tuple[int, ...]]:
    return [d for n in range(1, count + 1) for d in itertools.combinations(range(count), n)]


def _views(x: rl.Tensor) -> list[rl.Tensor]:
    wide = rl.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype)
    wide[..., 1::2] = x
    return [
        x,
        x.transpose(0, -1),
        wide[..., 1::2],
        x[:1].expand(2 * x[:1].shape[0], *x.shape[1:]),
        x[1:],
    ]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums(variant: str, shape: tuple[int, ...], dtype: str) -> None:
    for x in _views(rl.tensor(draws(1, shape, -1, 1)).to(dtype)):
        v = np.asarray(x.float().numpy(), np.float64)
        for dim in _dims(len(shape)):
            assert_close(x.sum(dim), v.sum(dim), "sum", label=f"{x.shape} {dim}")
            assert_close(x.sum(dim, True), v.sum(dim, keepdims=True), "sum")


def test_long_sums_keep_their_digits(variant: str) -> None:
    x = draws(1, (1 << 18, 3), 0, 1).astype(np.float32)
    for t, dim in ((rl.from_numpy(x), 0), (rl.from_numpy(np.ascontiguousarray(x.T)), 1)):
        want = [math.fsum(column.tolist()) for column in x.T]
        assert np.abs(t.sum(dim).numpy() / want - 1).max() < 1e-7
    assert abs(rl.from_numpy(x).sum().item() / math.fsum(x.ravel().tolist()) - 1) < 1e-7


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_others_are_numpys(
    variant: str, shape: tuple[int, ...], dtype: str, both: Both
) -> None:
    values = draws(1, shape, -90, 90) if dtype != "bool" else draws(1, shape) > 0.9
    for x in _views(rl.tensor(np.asarray(values)).to(dtype)):
        for dim in _dims(len(shape)):
            calls: list[tuple[Any, Any]] = [(rl.any, dim), (rl.all, dim)]
            if math.prod(x.shape[d] for d in dim):
                calls += [(rl.amax, dim), (rl.amin, dim)]
                if len(dim) == 1:
                    calls += [(rl.argmax, dim[0]), (rl.argmin, dim[0])]
            if dtype in INTS:
                calls += [(rl.sum, dim)]
                if len(dim) == 1:
                    calls += [(rl.cumsum, dim[0])]
            for fn, at in calls:
                mine, theirs = both(fn, x, at)
                assert mine.dtype is theirs.dtype and mine.shape == theirs.shape
                assert np.array_equal(mine.float().numpy(), theirs.float().numpy()), (fn, at)


def test_nan_and_infinity(variant: str, both: Both) -> None:
    for n in (3, 40, 1300):
        rows = np.resize(draws(1, (n,)), (6, n)).astype(np.float32)
        rows[1, n // 2], rows[2, -1], rows[3, 0], rows[4, 1] = NAN, NAN, INF, -INF
        rows[1, -1] = INF
        for x in (rl.from_numpy(rows), rl.from_numpy(np.ascontiguousarray(rows.T)).t()):
            for fn in (rl.amax, rl.amin, rl.argmax, rl.argmin, rl.any, rl.all, rl.sum):
                mine, theirs = (t.numpy() for t in both(fn, x, 1))
                if fn is rl.sum:
                    assert np.array_equal(np.isfinite(mine), np.isfinite(theirs))
                else:
                    assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f"), (fn, n)


def test_the_first_of_equal_ones(variant: str) -> None:
    x = rl.zeros(2, 1500)
    x[0, 700], x[0, 701], x[0, 1400], x[1, 3] = 5, 5, 5, -1
    assert x.argmax(1).tolist() == [700, 0] and x.argmin(1).tolist() == [0, 3]


@pytest.mark.parametrize("dtype", FLOATS)
def test_cumulative_sums(variant: str, dtype: str) -> None:
    for shape in ((1,), (1000,), (3, 700), (5, 1, 9), (0, 3)):
        for x in _views(rl.tensor(draws(1, shape, 0, 1)).to(dtype)):
            v = np.asarray(x.float().numpy(), np.float64)
            for dim in range(len(shape)):
                assert_close(x.cumsum(dim), v.cumsum(dim), "sum")


def test_integers_wrap_around(variant: str) -> None:
    x = rl.full((70,), 2**62, dtype="int64")
    assert x.sum().item() == (70 * 2**62 + 2**63) % 2**64 - 2**63
    assert x.cumsum(0)[-1].item() == x.sum().item()


def test_they_are_the_kernels(variant: str) -> None:
    x = rl.ones(3, 5)
    for name in ("sum", "amax", "amin"):
        attrs = {"dim": (1,), "keepdim": False}
        assert lowering.record(name, (x,), rl.zeros(3), attrs) is not None
    assert lowering.record("argmax", (x,), rl.zeros(3, dtype="int64"), {"dim": 1, "keepdim": False})
    assert lowering.record("any", (x,), rl.zeros(3, dtype="bool"), {"dim": (1,), "keepdim": False})


@pytest.mark.native
def test_reductions_do_not_depend_on_the_threads(variant: str) -> None:
    x = rl.from_numpy(draws(1, (300, 500)).astype(np.float32))
    found = []
    for count in (1, 2, 5):
        rl.set_num_threads(count)
        found.append([x.sum(0).numpy(), x.sum(1).numpy(), x.sum().numpy(), x.argmax(1).numpy()])
    rl.set_num_threads(2)
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))
