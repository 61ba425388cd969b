"""Softmax, normalisation and rotary positions against float64, in every layout and dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core import ops
from rushlight.core.backends.cpu import lowering
from rushlight.core.tools.testing import assert_close, draws

Array = npt.NDArray[Any]
Both = Callable[..., tuple[Any, Any]]
INF, NAN = float("inf"), float("nan")
FLOATS = ("float32", "float16", "bfloat16")
SHAPES = [
    (1,),
    (5,),
    (3, 16),
    (2, 3, 17),
    (7, 64),
    (40, 384),
    (3, 1025),
    (2, 20_000),
    (0, 4),
    (3, 0),
]

TURNS = [
    ((2, 3, 5, 8), 8),
    ((1, 9, 1, 64), 64),
    ((3, 7), 4),
    ((1, 2, 33, 80), 26),
    ((4, 0, 6), 6),
    ((2, 6), 0),
]


def _exact(x: rl.Tensor) -> Array:
    return np.asarray(x.float().numpy(), np.float64)


def _layouts(x: Array, dtype: str) -> list[rl.Tensor]:
    """The same values plain, behind an odd offset, with gaps, and transposed."""
    plain = rl.tensor(x, dtype=dtype)
    flat = rl.zeros(x.size + 3, dtype=dtype)
    flat[3:] = plain.reshape(-1)
    wide = rl.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=dtype)
    wide[..., ::2] = plain
    turned = plain.transpose(0, -1).contiguous().transpose(0, -1)
    return [plain, flat[3:].reshape(*x.shape), wide[..., ::2], turned]


def _softmax(x: Array, dim: int) -> Array:
    if not x.shape[dim]:
        return x
    e = np.exp(x - x.max(dim, keepdims=True))
    return np.asarray(e / e.sum(dim, keepdims=True))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(variant: str, shape: tuple[int, ...], dtype: str) -> None:
    for x in _layouts(draws(1, shape, -20, 20), dtype):
        for dim in range(len(shape)):
            want = _softmax(_exact(x), dim)
            assert_close(rl.softmax(x, dim), want, "product", label=f"{shape} {dim}")
            with np.errstate(divide="ignore"):
                log = np.log(want)
            assert_close(rl.log_softmax(x, dim), log, "product", label=f"{shape} {dim}")


def test_softmax_of_what_is_not_finite(variant: str, both: Both) -> None:
    rows = [
        [1.0, INF, 0.0],
        [NAN, 1.0, 2.0],
        [-INF, -INF, -INF],
        [-INF, 0.0, -INF],
        [3e38, -3e38, 3e38],
        [1.0, 2.0, NAN],
        [-200.0, 0.0, -200.0],
    ]
    for width in (3, 19):
        x = rl.tensor(np.resize(rows, (7, 3)).repeat(width // 3, 1).astype(np.float32))
        for fn in (rl.softmax, rl.log_softmax):
            mine, theirs = both(fn, x, -1)
            found, wanted = mine.numpy(), theirs.numpy()
            assert np.array_equal(np.isnan(found), np.isnan(wanted)), (found, wanted)
            finite = np.isfinite(theirs.numpy())
            assert_close(mine.numpy()[finite], theirs.numpy()[finite].astype(float), "product")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[-1]])
def test_norms(variant: str, shape: tuple[int, ...], dtype: str) -> None:
    n = shape[-1]
    for x in _layouts(draws(1, shape, -3, 5), dtype):
        v = _exact(x)
        for seed, eps in ((2, 1e-5), (3, 1e-12)):
            weight, bias = (rl.tensor(draws(seed + i, (n,)), dtype=dtype) for i in (0, 10))
            w, b = _exact(weight), _exact(bias)
            root = 1 / np.sqrt((v * v).mean(-1, keepdims=True) + eps)
            assert_close(rl.rms_norm(x, n, weight, eps=eps), v * root * w, "product")
            assert_close(rl.rms_norm(x, n, eps=eps), v * root, "product")
            if n < 3:
                continue  # a difference of nothing, divided by the root of eps
            c = v - v.mean(-1, keepdims=True)
            normal = c / np.sqrt((c * c).mean(-1, keepdims=True) + eps)
            assert_close(rl.layer_norm(x, n, weight, bias, eps=eps), normal * w + b, "product")
            assert_close(rl.layer_norm(x, n, eps=eps), normal, "product")
            assert_close(rl.layer_norm(x, n, weight, eps=eps), normal * w, "product")


def test_norms_are_the_kernels_and_keep_nan_in_its_row(variant: str) -> None:
    x = rl.tensor(draws(1, (3, 37)).astype(np.float32))
    for name, parts in (("layer_norm", (None, None)), ("rms_norm", (None,))):
        assert lowering.record(name, (x, *parts), rl.zeros(3, 37), {"eps": 0.0}) is not None
    x[1, 5] = NAN
    for y in (rl.layer_norm(x, 37), rl.rms_norm(x, 37)):
        assert np.isnan(y.numpy()).all(1).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("shape", "turning"), TURNS)
def test_rope(
    variant: str, shape: tuple[int, ...], turning: int, interleaved: bool, dtype: str
) -> None:
    half = turning // 2
    angle = draws(2, (*shape[-2:-1], half), -3, 3)
    cos, sin = (rl.tensor(f(angle), dtype=dtype) for f in (np.cos, np.sin))
    for x in _layouts(draws(1, shape), dtype):
        v = _exact(x)
        first = slice(0, turning, 2) if interleaved else slice(0, half)
        second = slice(1, turning, 2) if interleaved else slice(half, turning)
        want = v.copy()
        c, s = _exact(cos), _exact(sin)
        want[..., first] = v[..., first] * c - v[..., second] * s
        want[..., second] = v[..., second] * c + v[..., first] * s
        assert_close(ops.rope(x, cos, sin, interleaved=interleaved), want, "product")


@pytest.mark.native  # threads
def test_rows_do_not_depend_on_the_threads(variant: str) -> None:
    x = rl.from_numpy(draws(1, (301, 385), -9, 9).astype(np.float32))
    found = []
    for count in (1, 3):
        rl.set_num_threads(count)
        found.append((rl.softmax(x, 1) + rl.softmax(x, 0) + rl.layer_norm(x, 385)).numpy())
    rl.set_num_threads(2)
    assert np.array_equal(found[0], found[1])
