"""int64 in 32 bits: exact, or an OverflowError at the next read; never another number."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.elementwise import ELEMENTWISE
from rushlight.core.tools.testing import draws

TOP, LOW = 2**31 - 1, -(2**31)
# Around every place where 32 bits, or the product of two numbers, end.
CORNERS = [
    0, 1, -1, 2, -2, 3, -3, 7, -7, 31, 32, 33, -31, 256, 46340, 46341, -46340, -46341, 65535, 65536,
    -65536, 2**30, -(2**30), TOP - 1, TOP, LOW, LOW + 1,
]  # fmt: skip


def _call(name: str, *values: rl.Tensor) -> rl.Tensor:
    found: rl.Tensor = getattr(rl, name)(*values)
    assert found.dtype is rl.int64
    return found


def _valid(name: str, values: tuple[int, ...]) -> bool:
    """Whether the op has a whole number for them, of a size that Python computes at once."""
    if name in ("floor_divide", "remainder"):
        return values[1] != 0
    return name != "pow" or 0 <= values[1] <= 256


def test_every_corner_is_exact_or_said_to_be_beyond(
    gpu: rl.Device, op_samples: ModuleType, whole_name: str
) -> None:
    name, reference = whole_name, op_samples.SAMPLES[whole_name].whole
    repeat = ELEMENTWISE[name].arity
    cases = [c for c in itertools.product(CORNERS, repeat=repeat) if _valid(name, c)]
    wanted = [reference(*c) for c in cases]
    fits = [LOW <= w <= TOP for w in wanted]
    good = [c for c, f in zip(cases, fits, strict=True) if f]
    columns = [rl.tensor(list(column), device=gpu) for column in zip(*good, strict=True)]
    assert _call(name, *columns).tolist() == [w for w, f in zip(wanted, fits, strict=True) if f]
    for case, f in zip(cases, fits, strict=True):
        if not f:
            values = [rl.tensor([1, v], device=gpu) for v in case]
            with pytest.raises(OverflowError, match=f"^{name}: an int64 result is beyond the 32 b"):
                _call(name, *values).tolist()
            assert values[0].tolist() == [1, case[0]], "it is said once"


def test_every_op_that_computes_integers_is_among_them(op_samples: ModuleType) -> None:
    whole = set()
    for name, row in ELEMENTWISE.items():
        if name in op_samples.SAMPLES and isinstance(getattr(rl, name, None), Callable):  # type: ignore[arg-type]
            try:
                out = getattr(rl, name)(*[rl.tensor([1, 2])] * row.arity)
            except TypeError:
                continue
            if out.dtype is rl.int64:
                whole.add(name)
    assert whole == {n for n, s in op_samples.SAMPLES.items() if s.whole is not None}


def test_int32_wraps_around(gpu: rl.Device) -> None:
    x = rl.tensor([TOP, LOW, 65536], dtype=rl.int32, device=gpu)
    assert (x + x).tolist() == [-2, 0, 131072]
    assert (x * x).tolist() == [1, 0, 0]


# What gathers integers, with numbers whose exact result is known.
GATHERS: dict[str, Callable[[rl.Tensor], rl.Tensor]] = {
    "sum": lambda x: x.sum(),
    "cumsum": lambda x: x.cumsum(0),
    "prod": lambda x: x.prod(),
    "matmul": lambda x: x @ rl.ones_like(x),
    "scatter_add": lambda x: rl.zeros(1, dtype=rl.int64, device=x.device).scatter_add(
        0, rl.zeros_like(x), x
    ),
    "index_add": lambda x: rl.zeros(1, dtype=rl.int64, device=x.device).index_add(
        0, rl.zeros_like(x), x
    ),
}


@pytest.mark.parametrize("name", GATHERS)
def test_reductions_are_exact_or_raise(gpu: rl.Device, name: str) -> None:
    op = GATHERS[name]
    exact = [[TOP, -5, 3], [LOW, 1, 1], [46340, 46341, 0], [0, 0, 0], [-65536, 32768, 1]]
    beyond = (
        [[TOP, 1], [LOW, -1]] if name != "prod" else [[65536, 65536], [LOW, -1], [46341, -46342]]
    )
    for row in exact:
        if name != "prod" or abs(np.prod(row, dtype=object)) <= TOP:
            assert op(rl.tensor(row, device=gpu)).tolist() == op(rl.tensor(row)).tolist()
    if name in ("sum", "matmul"):  # in between they have 64 bits
        row = [TOP, TOP, LOW, -TOP, 9]
        assert op(rl.tensor(row, device=gpu)).item() == sum(row)
    for row in beyond:
        with pytest.raises(OverflowError, match="an int64 result is beyond the 32 bits"):
            op(rl.tensor(row, device=gpu)).tolist()


@pytest.mark.parametrize("dtype", [rl.int32, rl.uint32, rl.int16, rl.uint8, rl.bool])
def test_sums_of_other_integers_are_int64_too(gpu: rl.Device, dtype: rl.DType) -> None:
    x = rl.tensor([1, 0, 100, 17]).to(dtype)
    for op in (GATHERS["sum"], GATHERS["cumsum"], GATHERS["prod"]):
        found = op(x.to(gpu))
        assert found.dtype is rl.int64 and found.tolist() == op(x).tolist()
    top = rl.tensor([TOP], dtype=rl.int32, device=gpu).expand(2)
    with pytest.raises(OverflowError, match="^sum: an int64 result"):
        top.sum().tolist()


def test_numbers_are_checked_before_the_device_is_asked(gpu: rl.Device) -> None:
    x = rl.tensor([1, 2], device=gpu)
    calls: list[Callable[[], Any]] = [
        lambda: x + 2**31,
        lambda: rl.arange(TOP, TOP + 3, device=gpu),
        lambda: x.fill_(2**40),
        lambda: rl.full((2,), 2**33, device=gpu),
        lambda: rl.randint(2**31, 2**31 + 5, (2,), device=gpu),
    ]
    for call in calls:
        with pytest.raises(OverflowError, match="beyond the 32 bits that webgpu holds int64 in"):
            call()
    assert rl.arange(TOP - 2, TOP + 1, device=gpu).tolist() == [TOP - 2, TOP - 1, TOP]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "floor_divide", "remainder"])
def test_many(gpu: rl.Device, name: str) -> None:
    a = draws(1, (500,), -46340, 46340).astype(np.int64)
    b = draws(2, (500,), -46340, 46340).astype(np.int64)
    fn: Callable[..., Any] = getattr(rl, name)
    found = fn(rl.tensor(a, device=gpu), rl.tensor(b, device=gpu))
    assert found.tolist() == fn(rl.tensor(a), rl.tensor(b)).tolist()


def test_casts(gpu: rl.Device) -> None:
    x = rl.tensor([2147483520.0, -2147483648.0, float("nan"), -1.5], device=gpu)
    assert x.long().tolist() == [2147483520, LOW, 0, -1]
    for far in (2147483648.0, -2147483904.0, float("inf")):
        with pytest.raises(OverflowError, match="^to: an int64 result"):
            rl.tensor([far], device=gpu).long().tolist()
    with pytest.raises(OverflowError, match="^to: an int64 result"):
        rl.tensor([2**31], dtype=rl.uint32, device=gpu).long().tolist()
    wide = rl.tensor([-1, 300, LOW], device=gpu)
    assert wide.to(rl.uint8).tolist() == [255, 44, 0]
    assert wide.to(rl.uint32).tolist() == [2**32 - 1, 300, 2**31]
    assert wide.float().tolist() == [-1, 300, -(2.0**31)]
