"""The C kernels over block-quantized weights: exact and fast, one row and many, every dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import lowering, simd
from rushlight.core.backends.cpu.reference import blocks
from rushlight.core.basis.dtype import DTYPES, DType
from rushlight.core.ops.experts import LINEAR_EXPERTS_T
from rushlight.core.ops.matmul import linear_t

Array = npt.NDArray[Any]
NAMES = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
# (out, in): one block, none that fills a vector, more blocks than one panel holds, a common size.
SIZES = ((1, 32), (3, 96), (17, 2080), (40, 64), (1000, 576))
ROWS = (1, 2, 5, 19)


@pytest.fixture(params=NAMES)
def dtype(request: pytest.FixtureRequest) -> DType:
    return DTYPES[request.param]


@pytest.fixture(params=["exact", "fast"])
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    rl.set_linear_mode(request.param)
    yield request.param
    rl.set_linear_mode("exact")


@pytest.fixture
def fast() -> Iterator[None]:
    rl.set_linear_mode("fast")
    yield
    rl.set_linear_mode("exact")


def draws(*seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def raw_blocks(dtype: DType, shape: tuple[int, ...], scale: Array, least: Array) -> Array:
    """Random numbers with the given scales and minimums, as (*rows, blocks, bytes)."""
    count = shape[-1] // 32
    raw = draws(*shape).integers(0, 256, (*shape[:-1], count, dtype.itemsize), np.uint8)
    raw[..., :2] = scale.astype(np.float16)[..., None].view(np.uint8)
    if dtype.name.endswith("_1"):
        raw[..., 2:4] = least.astype(np.float16)[..., None].view(np.uint8)
    return raw


def tensor_of(dtype: DType, raw: Array, before: int = 0) -> rl.Tensor:
    """A tensor over a copy of `raw` that begins at an odd address, behind `before` rows."""
    shape = (*raw.shape[:-2], raw.shape[-2] * 32)
    flat = raw.reshape(-1)
    first = np.repeat(raw[:1], before, axis=0).reshape(-1) if before else flat[:0]
    buffer = np.empty(1 + first.size + flat.size, np.uint8)[1:]
    buffer[: first.size], buffer[first.size :] = first, flat
    made = rl.Tensor.from_buffer(buffer, dtype, (shape[0] + before, *shape[1:]))
    return made[before:] if before else made


def weights(dtype: DType, *shape: int, before: int = 0) -> tuple[rl.Tensor, Array]:
    """A random weight, and its values in float64."""
    lead, count = shape[:-1], shape[-1] // 32
    random = draws(7, *shape)
    scale = random.normal(0, 0.01, (*lead, count))
    raw = raw_blocks(dtype, shape, scale, random.normal(0, 0.05, (*lead, count)))
    values = blocks.dequantize(dtype, raw.reshape(*lead, count * dtype.itemsize))
    return tensor_of(dtype, raw, before), values.astype(np.float64)


MOST = np.float32(127 * 256)  # the largest of a block's whole numbers


def rounded(x: Array) -> Array:
    """What `fast` makes of activations (..., k), in float64."""
    parts = np.asarray(x, np.float32).reshape(*x.shape[:-1], -1, 32)
    top = np.max(np.abs(parts), axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        whole = np.rint(parts * (MOST / top)).astype(np.float64)
        whole += whole % 256 == 128  # whose low byte would be -128
        found = whole * (top / MOST).astype(np.float64)
    return np.where(top < 1e-30, 0, found).reshape(x.shape)


def seen(mode: str, x: Array) -> Array:
    return rounded(x) if mode == "fast" else x.astype(np.float64)


def assert_near(found: rl.Tensor, x: Array, w: Array, bias: Array | float = 0.0) -> None:
    """Within rounding in float32 of the sums: their terms' sizes bound it."""
    want = x @ w.T + bias
    bound = 1e-6 * (np.abs(x) @ np.abs(w).T + np.abs(bias)) + 1e-30
    assert found.shape == want.shape
    assert np.all(np.abs(found.numpy() - want) <= bound)


def taken(name: str, out: rl.Tensor, *inputs: rl.Tensor | None) -> bool:
    return lowering.record(name, inputs, out, {}) is not None


@pytest.mark.parametrize("size", SIZES)
def test_linear(variant: str, mode: str, dtype: DType, size: tuple[int, int]) -> None:
    weight, values = weights(dtype, *size)
    bias = draws(1).normal(size=size[0]).astype(np.float32)
    for rows in ROWS if size[0] * size[1] < 1e5 else ROWS[:3]:
        x = draws(rows).normal(size=(rows, size[1])).astype(np.float32)
        given = rl.from_numpy(x)
        found = rl.linear(given, weight)
        assert taken("linear", found, given, weight, None)
        assert_near(found, seen(mode, x), values)
        assert_near(rl.linear(given, weight, rl.from_numpy(bias)), seen(mode, x), values, bias)


def test_fast_sums_are_whole_numbers(variant: str, fast: None, dtype: DType) -> None:
    """With scales of 1 and activations that are whole numbers every result is exact."""
    shape = (23, 512)
    one = np.ones((23, 16))
    raw = raw_blocks(dtype, shape, one, -3 * one)
    start = 4 if dtype.name.endswith("_1") else 2
    raw[:4, :, start:] = 0xFF  # the largest numbers (-1 for q8_0), where sums might saturate
    raw[4:8, :, start:] = 0x80 if dtype is DTYPES["q8_0"] else 0
    raw[8:12, :, start:] = 0x7F
    values = blocks.dequantize(dtype, raw.reshape(23, -1)).astype(np.float64)
    weight = tensor_of(dtype, raw)
    x = draws(3).integers(-127, 128, (9, 512)).astype(np.float32)
    x[:, ::32] = 127
    x[1], x[2], x[3, ::2] = 127, -127, -127
    for rows in (x[:1], x[1:2], x[2:3], x[3:4], x):
        assert np.array_equal(rl.linear(rl.from_numpy(rows), weight).numpy(), rows @ values.T)


def test_fast_sums_do_not_saturate(variant: str, fast: None, dtype: DType) -> None:
    """With the largest numbers on both sides, high bytes and low ones."""
    shape = (16, 512)
    ones = np.ones((16, 16))
    raw = raw_blocks(dtype, shape, ones, 0 * ones)
    start = 4 if dtype.name.endswith("_1") else 2
    raw[:8, :, start:] = 0x7F if dtype is DTYPES["q8_0"] else 0xFF
    raw[8:, :, start:] = 0x80 if dtype is DTYPES["q8_0"] else 0
    values = blocks.dequantize(dtype, raw.reshape(16, -1)).astype(np.float64)
    weight = tensor_of(dtype, raw)
    x = np.empty((4, 512), np.float32)
    x[0], x[1] = (126 * 256 + 127) / 256, -(126 * 256 + 127) / 256
    x[2], x[3] = 126 + 129 / 256, -(126 + 129 / 256)  # the low byte is -127, and 127
    x[:, ::32] = 127
    for rows in (x[:1], x[1:2], x[2:3], x):
        assert_near(rl.linear(rl.from_numpy(rows), weight), rows.astype(np.float64), values)


def test_sizes_of_zero(variant: str, mode: str, dtype: DType) -> None:
    weight, _ = weights(dtype, 3, 64)
    bias = rl.tensor([1.0, 2.0, 3.0])
    assert rl.linear(rl.zeros(0, 64), weight, bias).shape == (0, 3)
    assert rl.linear(rl.zeros(2, 64), weight[:0]).shape == (2, 0)
    none = rl.Tensor.from_buffer(b"", dtype, (3, 0))
    assert rl.linear(rl.zeros(2, 0), none, bias).tolist() == [[1.0, 2.0, 3.0]] * 2
    assert rl.linear(rl.zeros(0), none, bias).tolist() == [1.0, 2.0, 3.0]
    assert linear_t(rl.zeros(2, 0), weight[:0]).tolist() == [[0.0] * 64] * 2
    assert linear_t(rl.zeros(0, 3), weight).shape == (0, 64)
    assert weight[:0].dequantize().shape == (0, 64)
    assert rl.embedding(weight, rl.zeros(0, dtype=rl.int64)).shape == (0, 64)


def test_layouts(variant: str, mode: str, dtype: DType) -> None:
    """Rows of a larger weight, every second row, activations with gaps and repeated ones."""
    weight, values = weights(dtype, 24, 96, before=3)
    x = draws(5).normal(size=(6, 4, 192)).astype(np.float32)
    given = rl.from_numpy(x)
    cases = [
        (given[:, :, 96:], x[:, :, 96:]),
        (given[1:5:2, 3, :96], x[1:5:2, 3, :96]),
        (given[2:3, 1, 96:].expand(3, 5, 96), np.broadcast_to(x[2, 1, 96:], (3, 5, 96))),
        (given.permute(1, 0, 2)[:, :, 5:101], x.transpose(1, 0, 2)[:, :, 5:101]),
    ]
    for view, same in cases:
        assert_near(rl.linear(view, weight), seen(mode, same), values)
        assert_near(rl.linear(view, weight[1::2]), seen(mode, same), values[1::2])
    turned = given[:, 0, :96].t().clone().t()
    assert not taken("linear", rl.zeros(6, 24), turned, weight, None)
    assert_near(rl.linear(turned, weight), x[:, 0, :96].astype(np.float64), values)
    g = draws(6).normal(size=(4, 48)).astype(np.float32)
    assert_near(linear_t(rl.from_numpy(g)[:, 24:], weight), g[:, 24:].astype(np.float64), values.T)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rows", [1, 5])
def test_not_finite(variant: str, mode: str, dtype: DType, bad: float, rows: int) -> None:
    """exact: as the products in float32 are; fast: a row that holds one gives NaN. No other row."""
    weight, values = weights(dtype, 19, 96)
    x = draws(2).normal(size=(rows, 96)).astype(np.float32)
    clean = rl.linear(rl.from_numpy(x), weight).numpy()
    x[0, 40] = bad
    found = rl.linear(rl.from_numpy(x), weight).numpy()
    assert np.array_equal(found[1:], clean[1:])
    if mode == "fast":
        assert np.isnan(found[0]).all()
    else:
        with np.errstate(invalid="ignore"):
            want = np.float32(bad) * values[:, 40].astype(np.float32)
        assert np.array_equal(found[0], want, equal_nan=True)


def test_scales_that_are_not_finite(variant: str, mode: str, dtype: DType) -> None:
    scale = np.full((6, 3), 0.01)
    scale[1, 1], scale[3, 2], scale[4, 0] = np.nan, np.inf, 2.0**-24  # the last: subnormal
    raw = raw_blocks(dtype, (6, 96), scale, scale)
    weight = tensor_of(dtype, raw)
    with np.errstate(invalid="ignore"):
        values = blocks.dequantize(dtype, raw.reshape(6, -1))
    assert np.array_equal(weight.dequantize().numpy(), values, equal_nan=True)
    x = draws(2).normal(size=(3, 96)).astype(np.float32)
    with np.errstate(invalid="ignore"):
        want = seen(mode, x) @ values.T.astype(np.float64)
    for rows in (slice(0, 1), slice(0, 3)):
        found = rl.linear(rl.from_numpy(x[rows]), weight).numpy()
        finite = [0, 2, 4, 5]
        assert np.allclose(found[:, finite], want[rows][:, finite], rtol=1e-4, atol=1e-6)
        assert np.isnan(found[:, 1]).all() and not np.isfinite(found[:, 3]).any()


def test_small_activations(variant: str, fast: None, dtype: DType) -> None:
    """What is too small to be divided by counts as zero; zeros give zeros."""
    weight, values = weights(dtype, 5, 128)
    x = np.zeros((4, 128), np.float32)
    x[1], x[2, :32], x[3, 64:96] = 1e-35, 1e-29, 3e34
    for rows in (x[:1], x[1:2], x[2:3], x):
        found = rl.linear(rl.from_numpy(rows), weight)
        bound = 1e-5 * (np.abs(rounded(rows)) @ np.abs(values.T))
        with np.errstate(over="ignore"):
            assert np.all(np.abs(found.numpy() - rounded(rows) @ values.T) <= bound)


def test_rounding_is_to_even(variant: str, fast: None) -> None:
    raw = raw_blocks(DTYPES["q8_0"], (1, 32), np.ones((1, 1)), np.ones((1, 1)))
    raw[..., 2:] = 1
    x = np.zeros((1, 32), np.float32)
    x[0] = 127, 0.5 / 256, 1.5 / 256, 2.5 / 256, -0.5 / 256, -1.5 / 256, *[0] * 26
    weight = tensor_of(DTYPES["q8_0"], raw)
    for rows in (x, np.repeat(x, 2, axis=0)):
        assert rl.linear(rl.from_numpy(rows), weight).tolist() == [[127 + 2 / 256]] * len(rows)


@pytest.mark.native
@pytest.mark.parametrize("rows", [1, 11])
def test_threads_give_the_same(mode: str, dtype: DType, rows: int) -> None:
    weight, _ = weights(dtype, 500, 288)
    experts, _ = weights(dtype, 5, 70, 96)
    x = rl.from_numpy(draws(1).normal(size=(rows, 288)).astype(np.float32))
    g = rl.from_numpy(draws(2).normal(size=(rows, 500)).astype(np.float32))
    index = rl.from_numpy(draws(3).integers(0, 5, rows))
    before = rl.get_num_threads()
    found: list[list[Array]] = []
    try:
        for count in (1, 2, 3):
            rl.set_num_threads(count)
            made = (
                rl.linear(x, weight),
                linear_t(g, weight),
                rl.linear_experts(x[:, :96], experts, index),
                weight.dequantize(),
            )
            found.append([t.numpy() for t in made])
    finally:
        rl.set_num_threads(before)
    for one in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(one, found[0], strict=True))


@pytest.mark.parametrize("size", SIZES)
def test_linear_t(variant: str, dtype: DType, size: tuple[int, int]) -> None:
    weight, values = weights(dtype, *size)
    for rows in ROWS[:3]:
        g = draws(rows).normal(size=(rows, size[0])).astype(np.float32)
        given = rl.from_numpy(g)
        found = linear_t(given, weight)
        assert taken("linear_t", found, given, weight)
        assert_near(found, g.astype(np.float64), values.T)


@pytest.mark.parametrize("kind", [rl.int64, rl.int32, rl.uint8, rl.int16])
def test_experts(variant: str, mode: str, dtype: DType, kind: DType) -> None:
    """Experts with no row, one and many; a row with several experts; a stack that is a slice."""
    weight, values = weights(dtype, 6, 35, 96, before=2)
    bias = draws(4).normal(size=(6, 35)).astype(np.float32)
    for rows in (1, 13):
        x = draws(rows).normal(size=(rows, 96)).astype(np.float32)
        index = draws(5, rows).integers(0, 5, (rows, 2))
        index[0] = 4, 5
        each = rl.from_numpy(x).unsqueeze(1).expand(rows, 2, 96)
        named = rl.from_numpy(index).to(kind)
        found = rl.linear_experts(each, weight, named, rl.from_numpy(bias))
        assert taken("linear_experts", found, each, weight, named, rl.from_numpy(bias))
        for r in range(rows):
            for k in range(2):
                e = index[r, k]
                assert_near(found[r, k], seen(mode, x[r]), values[e], bias[e])
        g = draws(6, rows).normal(size=(rows, 2, 35)).astype(np.float32)
        back = LINEAR_EXPERTS_T(rl.from_numpy(g), weight, named)
        assert taken("linear_experts_t", back, rl.from_numpy(g), weight, named)
        for r in range(rows):
            for k in range(2):
                assert_near(back[r, k], g[r, k].astype(np.float64), values[index[r, k]].T)


def test_values(variant: str, dtype: DType) -> None:
    """dequantize and embedding give what NumPy's kernels give, to the bit."""
    weight, values = weights(dtype, 50, 96, before=1)
    out = weight.dequantize()
    assert lowering.record("cast", (weight,), out, {"dtype": rl.float32}) is not None
    assert np.array_equal(out.numpy(), values)
    assert np.array_equal(weight[3::4].dequantize().numpy(), values[3::4])
    stack, each = weights(dtype, 3, 4, 5, 64)
    assert np.array_equal(stack[:, 1].dequantize().numpy(), each[:, 1])
    for index in (np.int64(7), np.arange(49, -1, -7), draws(1).integers(0, 50, (3, 4, 5))):
        named = rl.from_numpy(np.asarray(index))
        found = rl.embedding(weight, named)
        assert taken("embedding", found, weight, named)
        assert np.array_equal(found.numpy(), values[index])


@pytest.mark.parametrize("wrong", [-1, 6, 1 << 40])
def test_an_index_out_of_range(dtype: DType, wrong: int) -> None:
    weight, _ = weights(dtype, 6, 64)
    experts, _ = weights(dtype, 6, 2, 64)
    index = rl.tensor([0, wrong], dtype=rl.int64)
    with pytest.raises(IndexError, match="embedding"):
        rl.embedding(weight, index)
    with pytest.raises(IndexError, match="linear_experts"):
        rl.linear_experts(rl.zeros(2, 64), experts, index)


def test_other_dtypes_are_numpys(mode: str, dtype: DType) -> None:
    weight, values = weights(dtype, 8, 64)
    x = draws(1).normal(size=(3, 64)).astype(np.float64)
    found = rl.linear(rl.from_numpy(x), weight)
    assert not taken("linear", found, rl.from_numpy(x), weight, None)
    assert np.allclose(found.numpy(), x @ values.T)
    half = rl.linear(rl.from_numpy(x).to(rl.float16), weight)
    assert half.dtype is rl.float16 and np.allclose(half.numpy(), x @ values.T, atol=0.05)


def refuse(kernel: str, *operands: rl.Tensor | None, attrs: tuple[int, ...] = ()) -> None:
    with pytest.raises(RuntimeError, match="refused a message: refused"):
        simd.run([simd.Record(kernel, operands, attrs)], ["test"])


def test_messages_that_do_not_fit_are_refused() -> None:
    w, _ = weights(DTYPES["q4_1"], 4, 64)
    stack, _ = weights(DTYPES["q4_1"], 2, 4, 64)
    x, out, bias, index = rl.zeros(2, 64), rl.zeros(2, 4), rl.zeros(4), rl.zeros(2, dtype=rl.int64)
    for kernel in ("blocks_linear", "blocks_linear_t"):
        refuse(kernel, out, x, w, attrs=(0,))
        refuse(kernel, out, x, w, None, None)
        refuse(kernel, rl.zeros(2, 5), x, w, None, None, attrs=(0,))
        refuse(kernel, rl.zeros(3, 4), x, w, None, None, attrs=(0,))
        refuse(kernel, out, rl.zeros(2, 32), w, None, None, attrs=(0,))
        refuse(kernel, out, x, rl.zeros(4, 64), None, None, attrs=(0,))
        refuse(kernel, out, x, stack, None, None, attrs=(0,))
        refuse(kernel, out, x, w, None, index, attrs=(0,))
        refuse(kernel, out, x, stack, None, index[:1], attrs=(0,))
        refuse(kernel, out, x, stack, None, bias, attrs=(0,))
        refuse(kernel, out.to(rl.int32), x, w, None, None, attrs=(0,))
        refuse(kernel, rl.zeros(4, 2).t(), x, w, None, None, attrs=(0,))
    refuse("blocks_linear", out, x, w, bias[:3], None, attrs=(0,))
    refuse("blocks_linear", out, x, stack, bias, index, attrs=(0,))
    refuse("blocks_linear_t", x, out, w, bias, None, attrs=(0,))
    refuse("blocks_widen", out, w)
    refuse("blocks_widen", out, w, None)
    refuse("blocks_widen", rl.zeros(3, 64), w, None)
    refuse("blocks_widen", rl.zeros(3, 64), w, index)
    refuse("blocks_widen", rl.zeros(2, 64), stack, index)
    refuse("blocks_widen", rl.zeros(2, 64), w, bias[:2])
    refuse("blocks_widen", rl.zeros(4, 64), rl.zeros(4, 64), None)
