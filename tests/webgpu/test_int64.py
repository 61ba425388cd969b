"""int64 in 32 bits: exact, or an OverflowError at the next read; never another number."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.testing import draws

TOP, LOW = 2**31 - 1, -(2**31)
FITS: list[tuple[str, Callable[..., Any], int, int]] = [
    ("add", operator.add, TOP - 5, 5), ("add", operator.add, LOW + 5, -5),
    ("sub", operator.sub, LOW + 5, 5), ("sub", operator.sub, -1, LOW),
    ("mul", operator.mul, 46340, 46341), ("mul", operator.mul, -65536, 32768),
    ("mul", operator.mul, LOW, 1), ("pow", operator.pow, -2, 31), ("pow", operator.pow, 3, 19),
    ("pow", operator.pow, -1, 2**31 - 1), ("floor_divide", operator.floordiv, LOW, 1),
    ("floor_divide", operator.floordiv, -7, 2), ("remainder", operator.mod, LOW, -1),
    ("bitwise_xor", operator.xor, LOW, TOP),
]  # fmt: skip
BEYOND: list[tuple[str, int, int]] = [
    ("add", TOP, 1), ("add", LOW, -1), ("sub", LOW, 1), ("sub", 0, LOW), ("mul", 46341, 46341),
    ("mul", 65536, 65536), ("mul", LOW, -1), ("pow", 2, 31), ("pow", -2, 33), ("pow", 10, 100),
    ("floor_divide", LOW, -1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "fn", "a", "b"), FITS)
def test_what_fits_is_exact(
    gpu: rl.Device, name: str, fn: Callable[..., Any], a: int, b: int
) -> None:
    found = getattr(rl, name)(rl.tensor([a, 1], device=gpu), rl.tensor([b, 1], device=gpu))
    assert found.dtype is rl.int64 and found.tolist()[0] == fn(a, b)


@pytest.mark.parametrize(("name", "a", "b"), BEYOND)
def test_what_does_not_fit_raises_at_the_read(gpu: rl.Device, name: str, a: int, b: int) -> None:
    x, y = rl.tensor([1, a], device=gpu), rl.tensor([1, b], device=gpu)
    out = getattr(rl, name)(x, y)
    with pytest.raises(OverflowError, match=rf"^{name}: an int64 result is beyond the 32 bits"):
        out.tolist()
    assert x.tolist() == [1, a], "it is said once"
    wrapped = getattr(rl, name)(x.to(rl.int32), y.to(rl.int32))
    assert wrapped.dtype is rl.int32 and len(wrapped.tolist()) == 2, "int32 wraps around"


@pytest.mark.parametrize("name", ["neg", "abs", "square"])
def test_functions_of_one(gpu: rl.Device, name: str) -> None:
    fn: Callable[..., Any] = getattr(rl, name)
    x = rl.tensor([5, -46340, 0], device=gpu)
    assert fn(x).tolist() == fn(x.cpu()).tolist()
    with pytest.raises(OverflowError, match=f"^{name}: "):
        fn(rl.tensor([LOW], device=gpu)).tolist()


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
