"""Products in C against NumPy in float64: every dtype, layout, size and instruction set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import lowering, simd
from rushlight.core.backends.cpu.simd import Record
from rushlight.core.basis.dtype import DTYPES
from rushlight.core.basis.errors import SizeError
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout
from rushlight.core.nn import functional as F
from rushlight.core.ops.experts import LINEAR_EXPERTS_T
from rushlight.core.ops.matmul import linear_t
from rushlight.core.tools.testing import assert_close, draws

WIDE = ["float32", "float16", "bfloat16"]
KERNELS = ("product", "product_experts", "embedding")
STORED = [*WIDE, "float8_e4m3fn", "float8_e5m2"]
pytestmark = pytest.mark.usefixtures("variant")


@pytest.fixture(params=[1, pytest.param(3, marks=pytest.mark.native)])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = rl.get_num_threads()
    rl.set_num_threads(request.param)
    yield request.param
    rl.set_num_threads(before)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Those of KERNELS that ran since the test began."""
    ran: list[str] = []

    def run(records: Any, names: Any, inner: Any = simd.run) -> None:
        ran.extend(r.kernel for r in records if r.kernel in KERNELS)
        inner(records, names)

    monkeypatch.setattr(simd, "run", run)
    return ran


def made(seed: int, shape: tuple[int, ...], dtype: str, layout: str = "plain") -> rl.Tensor:
    """Draws: plain, turned (in the last two dims), apart (gaps in both), or one byte off."""
    k = max(shape[-2:]) if len(shape) > 1 else 1
    x = draws(seed, shape, -1.0, 1.0).astype(np.float32) / max(1, k) ** 0.25
    if layout == "turned":
        return rl.tensor(x).to(dtype).transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "apart":
        room = rl.full([*shape[:-2], 2 * shape[-2] + 3, 3 * shape[-1] + 1], float("nan"))
        room = room.to(dtype)
        part = room[..., 3::2, 1::3]
        with rl.no_grad():
            part.copy_(rl.tensor(x).to(dtype))
        return part
    plain = rl.tensor(x).to(dtype)
    if layout == "byte":
        raw = np.zeros(plain.dtype.nbytes(plain.numel()) + 1, np.uint8)
        raw[1:] = plain.storage.buffer.view(np.uint8)[: raw.size - 1]
        return rl.Tensor.from_buffer(raw[1:], dtype, shape)
    return plain


def wide(x: rl.Tensor) -> Any:
    return x.float().numpy().astype(np.float64)


SIZES = [(1, 1, 1), (1, 3, 70), (2, 5, 3), (3, 64, 1), (4, 33, 40), (5, 17, 31), (1, 130, 577),
         (13, 257, 33), (14, 16, 32), (15, 100, 65), (37, 300, 1), (29, 2, 129), (70, 520, 90),
         (2, 40, 600), (600, 40, 3), (7, 1, 9), (4, 15, 17), (3, 16, 15)]  # fmt: skip
LAYOUTS = ["plain", "turned", "apart", "byte"]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", WIDE)
def test_matmul(size: tuple[int, int, int], dtype: str, counted: list[str]) -> None:
    m, k, n = size
    for left in LAYOUTS:
        for right in LAYOUTS:
            a, b = made(1, (m, k), dtype, left), made(2, (k, n), dtype, right)
            counted.clear()
            found = a @ b
            assert counted == ["product"]
            assert_close(found, wide(a) @ wide(b), "product")


@pytest.mark.parametrize("dtype", WIDE)
def test_large(dtype: str, threads: int) -> None:
    a, b = made(1, (400, 700), dtype), made(2, (700, 530), dtype, "turned")
    assert_close(a @ b, wide(a) @ wide(b), "product")
    assert_close(b.t() @ a.t(), wide(b.t()) @ wide(a.t()), "product")


BATCHES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((4, 1), (1, 5)),
    ((), (6,)),
    ((2, 1, 3), (2, 1)),
    ((1,), ()),
]


@pytest.mark.parametrize(("first", "second"), BATCHES)
@pytest.mark.parametrize("size", [(1, 64, 50), (9, 20, 33), (50, 64, 2)], ids=str)
def test_batches(first: Any, second: Any, size: tuple[int, int, int], threads: int) -> None:
    m, k, n = size
    for dtype in ("float32", "float16"):
        for left, right in (("plain", "turned"), ("apart", "plain"), ("turned", "byte")):
            a, b = made(1, (*first, m, k), dtype, left), made(2, (*second, k, n), dtype, right)
            assert_close(a @ b, wide(a) @ wide(b), "product")


@pytest.mark.parametrize("size", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (1, 0, 70)], ids=str)
def test_nothing(size: tuple[int, int, int], counted: list[str]) -> None:
    m, k, n = size
    assert (rl.zeros(m, k) @ rl.zeros(k, n)).numpy().tolist() == np.zeros((m, n)).tolist()
    assert (rl.zeros(2, m, k) @ rl.zeros(2, k, n)).shape == (2, m, n)
    bias = rl.arange(float(n))
    found = F.linear(rl.zeros(m, k), rl.zeros(n, k), bias).numpy()
    assert found.tolist() == np.broadcast_to(bias.numpy(), (m, n)).tolist()
    assert counted == ["product"] * 3


@pytest.mark.parametrize("size", [(1, 70, 90), (3, 70, 90), (40, 300, 45), (90, 33, 2)], ids=str)
@pytest.mark.parametrize("layout", ["plain", "turned"])
def test_nan_and_infinity_stay_in_their_rows(size: tuple[int, int, int], layout: str) -> None:
    m, k, n = size
    for bad in (np.nan, np.inf, -np.inf):
        a, b = draws(1, (m, k), -1.0, 1.0), draws(2, (k, n), -1.0, 1.0)
        a[m // 2, k - 1] = b[k // 2, n - 1] = bad
        a[0, 0] = b[0, 0] = 0.0
        with np.errstate(invalid="ignore"):
            expected = a @ b
        put = rl.tensor(b.astype(np.float32))
        put = put.t().contiguous().t() if layout == "turned" else put
        found = (rl.tensor(a.astype(np.float32)) @ put).numpy()
        assert (np.isnan(found) == np.isnan(expected)).all()
        some = np.isfinite(expected)
        assert np.allclose(found[some], expected[some], rtol=1e-5, atol=1e-5)
        assert (found[np.isinf(expected)] == expected[np.isinf(expected)]).all()


def test_infinity_meets_zero() -> None:
    """Nothing is skipped for a zero: 0 * inf is NaN in every way that products go."""
    for m, n in ((1, 64), (4, 64), (40, 64), (64, 1)):
        a, b = rl.zeros(m, 35), rl.full([35, n], float("inf"))
        for right in (b, b.t().contiguous().t()):
            assert rl.isnan(a @ right).all().item()


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("rows", [1, 2, 4, 11, 40])
def test_linear(dtype: str, rows: int, threads: int, counted: list[str]) -> None:
    for k, n in ((64, 96), (35, 21), (200, 3), (576, 130)):
        weight = made(1, (n, k), dtype)
        for of in WIDE:
            x, bias = made(2, (rows, k), of), made(3, (n,), "float32").to(of)
            counted.clear()
            assert_close(
                F.linear(x, weight, bias), wide(x) @ wide(weight).T + wide(bias), "product"
            )
            assert_close(F.linear(x, weight), wide(x) @ wide(weight).T, "product")
            grad = made(4, (rows, n), of)
            found = linear_t(grad, weight)
            assert_close(found, wide(grad) @ wide(weight), "product")
            assert counted == ["product"] * 3


def test_rows_of_a_linear_layer_may_lie_anyhow(counted: list[str]) -> None:
    weight, bias = made(1, (20, 24), "bfloat16"), made(2, (20,), "float16")
    for x in (
        made(3, (24,), "float32"),
        made(3, (2, 3, 24), "float32"),
        made(3, (6, 4, 24), "float32", "apart"),
        made(3, (5, 2, 24), "float32").transpose(0, 1),
        made(3, (5, 2, 24), "float32")[:, :1].expand(5, 3, 24),
        made(3, (1, 24), "float32").expand(4, 24),
    ):
        expected = wide(x) @ wide(weight).T + wide(bias)
        assert_close(F.linear(x, weight, bias), expected, "product")
    assert counted.count("product") == 6


@pytest.mark.parametrize("dtype", STORED)
def test_experts(dtype: str, threads: int, counted: list[str]) -> None:
    experts, n, k = 5, 33, 48
    weight, bias = made(1, (experts, n, k), dtype), made(2, (experts, n), "float32")
    values = wide(weight)
    for shape in ((), (1,), (7,), (3, 4), (90,)):
        index = draws(9, shape, 0, experts).astype(np.int64)
        for of in WIDE:
            x = made(3, (*shape, k), of)
            for kind in (np.int64, np.int32, np.uint8):
                named = rl.tensor(np.asarray(index.astype(kind)))
                found = F.linear_experts(x, weight, named, bias)
                expected = np.einsum("...k,...nk->...n", wide(x), values[index])
                assert_close(found, expected + wide(bias)[index], "product")
            grad = made(4, (*shape, n), of)
            found = LINEAR_EXPERTS_T(grad, weight, rl.tensor(index))
            expected = np.einsum("...n,...nk->...k", wide(grad), values[index])
            assert_close(found, expected, "product")
    assert set(counted) >= {"product_experts"}


def test_several_experts_of_a_row(counted: list[str]) -> None:
    weight = made(1, (4, 10, 20), "float32")
    x = made(2, (6, 1, 20), "float32").expand(6, 2, 20)
    index = rl.tensor(draws(3, (6, 2), 0, 4).astype(np.int64))
    found = F.linear_experts(x, weight, index)
    assert counted == ["product_experts"]
    expected = np.einsum("...k,...nk->...n", wide(x), wide(weight)[index.numpy()])
    assert_close(found, expected, "product")
    for wrong in (-1, 4):
        bad = rl.full([6, 2], wrong).to("int64")
        with pytest.raises(
            IndexError, match=f"linear_experts: index {wrong} is out of range for size 4"
        ):
            F.linear_experts(x, weight, bad)


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_embedding(dtype: str, layout: str, counted: list[str]) -> None:
    table = made(1, (9, 37), dtype, layout)
    stored = wide(table)
    for kind in (np.int64, np.int32, np.uint32, np.int16, np.uint8, np.int8):
        for shape in ((), (0,), (5,), (2, 3)):
            index = draws(2, shape, 0, 9).astype(kind)
            found = F.embedding(rl.tensor(np.asarray(index)), table)
            assert found.dtype is DTYPES[dtype] and found.shape == (*shape, 37)
            assert (wide(found) == stored[index]).all()
    turned = rl.tensor(np.arange(6).reshape(2, 3)).t()
    assert (wide(F.embedding(turned, table)) == stored[turned.numpy()]).all()
    assert "embedding" in counted
    for wrong in (-1, 9):
        with pytest.raises(
            IndexError, match=f"embedding: index {wrong} is out of range for size 9"
        ):
            F.embedding(rl.tensor(np.array([0, wrong])), table)


def run(*operands: Any) -> None:
    simd.run([Record("product", operands)], ["product"])


def test_nothing_else_is_written(threads: int) -> None:
    """The result may lie anyhow in a larger buffer; what is between stays."""
    for dtype in WIDE:
        for m, k, n in ((3, 40, 50), (40, 300, 70), (70, 30, 3)):
            for strides in ((3 * n + 5, 1), (3 * n, 2), (1, m + 2)):
                room = rl.full([8 + m * n * 4 + 5 * m], 7.0).to(dtype)
                layout = Layout((m, n), strides, 8)
                a, b = made(1, (m, k), dtype), made(2, (k, n), dtype)
                run(TensorView(room.storage, layout, room.dtype), a, b)
                at = 8 + np.arange(m)[:, None] * strides[0] + np.arange(n) * strides[1]
                expected = np.full(room.shape, 7.0)
                expected[at] = wide(a) @ wide(b)
                assert_close(room, expected, "product")
                left = np.delete(room.float().numpy(), at.ravel())
                assert (left == 7.0).all()


def test_any_mixture_of_dtypes() -> None:
    for left in STORED:
        for right in STORED:
            for of in STORED:
                for m in (3, 30):
                    a, b = made(1, (m, 40), left), made(2, (40, 50), right)
                    out, bias = rl.zeros(m, 50, dtype=of), made(3, (50,), "float32").to(right)
                    run(out, a, b, bias)
                    family = "product" if of in WIDE else "elementwise"
                    assert_close(out, wide(a) @ wide(b) + wide(bias), family)


@pytest.mark.native
def test_threads_give_the_same_bits() -> None:
    before = rl.get_num_threads()
    try:
        for m, k, n in (
            (1, 900, 700),
            (3, 900, 700),
            (70, 600, 700),
            (400, 300, 350),
            (500, 600, 2),
        ):
            for right in ("plain", "turned"):
                a, b = made(1, (m, k), "float32"), made(2, (k, n), "float32", right)
                found = []
                for count in (1, 2, 3, 7):
                    rl.set_num_threads(count)
                    found.append((a @ b).numpy())
                assert all((f == found[0]).all() for f in found)
    finally:
        rl.set_num_threads(before)


def test_operands_that_do_not_fit_are_refused() -> None:
    a, b, out = rl.zeros(2, 3), rl.zeros(3, 4), rl.zeros(2, 4)
    whole = rl.zeros(2, 3, dtype="int32")
    wrong: list[tuple[Any, ...]] = [
        (out, a),
        (out, b, a),
        (out, a, b, rl.zeros(3)),
        (out, a, b, rl.zeros(1, 4)),
        (rl.zeros(1, 2, 4), a, b),
        (out, whole, b),
        (rl.zeros(2, 4, dtype="float64"), a, b),
        (out, a, rl.zeros(1, 3, 4)),
        (rl.zeros(4), rl.zeros(3), rl.zeros(3)),
        (out, None, b),
    ]
    for operands in wrong:
        with pytest.raises(RuntimeError, match="refused"):
            run(*operands)
    weight, index = rl.zeros(2, 3, 4), rl.zeros(2, dtype="int64")
    for operands in (
        (out, a, weight),
        (out, a, b, index),
        (out, a, weight, a),
        (out, a, weight, index[:1]),
        (out, a, weight, index, b),
        (out, out, weight, index),
        (out, a, weight, None),
    ):
        with pytest.raises(RuntimeError, match="refused"):
            simd.run([Record("product_experts", operands)], ["linear_experts"])
    for operands in ((out, b), (out, b, a), (out, a, index), (rl.zeros(1, 4), b, index)):
        with pytest.raises(RuntimeError, match="refused"):
            simd.run([Record("embedding", operands)], ["embedding"])


def test_vast_shapes_of_nothing() -> None:
    """What a stride of zero repeats may be of any size: it is refused."""
    one = rl.ones(1)

    def seen(*shape: int) -> TensorView:
        return TensorView(one.storage, Layout(shape, (0,) * len(shape)), one.dtype)

    for m, k, n in ((1, 1 << 61, 1), (1 << 40, 1 << 40, 1), (2, 1 << 62, 2), (1 << 62, 4, 1)):
        with pytest.raises(SizeError, match=r"at most 2\*\*48"):
            run(seen(m, n), seen(m, k), seen(k, n))
    many = 1 << 60
    index = rl.zeros(1, dtype="int64")
    rows = TensorView(index.storage, Layout((many,), (0,)), index.dtype)
    for name, operands in (
        ("product_experts", (seen(many, 1), seen(many, 4), seen(2, 4, 1), rows)),
        ("embedding", (seen(many, 4), seen(2, 4), rows)),
    ):
        with pytest.raises(SizeError, match=r"at most 2\*\*48"):
            simd.run([Record(name, operands)], [name])


def test_products_that_numpy_computes() -> None:
    a, b = rl.ones(2, 3, dtype="float64"), rl.ones(3, 2, dtype="float64")
    assert lowering.record("matmul", (a, b), rl.zeros(2, 2, dtype="float64"), {}) is None
    assert (a @ b).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    a, b = rl.ones(2, 3, dtype="int64"), rl.ones(3, 2, dtype="int64")
    assert (a @ b).tolist() == [[3, 3], [3, 3]]
