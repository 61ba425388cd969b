"""The C kernels over every quantized type of the table: one row and many, experts, values.

`test_blocks_simd.py` looks closer at the types of 32 elements that have a layout of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import lowering, simd
from rushlight.core.backends.cpu.lowering.blocks import KERNELS
from rushlight.core.backends.cpu.reference import blocks
from rushlight.core.basis.dtype import DTYPES, DType
from rushlight.core.basis.unpacking import codebook_of
from rushlight.core.ops.experts import LINEAR_EXPERTS_T
from rushlight.core.ops.matmul import linear_t
from rushlight.core.tools.testing import block_draws

Array = npt.NDArray[Any]
MODES = ("exact", "fast")
NAMES = [name for name, dtype in DTYPES.items() if dtype in KERNELS]
MINIMUMS = {"m", "dmin"}


@pytest.fixture(params=NAMES)
def dtype(request: pytest.FixtureRequest) -> DType:
    return DTYPES[request.param]


@pytest.fixture(autouse=True)
def mode_is_reset() -> Iterator[None]:
    yield
    rl.set_linear_mode("exact")


def draws(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def activations(*shape: int) -> Array:
    return draws(*shape).normal(size=shape).astype(np.float32)


def columns_of(dtype: DType, count: int) -> int:
    """At least `count` columns: so many that a row ends within a chunk where blocks are small."""
    return max(count // dtype.block, 1) * dtype.block


def tensor_of(dtype: DType, raw: Array) -> rl.Tensor:
    """A tensor over a copy of the rows of blocks `raw`, which begins at an odd address."""
    buffer = np.empty(1 + raw.size, np.uint8)[1:]
    buffer[:] = raw.reshape(-1)
    columns = raw.shape[-1] // dtype.itemsize * dtype.block
    return rl.Tensor.from_buffer(buffer, dtype, (*raw.shape[:-1], columns))


def weights(dtype: DType, *shape: int) -> tuple[rl.Tensor, Array]:
    """A weight of few different blocks, and its values in float64."""
    count = int(np.prod(shape)) // dtype.block
    few = block_draws(len(shape), dtype, min(count, 40))
    raw = few[draws(*shape).integers(0, len(few), count)].reshape(*shape[:-1], -1)
    return tensor_of(dtype, raw), blocks.dequantize(dtype, raw).astype(np.float64)


def rounded(x: Array) -> Array:
    """What `fast` makes of activations (..., k), in float64."""
    most = np.float32(127 * 256)
    parts = x.reshape(*x.shape[:-1], -1, 32)
    top = np.max(np.abs(parts), axis=-1, keepdims=True)
    whole = np.rint(parts * (most / top)).astype(np.float64)
    whole += whole % 256 == 128
    found: Array = whole * (top / most).astype(np.float64)
    return found.reshape(x.shape)


def assert_near(found: rl.Tensor, x: Array, w: Array, bias: Array | float = 0.0) -> None:
    """Within rounding in float32 of the sums: their terms' sizes bound it."""
    want = x @ w.T + bias
    bound = 1e-6 * (np.abs(x) @ np.abs(w).T + np.abs(bias)) + 1e-30
    assert found.shape == want.shape
    assert np.all(np.abs(found.numpy() - want) <= bound)


def taken(name: str, out: rl.Tensor, *inputs: rl.Tensor | None) -> bool:
    return lowering.record(name, inputs, out, {}) is not None


def test_every_type_of_the_library_is_in_the_table() -> None:
    assert all(dtype in DTYPES.values() and dtype.kind == "q" for dtype in KERNELS)
    assert {d.name for d in KERNELS} == {d.name for d in simd.CODES if d.kind == "q"}
    assert len(KERNELS) > 20


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 1408), (35, 96), (18, 2400)])
def test_linear(variant: str, dtype: DType, rows: int, columns: int) -> None:
    """One block, chunks that are not whole, rows that fill no vector, more columns than a panel."""
    weight, values = weights(dtype, rows, columns_of(dtype, columns))
    bias = activations(rows)
    for batch in (1, 2, 19, 65) if columns == 96 else (1, 9):
        x = activations(batch, values.shape[1])
        given = rl.from_numpy(x)
        for mode in MODES:
            rl.set_linear_mode(mode)
            seen = rounded(x) if mode == "fast" else x.astype(np.float64)
            found = rl.linear(given, weight)
            assert taken("linear", found, given, weight, None)
            assert_near(found, seen, values)
            assert_near(rl.linear(given, weight, rl.from_numpy(bias)), seen, values, bias)
            assert_near(rl.linear(given, weight[::3]), seen, values[::3])
    g = activations(3, rows)
    assert_near(linear_t(rl.from_numpy(g), weight), g.astype(np.float64), values.T)


def test_experts(variant: str, dtype: DType) -> None:
    """Experts with no row, one and many; the stack is a slice."""
    weight, values = weights(dtype, 5, 21, columns_of(dtype, 352))
    weight, values = weight[1:], values[1:]
    x, bias = activations(11, values.shape[-1]), activations(4, 21)
    index = np.array([0, 3, 3, 0, 3, 2, 3, 3, 0, 3, 3])
    named = rl.from_numpy(index)
    for mode in MODES:
        rl.set_linear_mode(mode)
        seen = rounded(x) if mode == "fast" else x.astype(np.float64)
        found = rl.linear_experts(rl.from_numpy(x), weight, named, rl.from_numpy(bias))
        assert taken("linear_experts", found, rl.from_numpy(x), weight, named, None)
        for r, e in enumerate(index):
            assert_near(found[r : r + 1], seen[r : r + 1], values[e], bias[e])
    g = activations(11, 21)
    back = LINEAR_EXPERTS_T(rl.from_numpy(g), weight, named)
    for r, e in enumerate(index):
        assert_near(back[r], g[r].astype(np.float64), values[e].T)


def test_values(variant: str, dtype: DType) -> None:
    """dequantize and embedding give what NumPy gives, to the bit, for any bytes."""
    columns = columns_of(dtype, 352)
    raw = draws(dtype.itemsize).integers(0, 256, (50, dtype.nbytes(columns)), np.uint8)
    weight = tensor_of(dtype, raw)
    with np.errstate(all="ignore"):
        values = blocks.dequantize(dtype, raw)

    def assert_same(found: rl.Tensor, want: Array) -> None:
        got = found.numpy()
        nan = np.isnan(want)
        assert got.shape == want.shape and np.array_equal(np.isnan(got), nan)
        assert np.array_equal(got[~nan].view(np.uint32), want[~nan].view(np.uint32))

    assert taken("cast", rl.zeros(50, columns), weight)
    assert_same(weight.dequantize(), values)
    assert_same(weight[3::4].dequantize(), values[3::4])
    for index in (np.int64(7), np.arange(49, -1, -7)):
        named = rl.from_numpy(np.asarray(index))
        found = rl.embedding(weight, named)
        assert taken("embedding", found, weight, named)
        assert_same(found, values[index])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_activations_that_are_not_finite(variant: str, dtype: DType, bad: float) -> None:
    """fast: the row gives NaN. exact: as products in float32. No other row changes."""
    weight, values = weights(dtype, 9, columns_of(dtype, 352))
    x = activations(3, values.shape[1])
    for mode in MODES:
        rl.set_linear_mode(mode)
        for rows in (1, 3):
            given = x[:rows].copy()
            clean = rl.linear(rl.from_numpy(given), weight).numpy()
            given[0, 5] = bad
            found = rl.linear(rl.from_numpy(given), weight).numpy()
            assert np.array_equal(found[1:], clean[1:])
            with np.errstate(invalid="ignore"):
                want = np.float32(np.nan if mode == "fast" else bad) * values[:, 5]
            assert np.array_equal(found[0], want.astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("name", [n for n in NAMES if not MINIMUMS & DTYPES[n].fields.keys()])
def test_large_activations(variant: str, name: str) -> None:
    """A type without minimums uses no sum of activations, which might overflow."""
    dtype = DTYPES[name]
    weight, values = weights(dtype, 5, columns_of(dtype, 352))
    x = np.full((3, values.shape[1]), 3e36, np.float32)
    rl.set_linear_mode("fast")
    for rows in (1, 3):
        found = rl.linear(rl.from_numpy(x[:rows]), weight).numpy()
        bound = 1e-6 * (x[:rows].astype(np.float64) @ np.abs(values.T))
        assert np.all(np.abs(found - rounded(x[:rows]) @ values.T) <= bound)


@pytest.mark.native
@pytest.mark.parametrize("rows", [1, 11])
def test_threads_give_the_same(dtype: DType, rows: int) -> None:
    weight, values = weights(dtype, 130, columns_of(dtype, 352))
    experts, _ = weights(dtype, 3, 70, values.shape[1])
    x, g = (rl.from_numpy(activations(rows, n)) for n in (values.shape[1], 130))
    index = rl.from_numpy(draws(3).integers(0, 3, rows))
    before, found = rl.get_num_threads(), []
    try:
        for count in (1, 3):
            rl.set_num_threads(count)
            made = [linear_t(g, weight), weight.dequantize()]
            for mode in MODES:
                rl.set_linear_mode(mode)
                made += [rl.linear(x, weight), rl.linear_experts(x, experts, index)]
            found.append([t.numpy() for t in made])
    finally:
        rl.set_num_threads(before)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_captured_steps_keep_their_codebooks(dtype: DType) -> None:
    weight, _ = weights(dtype, 8, columns_of(dtype, 512))
    x = rl.from_numpy(activations(2, weight.shape[1]))

    @rl.jit
    def step(x: rl.Tensor) -> rl.Tensor:
        return rl.linear(x, weight).relu()

    for _ in range(3):
        assert np.array_equal(step(x).numpy(), rl.linear(x, weight).relu().numpy())


@pytest.mark.parametrize("name", [n for n in NAMES if codebook_of(DTYPES[n])])
def test_a_kernel_without_its_codebook_refuses(name: str) -> None:
    dtype = DTYPES[name]
    weight, _ = weights(dtype, 4, dtype.block)
    x, out = rl.zeros(2, dtype.block), rl.zeros(2, 4)
    book = codebook_of(dtype)
    assert book is not None
    codes = rl.from_numpy(book.codes.astype(np.uint8))
    wide = rl.zeros(4, dtype.block)
    for wrong in (None, codes[:-1], codes.reshape(-1, 8), codes.to(rl.int8)):
        for kernel, operands, attrs in (
            ("blocks_linear", (out, x, weight, None, None), (0,)),
            ("blocks_widen", (wide, weight, None), ()),
        ):
            with pytest.raises(simd.Refused):
                simd.run([simd.Record(kernel, (*operands, wrong), attrs)], ["test"])
    simd.run([simd.Record("blocks_widen", (wide, weight, None, codes))], ["test"])
    assert np.array_equal(wide.numpy(), weight.dequantize().numpy())
