"""The tolerance table, distances in ulp, and assert_close: what they let through, what not."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.tools.testing import TOLERANCES, assert_close, draws, ulp_distance

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("actual", "expected", "dtype", "ulp"),
    [
        (1.0, 1.0, "float32", 0),
        (1 + 2.0**-23, 1.0, "float32", 1),
        (1 - 2.0**-24, 1.0, "float32", 0.5),
        (2 + 2.0**-22, 2.0, "float32", 1),
        (1.5 + 2.0**-21, 1.5, "float32", 4),
        (0.0, -0.0, "float32", 0),
        (2.0**-149, 0.0, "float32", 1),
        (2.0**-126, 2.0**-126 + 2.0**-149, "float32", 1),
        (1 + 2.0**-10, 1.0, "float16", 1),
        (2.0**-24, 0.0, "float16", 1),
        (1 + 2.0**-7, 1.0, "bfloat16", 1),
        (1.125, 1.0, "float8_e4m3fn", 1),
        (1.25, 1.0, "float8_e5m2", 1),
        (1 + 2.0**-52, 1.0, "float64", 1),
        (INF, INF, "float32", 0),
        (INF, -INF, "float32", INF),
        (NAN, NAN, "float32", 0),
        (1.0, NAN, "float32", INF),
        (NAN, 1.0, "float32", INF),
        (3e38, INF, "float32", INF),
        (INF, 1e39, "float32", 0),
        (-INF, -1e39, "float32", 0),
        (INF, 65520.0, "float16", 0),
        (65504.0, 65519.0, "float16", 15 / 32),
        (INF, 70000.0, "float16", 0),
        (448.0, 1e9, "float8_e4m3fn", 0),
        (-448.0, -INF, "float8_e4m3fn", 0),
        (INF, 1e9, "float8_e5m2", 0),
    ],
)
def test_distances(actual: float, expected: float, dtype: str, ulp: float) -> None:
    assert float(ulp_distance(actual, expected, dtype)) == ulp


def test_distances_of_every_float16_to_the_next() -> None:
    every = np.arange(0x7C00, dtype=np.uint16).view(np.float16)
    assert np.all(ulp_distance(every[1:], every[:-1], "float16") == 1)


def test_the_table_has_a_row_for_every_dtype_it_says() -> None:
    assert TOLERANCES["exact"] == {}
    for family, row in TOLERANCES.items():
        for name, tolerance in row.items():
            assert name in ("float8_e4m3fn", "float8_e5m2") or getattr(rl, name).is_floating_point
            assert max(tolerance.ulp, tolerance.rtol, tolerance.atol) > 0, (family, name)
    assert TOLERANCES["elementwise"]["float32"].ulp == 4
    assert TOLERANCES["elementwise"]["float32"].atol == 0


def test_close_values() -> None:
    assert_close(rl.tensor([1.0, 2.0]), [1.0, 2.0])
    assert_close(rl.tensor([NAN, INF, -INF, 0.0]), [NAN, INF, -INF, -0.0])
    assert_close(rl.tensor([1 + 2.0**-21]), [1.0])
    assert_close(rl.tensor([1.00001]), [1.0], "product")
    assert_close(rl.tensor([1, 2]), np.array([1, 2]))
    assert_close(rl.tensor(1.5), 1.5)
    assert_close(rl.zeros(0, 3), np.zeros((0, 3)))
    assert_close(rl.tensor([0.1]).bfloat16(), [0.1])
    assert_close(np.float32(0.1), 0.1)
    assert_close(rl.ones(2, requires_grad=True), [1, 1])


@pytest.mark.parametrize(
    ("actual", "expected", "family", "message"),
    [
        ([1.0, 2.0], [1.0, 2.001], "elementwise", r"case: 1 of 2 float32 elements .* at \(1,\)"),
        ([1.0], [[1.0]], "elementwise", r"case: shape is \(1,\), expected \(1, 1\)"),
        ([1.0, 2.0], [1.0], "elementwise", "shape is"),
        ([NAN], [1.0], "several", "1 of 1"),
        ([1.0], [NAN], "several", "1 of 1"),
        ([INF], [-INF], "several", "1 of 1"),
        ([3e38], [INF], "several", "1 of 1"),
        ([1.0], [1 + 2.0**-23], "exact", "exactly"),
        ([1 + 2.0**-20], [1.0], "elementwise", "8 ulp apart"),
        ([1.0001], [1.0], "product", "1 of 1"),
        ([0.0], [1e-30], "elementwise", "1 of 1"),
        ([1, 2], [1, 3], "sum", "int64 elements"),
        ([True], [False], "sum", "bool elements"),
    ],
)
def test_values_that_are_not_close(
    actual: list[float], expected: list[float], family: str, message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_close(rl.tensor(actual), expected, family, label="case")


def test_a_family_without_the_dtype_is_an_error() -> None:
    with pytest.raises(KeyError):
        assert_close(rl.ones(1).to("float8_e5m2"), [1.0], "product")
    with pytest.raises(KeyError):
        assert_close(rl.ones(1), [2.0], "no such family")


def test_drawn_numbers() -> None:
    x = draws(3, (4, 5), 2, 7)
    assert x.shape == (4, 5) and x.dtype == np.float64 and 2 <= x.min() < x.max() < 7
    np.testing.assert_array_equal(x, draws(3, (4, 5), 2, 7))
    assert not np.array_equal(x, draws(4, (4, 5), 2, 7))
    assert draws(1, ()).shape == () and draws(1, (0, 3)).shape == (0, 3)
