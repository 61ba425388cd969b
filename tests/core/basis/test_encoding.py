"""Quantizing rows of float32: what it gives, what it refuses, and extreme values."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from rushlight.core.basis.dtype import DTYPES, DType
from rushlight.core.basis.encoding import ENCODABLE, encode, rows
from rushlight.core.basis.unpacking import by_formula
from rushlight.core.tools.testing import draws

Array = npt.NDArray[Any]
# The root mean square error of normal numbers, relative to theirs.
ERROR = {
    "q4_0": 0.095, "q4_1": 0.08, "q5_0": 0.05, "q5_1": 0.04, "q8_0": 0.007, "q8_1": 0.007,
    "q2_k": 0.3, "q3_k": 0.16, "q4_k": 0.08, "q5_k": 0.04, "q6_k": 0.021, "q8_k": 0.01,
    "iq4_nl": 0.09, "iq4_xs": 0.09, "mxfp4": 0.13, "nvfp4": 0.1, "tq1_0": 0.45, "tq2_0": 0.45,
    "q1_0": 0.62, "q2_0": 0.4,
}  # fmt: skip


def decoded(dtype: DType, stored: Array) -> Array:
    values = by_formula(dtype, stored.reshape(len(stored), -1, dtype.itemsize))
    return values.reshape(len(stored), -1)


def relative(dtype: DType, values: Array, importance: Array | None = None) -> float:
    off = decoded(dtype, encode(dtype, values, importance)) - values
    weight = 1 if importance is None else importance
    return float(np.sqrt((weight * off**2).mean() / (weight * values**2).mean()))


def test_the_types_are_those_of_the_table() -> None:
    assert {dtype.name for dtype in ENCODABLE} == set(ERROR)


@pytest.mark.parametrize("dtype", ENCODABLE, ids=str)
def test_values_come_back_within_the_type(dtype: DType) -> None:
    values = draws(1, (3, 512)).astype(np.float32)
    stored = encode(dtype, values)
    assert stored.dtype == np.uint8 and stored.shape == (3, dtype.nbytes(512))
    values = np.random.default_rng(2).normal(0, 0.02, (4, 1024)).astype(np.float32)
    assert relative(dtype, values) < ERROR[dtype.name]


@pytest.mark.native
@pytest.mark.parametrize("dtype", ENCODABLE, ids=str)
def test_rows_are_quantized_alone_however_they_are_cut(
    dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, importance = draws(3, (5, 768)).astype(np.float32), np.linspace(0, 3, 768)
    for weights in (None, importance):
        whole = encode(dtype, values, weights)
        assert np.array_equal(encode(dtype, values[2:3], weights), whole[2:3])
        assert np.array_equal(encode(dtype, values[::-1], weights), whole[::-1])
        with monkeypatch.context() as patched:
            patched.setattr(rows, "_PIECE", 1024)
            assert np.array_equal(encode(dtype, values, weights), whole)


@pytest.mark.parametrize("dtype", ENCODABLE, ids=str)
def test_zeros_are_zeros(dtype: DType) -> None:
    values = np.zeros((3, 512), np.float32)
    values[1, :256] = draws(4, (256,))
    for weights in (None, np.linspace(0, 1, 512)):
        found = decoded(dtype, encode(dtype, values, weights))
        assert not found[[0, 2]].any() and not found[1, 256:].any() and found[1, :256].any()
    assert encode(dtype, values[:0]).shape == (0, dtype.nbytes(512))
    assert encode(dtype, values[:, :0]).shape == (3, 0)


@pytest.mark.native
@pytest.mark.parametrize("dtype", ENCODABLE, ids=str)
@pytest.mark.parametrize("size", [3e38, 1e9, 70000, 1e-7, 1e-12, 1e-30, 1e-44])
def test_sizes_out_of_range_stay_finite(dtype: DType, size: float) -> None:
    values = draws(5, (2, 512), -1, 1) * size
    values[1] = draws(6, (512,), -1, 1)
    values[1, 100] = size
    values = values.astype(np.float32)
    for weights in (None, np.linspace(0, 1, 512) * 1e30):
        found = decoded(dtype, encode(dtype, values, weights)).astype(np.float64)
        assert np.isfinite(found).all()
        assert np.abs(found).max() <= 1.7 * max(size, 1)
    if size == 70000:  # the codes reach further than a float16 does
        assert dtype.name in ("q1_0", "nvfp4") or relative(dtype, values[:1]) < 0.8


@pytest.mark.native
@pytest.mark.parametrize("dtype", ENCODABLE, ids=str)
def test_importance_moves_the_error(dtype: DType) -> None:
    values = np.random.default_rng(7).normal(0, 1, (8, 512)).astype(np.float32)
    importance = np.random.default_rng(8).uniform(0, 1, 512) ** 4
    off = decoded(dtype, encode(dtype, values)) - values
    without = np.sqrt((importance * off**2).mean() / (importance * values**2).mean())
    assert relative(dtype, values, importance) <= 1.001 * without
    assert np.array_equal(
        encode(dtype, values, np.zeros(512)), encode(dtype, values, np.full(512, 7))
    )


@pytest.mark.native
@pytest.mark.parametrize("name", ["q8_0", "q6_k"])
def test_memory_is_that_of_a_piece(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_PIECE", 1 << 12)
    values = draws(9, (160, 2560)).astype(np.float32)
    tracemalloc.start()
    try:
        stored = encode(DTYPES[name], values, np.ones(2560))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < stored.nbytes + values.nbytes // 3


def test_what_is_refused() -> None:
    values = np.ones((4, 512), np.float32)
    with pytest.raises(TypeError, match="quantizing to iq2_xxs is not supported; supported: q4_0"):
        encode(DTYPES["iq2_xxs"], values)
    with pytest.raises(TypeError, match="quantizing to float16 is not supported; supported: q4_0"):
        encode(DTYPES["float16"], values)
    with pytest.raises(
        ValueError, match="q4_k: a row of 384 elements is not a whole number of blocks of 256"
    ):
        encode(DTYPES["q4_k"], values[:, :384])
    with pytest.raises(TypeError, match=r"values are float64 \(4, 512\), not float32 rows"):
        encode(DTYPES["q4_k"], values.astype(np.float64))
    with pytest.raises(ValueError, match=r"importance is \(256,\), the rows have 512 columns"):
        encode(DTYPES["q4_k"], values, np.ones(256))
    for bad in (-1, np.nan, np.inf):
        importance = np.ones(512)
        importance[300] = bad
        with pytest.raises(ValueError, match=f"importance {float(bad)} of column 300; it must be"):
            encode(DTYPES["q4_k"], values, importance)


@pytest.mark.parametrize("dtype", ENCODABLE, ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_with_its_place(dtype: DType, bad: float) -> None:
    values = np.ones((4, 512), np.float32)
    values[2, 300] = values[3, 1] = bad
    message = f"quantizing to {dtype.name}: the value at row 2, column 300 is {bad}; blocks hold"
    for weights in (None, np.ones(512)):
        with pytest.raises(ValueError, match=message):
            encode(dtype, values, weights)
