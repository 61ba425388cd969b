"""Products on webgpu: every configuration, strides, dtypes, blocks, and over the binding limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.codegen import blocks
from rushlight.core.backends.webgpu.lowering.products import gemm
from rushlight.core.basis.dtype import DTYPES
from rushlight.core.nn import functional as F
from rushlight.core.ops.matmul import linear_t
from rushlight.core.tools.testing import assert_close, block_draws, draws

# In the tab, where shaders compile slowly, test_half.py runs every configuration.
pytestmark = pytest.mark.native
Array = npt.NDArray[Any]
BLOCKS = [name for name, dtype in DTYPES.items() if dtype.kind == "q"]


def exact(t: rl.Tensor) -> Array:
    """The values of a tensor in float64."""
    return np.asarray(t.detach().cpu().float().numpy(), np.float64)


def put(x: Array, dtype: str = "float32") -> rl.Tensor:
    return rl.tensor(x.astype(np.float32)).to(dtype).to("webgpu")


def far(x: Array, dtype: str = "float32") -> rl.Tensor:
    """`x` on the device with every second element of its rows in use, from an odd offset on."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1] + 1))
    wide[..., 1::2] = x
    return put(wide, dtype)[..., 1::2]


def turned(x: Array, dtype: str = "float32") -> rl.Tensor:
    """`x` on the device, its columns side by side."""
    return put(np.ascontiguousarray(x.swapaxes(-1, -2)), dtype).transpose(-1, -2)


def many(name: str, rows: int, columns: int) -> tuple[rl.Tensor, Array]:
    """A matrix in blocks on the device, and its values."""
    dtype = DTYPES[name]
    raw = block_draws(5, dtype, rows * columns // dtype.block)
    t = rl.Tensor.from_buffer(raw.tobytes(), name, (rows, columns))
    return t.to("webgpu"), t.dequantize().numpy().astype(np.float64)


# --- every configuration ------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(gemm.CONFIGS))
def test_every_configuration(name: str, force: Callable[[str], None]) -> None:
    """Several tiles each way, one element, ragged sums, strides, batches."""
    force(name)
    cases: dict[str, tuple[Any, Any, tuple[int, ...], tuple[int, ...]]] = {
        "plain": (put, put, (2, 130, 36), (2, 36, 72)),
        "turned": (turned, turned, (70, 40), (40, 132)),
        "odd": (far, far, (3, 5, 7), (3, 7, 9)),
        "small": (put, put, (1, 1), (1, 1)),
    }
    if name in ("quads", "tile128"):  # that take long to compile
        del cases["plain"], cases["small"]
    for label, (left, right, a_shape, b_shape) in cases.items():
        a, b = draws(1, a_shape), draws(2, b_shape)
        x, y = left(a), right(b)
        assert_close((x @ y).cpu(), exact(x) @ exact(y), "product", label=f"{name} {label}")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("registers", "float16"),
        ("registers", "bfloat16"),
        ("row_split", "float16"),
        ("rows_split_columns", "bfloat16"),
        ("tile64", "float16"),
    ],
)
def test_narrow_floats(name: str, dtype: str, force: Callable[[str], None]) -> None:
    force(name)
    for n, k, m in ((7, 36, 20), (5, 9, 11)):
        x, y = put(draws(1, (n, k)), dtype), turned(draws(2, (k, m)), dtype)
        assert_close((x @ y).cpu(), exact(x) @ exact(y), "product", label=f"{n} {k} {m}")
        bias = put(draws(3, (m,)), dtype)
        want = exact(x) @ exact(y) + exact(bias)
        assert_close(F.linear(x, y.t(), bias).cpu(), want, "product")


@pytest.mark.parametrize("name", list(gemm.BLOCKS))
@pytest.mark.parametrize("kind", ["q5_1", "q4_k", "iq2_s"])  # one to three planes
def test_few_rows_of_blocks(name: str, kind: str, force: Callable[[str], None]) -> None:
    """Columns around those of an invocation, more runs than share a sum, a strided row.

    Every type by the configuration that is chosen by itself: test_quantized_rows.py.
    """
    force(name)
    count = gemm.BLOCKS[name].rows + 1
    for rows, columns in ((1, 32), (23, 96), (40, 34 * 32)):
        columns = -(-columns // DTYPES[kind].block) * DTYPES[kind].block
        weight, values = many(kind, rows, columns)
        x, bias = put(draws(1, (columns, count))).t()[1:], put(draws(2, (rows,)))
        want = exact(x) @ values.T + exact(bias)
        assert_close(F.linear(x, weight, bias).cpu(), want, "product", label=f"{kind} {name}")


@pytest.mark.parametrize("name", ["row_split", "rows_split", "tile64"])
def test_blocks_by_other_configurations(name: str, force: Callable[[str], None]) -> None:
    """What is chosen by itself on this adapter: tests/core/basis/test_blocks.py."""
    force(name)
    for dtype in BLOCKS if name == "tile64" else ["q4_0", "q5_1", "q8_0", "q6_k"]:
        columns = -(-96 // DTYPES[dtype].block) * DTYPES[dtype].block
        weight, values = many(dtype, 23, columns)
        x, g = put(draws(1, (5, columns))), put(draws(2, (5, 23)))
        label = f"{dtype} {name}"
        assert_close(F.linear(x, weight).cpu(), exact(x) @ values.T, "product", label=label)
        assert_close(linear_t(g, weight).cpu(), exact(g) @ values, "product", label=label)


def test_kernels_that_a_gpu_would_choose(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    monkeypatch.setitem(backend.port.info, "type", "DiscreteGPU")
    for n, k, m in ((1, 100, 33), (4, 64, 40), (16, 50, 16), (17, 20, 70), (1, 5, 17000)):
        for right in (put, turned):
            x, y = put(draws(1, (n, k))), right(draws(2, (k, m)))
            assert_close((x @ y).cpu(), exact(x) @ exact(y), "product", label=f"{n} {k} {m}")


def test_a_column_is_a_row_of_the_other_product() -> None:
    a, b = put(draws(1, (9, 12))), put(draws(2, (12,)))
    assert_close((a @ b).cpu(), exact(a) @ exact(b), "product")
    weight, bias = put(draws(3, (1, 12))), put(draws(4, (1,)))
    want = exact(a) @ exact(weight).T + exact(bias)
    assert_close(F.linear(a, weight, bias).cpu(), want, "product")


def test_operands_that_stand_for_many() -> None:
    a, b = put(draws(1, (1, 3, 5, 8))), put(draws(2, (4, 1, 8, 6)))
    assert_close((a @ b).cpu(), exact(a) @ exact(b), "product")
    row = put(draws(3, (1, 8))).expand(5, 8)
    assert_close((row @ b[0, 0]).cpu(), exact(row) @ exact(b[0, 0]), "product")
    cube = put(draws(4, (3, 4, 5))).permute(1, 2, 0)
    weight = put(draws(5, (7, 3)))
    assert_close(F.linear(cube, weight).cpu(), exact(cube) @ exact(weight).T, "product")


def test_nothing_to_sum_or_to_store() -> None:
    assert rl.ones(3, 0, device="webgpu").matmul(rl.ones(0, 2, device="webgpu")).tolist() == (
        [[0, 0]] * 3
    )
    assert (rl.ones(0, 3, device="webgpu") @ rl.ones(3, 2, device="webgpu")).shape == (0, 2)
    bias = rl.tensor([1.0, 2.0], device="webgpu")
    nothing = F.linear(rl.ones(2, 0, device="webgpu"), rl.ones(2, 0, device="webgpu"), bias)
    assert nothing.tolist() == [[1, 2], [1, 2]]


# --- integers -----------------------------------------------------------------------------------


def test_integers() -> None:
    a, b = draws(1, (3, 5, 7), -90, 90), draws(2, (7, 6), -90, 90)
    for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64"):
        x, y = (v.astype(np.int64).astype(dtype) for v in (a, b))
        found = rl.tensor(x, device="webgpu") @ rl.tensor(y, device="webgpu")
        assert np.array_equal(found.numpy(), x @ y), dtype
    truth = (a > 40)[0] @ (b > 40)
    found = rl.tensor((a > 40)[0], device="webgpu") @ rl.tensor(b > 40, device="webgpu")
    assert np.array_equal(found.numpy(), truth)


@pytest.mark.parametrize(
    ("rows", "fits"),
    [
        ([[46340, 0], [46340, 1]], True),
        ([[2**31 - 1, 1], [1, 0]], True),
        ([[2**30, 2**30], [1, 1]], False),  # the sum, not a product
        ([[2**31 - 1, -(2**31)], [2**31 - 1, 2**31 - 1]], True),  # though the products do not
        ([[-(2**31), 0], [-1, 0]], False),
        ([[-(2**31), 0], [1, 0]], True),
        ([[65536, 0], [65536, 0]], False),
    ],
)
def test_int64_that_32_bits_do_not_hold(rows: list[list[int]], fits: bool) -> None:
    a, b = (rl.tensor([row], dtype=rl.int64, device="webgpu") for row in rows)
    product = a @ b.t()
    if fits:
        assert product.item() == rows[0][0] * rows[1][0] + rows[0][1] * rows[1][1]
        return
    with pytest.raises(OverflowError, match="matmul: an int64 result is beyond the 32 bits"):
        product.numpy()
    # Sums that leave the range and come back are exact.
    c = rl.tensor([[2**31 - 1, 2**31 - 1, -(2**31)]], dtype=rl.int64, device="webgpu")
    assert (c @ rl.ones(3, 1, dtype=rl.int64, device="webgpu")).item() == 2**31 - 2


# --- over the binding limit ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_products_over_the_binding_limit(small_bindings: Any, dtype: str) -> None:
    """1 MiB at once: rows, columns, the result, the batch, and sums in parts."""
    cases = {
        "rows": ((3000, 200), (200, 8)),
        "columns": ((4, 200), (200, 3000)),
        "sums": ((3, 300000), (300000, 2)),
        "sums of turned": ((2, 150000), (150000, 5)),
        "result": ((700, 6), (6, 900)),
        "batch": ((40, 100, 90), (40, 90, 70)),
        "everything": ((600, 1000), (1000, 600)),
    }
    for label, (a_shape, b_shape) in cases.items():
        right = turned if label.endswith("turned") else put
        x, y = put(draws(1, a_shape), dtype), right(draws(2, b_shape), dtype)
        want = exact(x) @ exact(y)
        found = exact(x @ y)
        scale = {"float32": 1e-5, "float16": 1e-3}[dtype] * np.abs(want).max()
        assert np.abs(found - want).max() <= scale + 1e-4, label


# Plain types, and blocks of 32 and of 256 in two planes and in three.
@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q6_k", "q4_k"]
)
def test_weights_over_the_binding_limit(small_bindings: Any, dtype: str) -> None:
    """`linear` takes a weight by rows, `linear_t` by parts of its sums, `embedding` by rows."""
    rows, columns = 4100, 1024
    if DTYPES[dtype].kind == "q":
        weight, values = many(dtype, rows, columns)
    else:
        weight = put(draws(1, (rows, columns)), dtype)
        values = exact(weight)
    assert weight.nbytes > 2 << 20
    x, g, bias = put(draws(2, (2, columns))), put(draws(3, (2, rows))), put(draws(4, (rows,)))
    for found, want in (
        (F.linear(x, weight, bias), exact(x) @ values.T + exact(bias)),
        (linear_t(g, weight), exact(g) @ values),
    ):
        assert np.abs(exact(found) - want).max() <= 3e-6 * np.abs(want).max()
    index = rl.tensor([0, 4099, 2050, 1, 2049], device="webgpu")
    picked = F.embedding(index, weight)
    assert np.array_equal(exact(picked), values[[0, 4099, 2050, 1, 2049]])
    assert np.array_equal(exact(weight[700:709].float()), values[700:709])
    with pytest.raises(IndexError, match="embedding: index 4100 is out of range for size 4100"):
        F.embedding(rl.tensor([4100], device="webgpu"), weight).numpy()


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_arrive_in_many_chunks(
    name: str, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's bytes in pieces of any size, through a staging buffer of two groups."""
    dtype = DTYPES[name]
    monkeypatch.setattr(blocks, "STAGING", 2 * blocks.GROUP * dtype.itemsize + 100)
    count = 64 * 7 + 13
    raw = draws(1, (count * dtype.itemsize,), 0, 256).astype(np.uint8)
    for sizes in ([7], [dtype.itemsize * 64], [5000, 3], [raw.size]):
        writer = backend.block_writer(count * dtype.block, dtype)
        assert writer.capacity == 2 * blocks.GROUP * dtype.itemsize
        at, k = 0, 0
        while at < raw.size:
            step = sizes[k % len(sizes)]
            writer.write(raw[at : at + step])
            at, k = at + step, k + 1
        assert writer.missing == 0
        back = backend.download(writer.buffer, 0, raw.size, dtype)
        assert np.array_equal(back, raw), sizes
    start, stop = 31 * dtype.itemsize, 402 * dtype.itemsize
    part = backend.download(writer.buffer, start, stop, dtype)
    assert np.array_equal(part, raw[start:stop])
    with pytest.raises(ValueError, match="1 more bytes, the tensor misses 0"):
        writer.write(raw[:1])


def test_long_sums() -> None:
    """llvmpipe ends a loop after 65535 rounds, and says nothing."""
    a, b = draws(1, (2, 270000), 0, 1), draws(2, (270000, 3), 0, 1)
    x, y = put(a), put(b)
    assert_close((x @ y).cpu(), exact(x) @ exact(y), "product")


@pytest.mark.parametrize("dtype", [rl.bool, rl.int8, rl.int32, rl.int64], ids=str)
def test_long_sums_of_integers(dtype: rl.DType) -> None:
    a = draws(1, (2, 70001), -50, 50).astype(dtype.numpy)
    b = draws(2, (70001, 3), -50, 50).astype(dtype.numpy)
    a[1], b[:-1, 2] = 0, 0  # what only the last products tell apart
    a[1, -1] = b[-1, 2] = 1
    got = (put(a, dtype.name) @ put(b, dtype.name)).cpu().numpy()
    assert got.dtype == a.dtype
    assert np.array_equal(got, a @ b)
    assert got[1, 2] == 1
