"""The largest elements of windows, and resampling by tables, in C against NumPy's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import backend, simd
from rushlight.core.backends.cpu.reference.window_kernels import KERNELS as WINDOWS
from rushlight.core.functional.network.tables import turned
from rushlight.core.ops.windows import RESAMPLE, WINDOW_ARGMAX, WINDOW_MAX
from rushlight.core.tools.testing import assert_close, draws

pytestmark = pytest.mark.usefixtures("variant")


@pytest.fixture(autouse=True)
def _in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no op of a test fall back to NumPy."""
    for name in WINDOWS:
        monkeypatch.delitem(backend.KERNELS, name)


# Sizes, taps, strides, paddings and dilations.
CASES = [
    ((1, 20, 33), (1, 2, 2), (1, 2, 2), (0, 0, 0), (1, 1, 1)),
    ((1, 20, 50), (1, 3, 3), (1, 1, 1), (0, 1, 1), (1, 1, 1)),
    ((4, 9, 60), (2, 3, 3), (1, 2, 3), (1, 1, 1), (1, 2, 2)),
    ((2, 3, 2300), (2, 3, 5), (2, 2, 2), (1, 1, 2), (1, 1, 1)),
    ((3, 7, 200), (2, 3, 3), (2, 2, 6), (1, 1, 1), (1, 2, 4)),
    ((1, 6, 19), (1, 2, 4), (1, 1, 6), (0, 1, 2), (1, 1, 1)),
    ((2, 5, 700), (2, 5, 650), (2, 5, 4), (0, 0, 325), (1, 1, 1)),
    ((2, 5, 700), (2, 5, 700), (2, 5, 700), (0, 0, 0), (1, 1, 1)),
    ((1, 1, 3), (1, 1, 2), (1, 1, 1), (0, 0, 1), (1, 1, 4)),
]


@pytest.mark.parametrize("of", CASES, ids=str)
def test_the_largest_and_their_places(of: tuple[Any, ...]) -> None:
    sizes, kernel, stride, padding, dilation = of
    count = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    )
    named = dict(kernel=kernel, stride=stride, padding=padding, dilation=dilation, count=count)
    x = draws(1, (3, *sizes), -1.0, 1.0).astype(np.float32)
    x[x > 0.97] = np.nan
    x[x < -0.5] = -np.inf
    for dtype in ("float32", "bfloat16", "float8_e5m2"):
        t = rl.tensor(x).to(dtype)
        wanted = np.empty((3, *count), np.int64)
        WINDOWS["window_argmax"](wanted, t.float().numpy(), **named)
        found = WINDOW_ARGMAX(t, **named)
        assert np.array_equal(found.numpy(), wanted), dtype
        last = t.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2)
        assert np.array_equal(WINDOW_ARGMAX(last, **named).numpy(), wanted), dtype
        flat = t.float().numpy().reshape(3, -1)
        largest = np.take_along_axis(flat, wanted.reshape(3, -1).clip(0), 1).reshape(wanted.shape)
        largest[wanted < 0] = -np.inf
        for one in (t, last):
            values = WINDOW_MAX(one, **named).float().numpy()
            assert np.array_equal(values, largest, equal_nan=True), dtype


def table(n: int, m: int, terms: int) -> tuple[Any, Any]:
    at = np.random.default_rng(n + m).integers(-1, n, (m, terms))
    return at, draws(terms, at.shape, -1.0, 1.0)


@pytest.mark.parametrize(
    "shape, dim, m, terms",
    [
        ((3, 7, 45), 1, 9, 2),
        ((3, 7, 5), 1, 70, 3),
        ((2, 300, 100), 1, 5, 600),
        ((150, 31), 1, 62, 2),
        ((21, 130), 1, 7, 90),
        ((2, 3, 4, 19), 2, 9, 1),
        ((1, 9, 1), 1, 20, 4),
        ((17, 2, 3), 0, 5, 0),
        ((17, 70_000), 1, 3, 5),
    ],
)
def test_weighted_elements(shape: Any, dim: int, m: int, terms: int) -> None:
    made_of = table(shape[dim], m, terms)
    both = []
    for at, weight in (made_of, turned(made_of, shape[dim])):
        both += [at, weight.astype(np.float32).view(np.int32)]
    x = draws(3, shape, -1.0, 1.0).astype(np.float32)
    made = (*shape[:dim], m, *shape[dim + 1 :])
    wanted = np.empty(made)
    WINDOWS["resample"](wanted, x.astype(np.float64), *both, dim=dim)
    given = [rl.tensor(v, dtype=v.dtype.name) for v in both]
    assert_close(RESAMPLE(rl.tensor(x), *given, dim=dim), wanted, "product")
    g = draws(4, made, -1.0, 1.0).astype(np.float32)
    back = np.empty(shape)
    WINDOWS["resample"](back, g.astype(np.float64), *both[2:], *both[:2], dim=dim)
    t = rl.tensor(x).requires_grad_()
    (RESAMPLE(t, *given, dim=dim) * rl.tensor(g)).sum().backward()
    assert_close(t.grad, back, "product")
    # The same by definition, from the other side: sums of products agree.
    assert np.allclose((wanted * g).sum(), (x * back).sum(), rtol=1e-4, atol=1e-3)


def test_copies_are_exact() -> None:
    x = draws(5, (5, 40), -1.0, 1.0).astype(np.float32)
    at = np.random.default_rng(0).integers(0, 40, (90, 1))
    one = rl.tensor(np.ones((90, 1), np.float32).view(np.int32), dtype="int32")
    given = (rl.tensor(at), one, rl.tensor(at), one)
    x[0, 0] = np.nan
    found = RESAMPLE(rl.tensor(x), *given, dim=1).numpy()
    assert np.array_equal(found, x[:, at[:, 0]], equal_nan=True)
    found = RESAMPLE(rl.tensor(x.T.copy()), *given, dim=0).numpy()
    assert np.array_equal(found, x.T[at[:, 0]], equal_nan=True)


@pytest.mark.parametrize("bad", [-2, 4])
def test_places_are_checked(bad: int) -> None:
    one = rl.tensor([[1]], dtype="int32")
    operands = (rl.zeros(2, 1), rl.zeros(2, 4), rl.tensor([[bad]]), one)
    with pytest.raises(IndexError):
        simd.run([simd.Record("resample", operands, (1,))], ["resample"])


@pytest.mark.native
def test_threads_give_the_same_bits() -> None:
    x = rl.tensor(draws(6, (70, 1, 90, 130), -1.0, 1.0).astype(np.float32))
    before, found = rl.get_num_threads(), []
    try:
        for count in (1, 2):
            rl.set_num_threads(count)
            pooled = rl.nn.functional.max_pool2d(x, 3, 2, 1)
            grown = rl.nn.functional.interpolate(x, scale_factor=1.5, mode="bicubic")
            found.append((pooled.numpy(), grown.numpy()))
    finally:
        rl.set_num_threads(before)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
