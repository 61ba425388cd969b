"""Random numbers, sorted integers and truth: the C kernels beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.simd import Record
from rushlight.core.basis import philox

pytestmark = pytest.mark.usefixtures("variant")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e5m2"])
@pytest.mark.parametrize("count", [1, 7, 513, 40_001])
def test_draws_are_philoxs(dtype: str, count: int) -> None:
    """Any seed, any place in the stream, pieces of every size: uniform numbers to the bit."""
    seed = 2**63 + count
    generator = rl.Generator(seed)
    rl.rand(9, generator=generator)  # three blocks
    uniform = rl.rand(count, dtype=dtype, generator=generator)
    normal = rl.randn(count, dtype=dtype, generator=generator)
    bits = philox.UNIFORM_BITS.get(dtype, 24)
    expected = philox.uniform(seed, 3, count, bits)
    assert (uniform.float().numpy() == expected).all() and uniform.max().item() < 1
    draws = philox.normal(seed, 3 + -(-count // 4), count)
    close = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3, "float8_e5m2": 0.13}[dtype]
    assert np.allclose(normal.float().numpy(), draws, rtol=close, atol=close)


@pytest.mark.parametrize("attrs", [(0, 1, 1), (0, 1, 1, 0), (0, 1, 1, 25), ()])
def test_wrong_draws_are_refused(attrs: tuple[int, ...]) -> None:
    for out in (rl.zeros(3), rl.zeros(4, 4).T[1:], rl.zeros(3, dtype="int32")):
        with pytest.raises(simd.Refused):
            simd.run([Record("random", (out,), attrs)], ["rand"])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int32", "uint32", "int64"])
@pytest.mark.parametrize("descending", [False, True])
def test_integers_are_sorted(both: Callable[..., Any], dtype: str, descending: bool) -> None:
    draw = np.random.default_rng(5)
    for low, high in ((0, 3), (0, 120), (0, 2)):
        x = rl.from_numpy(draw.integers(low, high, (3, 2100))).to(dtype)
        mine, numpys = both(x.argsort, 1, descending)
        assert mine.tolist() == numpys.tolist()
        for k in (1, 5):
            mine, numpys = both(x.topk, k, 1, descending)
            assert mine.indices.tolist() == numpys.indices.tolist()


def test_integers_far_apart_are_sorted(both: Callable[..., Any]) -> None:
    """Their distance does not fit the keys of the C kernel, which leaves them to NumPy."""
    edge = [2**63 - 1, -(2**63), 0, 2**40, 2**32, 2**32 - 1, -1]
    mine, numpys = both(rl.tensor(edge).argsort)
    assert mine.tolist() == numpys.tolist()
    near = rl.tensor([2**40 + 2**32 - 1, 2**40, 2**40 + 2**31])
    assert near.argsort().tolist() == [1, 2, 0]


@pytest.mark.parametrize("size", [1, 31, 64, 1003])
def test_where_the_largest_is(both: Callable[..., Any], size: int) -> None:
    x = rl.randn(9, size, generator=rl.Generator(3))
    x[1, size // 2] = float("nan")
    x[2, size - 1] = float("inf")
    x[3] = 1.0
    x[4] = float("-inf")
    for fn in (x.argmax, x.argmin, x.amax, x.amin):
        mine, numpys = both(fn, 1)
        assert np.array_equal(mine.numpy(), numpys.numpy(), equal_nan=True)


@pytest.mark.parametrize("size", [0, 1, 700, 5000])
def test_truth_of_booleans(both: Callable[..., Any], size: int) -> None:
    for at in {0, size // 2, size - 1} if size else {0}:
        one = rl.zeros(2, size, dtype="bool")
        if size:
            one[1, at] = True
        for x in (one, ~one, one.T, one[:, ::3]):
            for fn in (x.any, x.all):
                mine, numpys = both(fn)
                assert mine.item() == numpys.item()
                mine, numpys = both(fn, 1)
                assert mine.tolist() == numpys.tolist()
