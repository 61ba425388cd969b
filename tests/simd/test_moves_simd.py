"""Copies, fills, joins, regions and indices: exactly NumPy's results in every dtype and layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core import ops
from rushlight.core.backends.cpu import lowering, simd
from rushlight.core.tools.testing import draws

Both = Callable[..., tuple[Any, Any]]
INF, NAN = float("inf"), float("nan")
DTYPES = ("bool", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
          "float8_e5m2")  # fmt: skip


def _values(dtype: str, *shape: int, seed: int = 1) -> rl.Tensor:
    return rl.tensor(draws(seed, shape, -99, 99)).to(dtype)


def _equal(found: tuple[rl.Tensor, rl.Tensor], label: Any) -> None:
    mine, theirs = found
    assert mine.dtype is theirs.dtype and mine.shape == theirs.shape, label
    a, b = (np.asarray(t.host_values()) for t in (mine, theirs))
    assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), label


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_of_permuted_and_sliced_tensors(variant: str, dtype: str, both: Both) -> None:
    for shape in ((1, 1), (7, 5), (33, 70), (3, 18, 5), (2, 17, 16, 3), (2, 3, 4, 5, 6), (0, 4)):
        x = _values(dtype, *shape)
        views = [x, x[1:], x[..., ::2], x.transpose(0, -1), x.permute(*range(len(shape))[::-1])]
        if len(shape) > 2:
            views += [x.transpose(1, 2), x.transpose(0, 1)[:, 1:], x.transpose(1, 2)[..., ::3]]
        for i, view in enumerate([*views, x[:1].expand(4 * x[:1].shape[0], *shape[1:])]):
            _equal(both(view.clone), (shape, i))
            out = rl.zeros(*view.shape[:-1], 2 * view.shape[-1], dtype=dtype)
            assert lowering.record("copy", (view,), out[..., 1::2], {}) is not None
            out[..., 1::2] = view
            assert np.array_equal(out.to("float64").numpy()[..., 1::2], view.to("float64").numpy())
            assert not out[..., ::2].to("float64").numpy().any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_flips(variant: str, dtype: str, both: Both) -> None:
    for shape, dims in (
        ((3, 41), [1]),
        ((3, 41), [0]),
        ((2, 5, 3, 7), [0, 3]),
        ((0, 4), [0, 1]),
        ((2, 17), [0, 1]),
        ((2, 4), []),
    ):
        x = _values(dtype, *shape)
        for view in (x, x.transpose(0, -1), x[..., ::2]):
            assert lowering.record("flip", (view,), x.clone(), {"dims": tuple(dims)}) is not None
            _equal(both(rl.flip, view, dims), (shape, dims))


def test_a_large_matrix_turned_round(variant: str) -> None:
    for dtype in ("float32", "float16", "uint8", "int64"):
        x = _values(dtype, 301, 403)
        assert np.array_equal(x.t().contiguous().numpy(), x.numpy().T)
        y = _values(dtype, 5, 67, 3, 31)
        assert np.array_equal(
            y.permute(0, 3, 2, 1).contiguous().numpy(), y.numpy().transpose(0, 3, 2, 1)
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_full_and_arange(variant: str, dtype: str, both: Both) -> None:
    for value in (0, 1, 5.5, -3) if dtype not in ("bool", "uint8") else (0, 1):
        for shape in ((), (0,), (13,), (3, 1031)):
            _equal(both(rl.full, shape, value, dtype=dtype), (value, shape))
    if dtype != "bool":
        for start, stop, step in ((0, 13, 1), (3, 90, 7), (0.5, 20, 1.3), (9, 2, -1)):
            _equal(both(rl.arange, start, stop, step, dtype=dtype), (start, step))
    for value in (300, NAN, -256):
        with pytest.raises(ValueError, match="does not fit"):
            rl.full((2,), value, dtype="uint8")
    assert rl.full((2,), -1, dtype="uint8").tolist() == [255, 255]  # as in torch
    special = rl.full((3,), -0.0, dtype="float32").numpy()
    assert np.signbit(special).all() and np.isinf(rl.full((2,), INF, dtype="float16").numpy()).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_regions_and_joins(variant: str, dtype: str, both: Both) -> None:
    x, y = _values(dtype, 5, 6, 7), _values(dtype, 5, 2, 7, seed=2)
    for parts, dim in (
        ([x, y, x], 1),
        ([x.transpose(0, 2), x.transpose(0, 2)], 0),
        ([x], 2),
        ([x[:0], x], 0),
        ([y[:, ::2]] * 5, 2),
        ([y] * 13, 1),
    ):
        _equal(both(rl.cat, parts, dim), dim)
    for pads in ((1, 2), (0, 3, 2, 0), (1, 1, 1, 1, 1, 1), (0, 0)):
        _equal(both(ops.pad, x, pads, value=1), pads)
    g = _values(dtype, 2, 2, 7)
    ranges = ((1, 5, 2), (3, 5, 1), (0, 7, 1))
    back = ops.movement.SLICE_BACKWARD
    _equal(both(back, g, shape=(5, 6, 7), ranges=ranges), "slice_backward")
    for in_place in (False, True):
        for value in (g, g[:1].expand(2, 2, 7), g.transpose(0, 1)):
            z = x.clone()

            def write(
                z: rl.Tensor = z, value: rl.Tensor = value, way: bool = in_place
            ) -> rl.Tensor:
                attrs: dict[str, Any] = {"ranges": ranges, "shape": (2, 2, 7)}
                op = ops.subscript.ASSIGN
                return op.inplace(z.clone(), value, **attrs) if way else op(z, value, **attrs)

            _equal(both(write), in_place)
    x[1:] = x[:-1]  # overlapping
    rows = _values(dtype, 5, 6, 7).to("float64").numpy()
    assert np.array_equal(x.to("float64").numpy(), rows[[0, 0, 1, 2, 3]])


@pytest.mark.parametrize("dtype", DTYPES)
def test_indices(variant: str, dtype: str, both: Both) -> None:
    x = _values(dtype, 9, 4, 33)
    for kind in ("int64", "int32", "uint8"):
        for dim, size in ((0, 9), (1, 4), (2, 33)):
            index = rl.tensor(draws(dim, (700,), 0, size)).to(kind)
            for picked in (index, index[:0], index[::3], index[5:6].expand(4)):
                for source in (x, x[:, :, ::1].transpose(0, 0), x.contiguous()):
                    _equal(both(rl.index_select, source, dim, picked), (dim, kind))
            shape = [5, 3, 21]
            shape[dim] = 600
            index = rl.tensor(draws(dim, shape, 0, size)).to(kind)
            _equal(both(rl.gather, x, dim, index), (dim, kind))
            turned = index.permute(2, 1, 0).contiguous().permute(2, 1, 0)
            _equal(both(rl.gather, x, dim, turned), (dim, kind))


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatters(variant: str, dtype: str, both: Both) -> None:
    x = _values(dtype, 6, 5, 9)
    for dim in range(3):
        shape = [4, 3, 7]
        shape[dim] = 600
        index = rl.tensor(draws(dim, shape, 0, x.shape[dim])).long()
        for source in (_values(dtype, *shape, seed=4), _values(dtype, 1, 1, 1).expand(*shape)):
            _equal(both(rl.scatter, x, dim, index, source), dim)
            if dtype == "float32":
                mine, theirs = both(rl.scatter_add, x, dim, index.int(), source)
                assert np.allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-2)
        _equal(both(rl.scatter, x, dim, index[:0], index[:0].to(dtype)), dim)


def test_index_add(variant: str, both: Both) -> None:
    x = _values("float32", 6, 5, 40)
    for dim, size in ((0, 6), (1, 5), (2, 40)):
        shape = list(x.shape)
        shape[dim] = 530
        index = rl.tensor(draws(dim, (530,), 0, size)).long()
        source = _values("float32", *shape, seed=3)
        mine, theirs = both(rl.index_add, x, dim, index, source)
        assert np.allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-3)


def test_an_index_out_of_range_is_named(variant: str) -> None:
    x = rl.zeros(3, 4)
    for bad in (3, -1, 2**40):
        index = rl.tensor([0, bad])
        with pytest.raises(
            IndexError, match=f"index_select: index {bad} is out of range for size 3"
        ):
            rl.index_select(x, 0, index)
        with pytest.raises(IndexError, match=f"gather: index {bad} is out of range for size 3"):
            rl.gather(x, 0, index.reshape(2, 1))
        with pytest.raises(IndexError, match=f"scatter: index {bad} is out of range for size 3"):
            rl.scatter(x, 0, index.reshape(2, 1), 1.0)
        with pytest.raises(IndexError, match=f"index_add: index {bad} is out of range for size 3"):
            rl.index_add(x, 0, index, rl.ones(2, 4))
    assert x.sum().item() == 0
    with pytest.raises(IndexError):
        rl.index_select(rl.zeros(0, 4), 0, rl.tensor([0]))


ORDERED = [3.0, -1.0, NAN, 0.0, -0.0, INF, -INF, 3.0, 1e-45, -1e-45, NAN, 2.5, -NAN, 7.0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_orders(variant: str, dtype: str, both: Both) -> None:
    special = rl.tensor(ORDERED).to(dtype)
    many = rl.tensor(draws(1, (3, 3000, 2), -9, 9)).to(dtype)
    few = rl.tensor(draws(1, (5000,), 0, 20)).floor().to(dtype)  # many equal ones
    for x, dims in (
        (special, (0,)),
        (many, (0, 1, 2)),
        (few, (0,)),
        (many.transpose(0, 1), (0, 1)),
    ):
        for dim in dims:
            for falling in (False, True):
                _equal(both(rl.argsort, x, dim, descending=falling), (x.shape, dim, falling))
                for k in {1, min(7, x.shape[dim]), x.shape[dim], x.shape[dim] // 2}:
                    (a, i), (b, j) = both(x.topk, k, dim, falling)
                    _equal((i, j), (x.shape, dim, k))
                    _equal((a, b), (x.shape, dim, k))
    record = lowering.record(
        "topk", (special,), rl.zeros(2, dtype="int64"), {"k": 2, "dim": 0, "largest": True}
    )
    assert record is not None and simd.library is not None
