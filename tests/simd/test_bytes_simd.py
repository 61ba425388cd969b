"""Products of bytes in C: every integer is that of Python's, with every instruction set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import simd
from rushlight.core.backends.cpu.prepacked import PackedWeight
from rushlight.core.ops.integers import BYTE_DEPTHWISE, BYTE_PRODUCT, byte_product

pytestmark = pytest.mark.usefixtures("variant")
Array = Any
SIZES = [(1, 1, 1), (1, 16, 2), (3, 17, 5), (7, 33, 64), (6, 16, 31), (13, 70, 129), (38, 5, 0)]


def draws(seed: int, shape: tuple[int, ...], dtype: str, ends: bool = False) -> Array:
    info, r = np.iinfo(dtype), np.random.default_rng(seed)
    if ends:  # the largest sums there are
        return r.choice([info.min, info.max], shape).astype(dtype)
    return r.integers(info.min, info.max + 1, shape).astype(dtype)


def tensor(x: Array) -> Any:
    return None if x is None else rl.from_numpy(x)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The C kernels that ran."""
    ran: list[str] = []

    def run(records: Any, names: Any, inner: Any = simd.run) -> None:
        inner(records, names)
        ran.extend(r.kernel for r in records)

    monkeypatch.setattr(simd, "run", run)
    return ran


@pytest.mark.parametrize("second", ["uint8", "int8"])
@pytest.mark.parametrize("first", ["uint8", "int8"])
def test_sums_are_exact(first: str, second: str, kernels: list[str]) -> None:
    for m, n, k in SIZES:
        for ends in (False, True):
            a, b = draws(1, (m, k), first, ends), draws(2, (k, n), second, ends)
            row, column = draws(3, (m, 1), first, ends), draws(4, (1, n), second, ends)
            for zeros in ((None, None), (row, column), (row[:1], column[:, :1])):
                left = a.astype(np.int64) - (0 if zeros[0] is None else zeros[0].astype(int))
                right = b.astype(np.int64) - (0 if zeros[1] is None else zeros[1].astype(int))
                made = BYTE_PRODUCT(tensor(a), tensor(b), *map(tensor, zeros), dtype="int32")
                np.testing.assert_array_equal(made.numpy(), left @ right)
    assert set(kernels) == {"byte_product"}


@pytest.mark.parametrize("layout", ["turned", "apart", "shared"])
def test_layouts_of_batches(layout: str) -> None:
    a, b = draws(1, (3, 9, 21), "uint8"), draws(2, (3, 21, 35), "int8")
    x, y = tensor(a), tensor(b)
    if layout == "turned":
        x, y = (t.transpose(-1, -2).contiguous().transpose(-1, -2) for t in (x, y))
    elif layout == "apart":
        a, b = a[:, ::2, 1::3], b[:, 1::3, ::2]
        x, y = x[:, ::2, 1::3], y[:, 1::3, ::2]
    else:
        b = b[:1]
        y = y[:1]
    expected = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(byte_product(x, y).numpy(), expected)


@pytest.mark.parametrize("kind", ["float32", "uint8", "int8"])
@pytest.mark.parametrize("bias", [None, "float32", "int32"])
def test_ends_are_those_of_numpy(kind: str, bias: str | None, both: Any) -> None:
    if (kind, bias) == ("float32", "int32"):
        return
    for rows, columns in ((1, 1), (19, 1), (1, 37), (19, 37)):
        r = np.random.default_rng(rows + columns)
        scale = (r.random((rows, columns)) * 1e-3).astype(np.float32)
        added = None if bias is None else (r.random((rows, columns)) * 99 - 50).astype(bias)
        zero = None if kind == "float32" else draws(5, (1, 1), kind)
        a, b = draws(1, (19, 64), "uint8"), draws(2, (64, 37), "int8")
        given = (a, b, draws(3, (1, 1), "uint8"), None, added, scale, zero)
        ours, plain = both(BYTE_PRODUCT, *map(tensor, given), dtype=kind)
        np.testing.assert_array_equal(ours.numpy(), plain.numpy())


def test_a_scale_that_is_nan_gives_zero() -> None:
    nan = tensor(np.full((1, 1), np.nan, np.float32))
    a, b = tensor(draws(1, (3, 8), "uint8")), tensor(draws(2, (8, 5), "int8"))
    assert byte_product(a, b, scale=nan, dtype="int8").numpy().tolist() == [[0] * 5] * 3


@pytest.mark.native
def test_more_threads_change_nothing() -> None:
    a, b = tensor(draws(1, (211, 300), "uint8")), tensor(draws(2, (300, 190), "int8"))
    before = rl.get_num_threads()
    try:
        results = []
        for threads in (1, 3):
            rl.set_num_threads(threads)
            results.append(byte_product(a, b).numpy())
    finally:
        rl.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], a.numpy().astype(int) @ b.numpy().astype(int))


def test_a_weight_is_packed_once_and_again_when_it_changes() -> None:
    weight = rl.from_numpy(draws(2, (40, 50), "int8")).clone()
    other = rl.from_numpy(draws(3, (40, 50), "int8"))
    step: Any = rl.jit(lambda x: byte_product(x, weight))
    x = tensor(draws(1, (7, 40), "uint8"))
    held = len(PackedWeight.alive)
    for _ in range(3):
        np.testing.assert_array_equal(
            step(x).numpy(), x.numpy().astype(int) @ weight.numpy().astype(int)
        )
    assert len(PackedWeight.alive) <= held + 1
    with rl.no_grad():
        weight.copy_(other)
    np.testing.assert_array_equal(
        step(x).numpy(), x.numpy().astype(int) @ other.numpy().astype(int)
    )


@pytest.mark.parametrize("small", ["uint8", "int8"])
def test_casts_between_floats_and_bytes(small: str, both: Any) -> None:
    r = np.random.default_rng(1)
    floats = np.concatenate([r.normal(0, 200, 1021), [np.nan, np.inf, -np.inf, 127.9, -0.9, 255.5]])
    for count in (len(floats), 5):
        x = tensor(floats[-count:].astype(np.float32))
        for back in (small, "float32"):
            ours, plain = both(lambda t, d=back: t.to(small).to(d), x)
            np.testing.assert_array_equal(ours.numpy(), plain.numpy())


@pytest.mark.parametrize("kind", ["int32", "float32", "uint8", "int8"])
def test_depthwise_convolutions_are_those_of_numpy(kind: str, both: Any) -> None:
    sizes = [
        ((1, 2, 9, 40), (4, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
        ((2, 3, 33, 21), (3, 1, 5, 2), (2, 2), (2, 0, 1, 3), (1, 2)),
        ((1, 1, 7, 7), (2, 1, 3, 3), (3, 4), (0, 0, 2, 2), (2, 1)),
        ((1, 1, 150, 500), (1, 1, 3, 3), (1, 2), (1, 1, 1, 1), (1, 1)),  # in several parts
    ]
    scaled = kind != "int32"
    for i, (image, filters, stride, padding, dilation) in enumerate(sizes):
        first, second = ("uint8", "int8") if i % 2 else ("int8", "uint8")
        r = np.random.default_rng(i)
        count = filters[0]
        scale = (r.random((count if i else 1, 1)) * 1e-3).astype(np.float32) if scaled else None
        bias = (r.random((count, 1)) * 99).astype("int32" if kind == "int8" else "float32")
        zero = draws(6, (1, 1), kind) if kind in ("uint8", "int8") else None
        given = (
            draws(1, image, first), draws(2, filters, second), draws(3, (1, 1), first),
            draws(4, (count, 1), second) if i else None, bias if scaled else None, scale, zero,
        )  # fmt: skip
        attrs = {"stride": stride, "padding": padding, "dilation": dilation, "dtype": kind}
        ours, plain = both(BYTE_DEPTHWISE, *map(tensor, given), **attrs)
        np.testing.assert_array_equal(ours.numpy(), plain.numpy())
