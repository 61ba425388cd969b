"""NumPy arrays and scalars as operands of tensors, and tensors in NumPy's functions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl

BOTH = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
X, A = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [3.0, 5.0]])


@pytest.mark.parametrize("name", [*BOTH, "eq", "ne", "lt", "le", "gt", "ge"])
def test_an_array_on_either_side(name: str, device: str) -> None:
    op: Callable[[Any, Any], Any] = getattr(operator, name)
    x = rl.tensor(X, dtype=rl.float32, device=device)
    for array in (A, A.astype(np.float32), A[:, ::-1], A.astype(">f8")):
        for found, expected in ((op(x, array), op(X, array)), (op(array, x), op(array, X))):
            assert isinstance(found, rl.Tensor) and found.device is x.device
            np.testing.assert_allclose(found.tolist(), expected, rtol=1e-5)


def test_dtypes_are_those_of_numpys_promotion() -> None:
    x, i = rl.tensor(X, dtype=rl.float32), rl.tensor([1, 2], dtype=rl.int32)
    scalar: Any = lambda number: np.array(number)[()]  # noqa: E731
    for found, expected in (
        (x + A, "float64"),
        (x + A.astype("f4"), "float32"),
        (x + np.arange(2), "float64"),
        (x + np.array(2.0), "float64"),
        (i + np.arange(2), "int64"),
        (i * A, "float64"),
        (x + np.arange(2, dtype="u2"), "float32"),
        (x + np.float64(2), "float32"),
        (scalar(2.0) * x, "float32"),
        (scalar(2) - i, "int32"),
        (scalar(2.0) * i, "float32"),
        (i & np.array([True, True]), "int32"),
        (np.array([1, 1]) << i, "int64"),
        (rl.ones(2, dtype=rl.bfloat16) + np.ones(2, "f4"), "float32"),
    ):
        assert found.dtype.name == expected


def test_an_array_makes_a_new_tensor_where_a_number_writes() -> None:
    x: Any = rl.tensor([7.0, -7.0])
    same = x
    for name, expected in (("ifloordiv", [3, -4]), ("ipow", [9, 16]), ("imod", [1, 0])):
        x = getattr(operator, name)(x, 2)
        assert x is same and x.tolist() == expected
    x += np.array([0.5, 1.0])
    assert x is not same and x.dtype is rl.float64 and same.tolist() == [1, 0]
    mask: Any = rl.tensor([True, False])
    kept = mask
    mask |= rl.tensor([False, True])
    mask ^= True
    assert mask is kept and mask.tolist() == [False, False]
    shifted: Any = rl.tensor([1, 2])
    shifted <<= 2
    assert shifted.tolist() == [4, 8] and (1 << rl.tensor([3])).tolist() == [8]
    assert (+shifted) is shifted


def test_arrays_pass_gradients() -> None:
    w = rl.ones(2, 2, requires_grad=True)
    ((A.astype(np.float32) @ w) * A.astype(np.float32)).sum().backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), A.T @ A)


def test_what_is_no_operand() -> None:
    x: Any = rl.ones(2)
    assert (x == None) is False and (x != None) is True and (x == "a") is False  # noqa: E711
    assert (x == [1, 1]) is False and x not in (None, "a")
    calls: list[Callable[[], Any]] = [lambda: x + None, lambda: x < None, lambda: x + [1.0, 2.0]]
    for call in calls:
        with pytest.raises(TypeError, match=r"an operand is a .*must be a Tensor"):
            call()
    with pytest.raises(TypeError, match="the operand of .* is ndarray; it must be a Tensor"):
        x + np.array(["a", "b"])
    assert (x + np.array([1j, 2])).tolist() == [1 + 1j, 3]
    with pytest.raises(TypeError, match="is ndarray; it must be a Tensor"):
        x.add_(np.ones(2))
    with pytest.raises(rl.errors.ShapeError, match="do not broadcast"):
        x + np.ones(3)


def test_functions_of_numpy_give_tensors() -> None:
    x = rl.tensor([1.0, 4.0])
    for found, expected in (
        (np.sqrt(x), [1, 2]),
        (np.add(x, np.ones(2)), [2, 5]),
        (np.isnan(x), [False, False]),
    ):
        assert isinstance(found, rl.Tensor) and found.tolist() == expected
    assert x.sum(np.int64(0)).item() == 5  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="requires grad"):
        np.exp(rl.ones(2, requires_grad=True))


def _ones(dtype: Any) -> Callable[[str], Any]:
    return lambda device: rl.ones(2, dtype=dtype, device=device)


INT8, UINT8 = _ones(rl.int8), _ones(rl.uint8)
OUT_OF_RANGE: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda d: rl.tensor([300], dtype=rl.int8, device=d),
    "tensor of floats": lambda d: rl.tensor([1, 300.5], dtype=rl.int8, device=d),
    "tensor of nan": lambda d: rl.tensor(float("nan"), dtype=rl.int32, device=d),
    "tensor without dtype": lambda d: rl.tensor([2**63], device=d),
    "tensor of one": lambda d: rl.tensor(2**70, device=d),
    "full": lambda d: rl.full((2,), 300, dtype=rl.int8, device=d),
    "full of floats": lambda d: rl.full((2,), 1e5, dtype=rl.float16, device=d),
    "fill_": lambda d: INT8(d).fill_(300),
    "assignment": lambda d: INT8(d).__setitem__(0, -129),
    "pow": lambda d: INT8(d) ** 300,
    "clamp": lambda d: INT8(d).clamp(max=300),
    "masked_fill": lambda d: UINT8(d).masked_fill(UINT8(d) > 0, 256),
    "where": lambda d: rl.where(INT8(d) > 0, INT8(d), 300),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_a_constant_out_of_range_raises(name: str, device: str) -> None:
    with pytest.raises(rl.errors.RangeError, match=r"^\w+: .*does not fit (dtype )?\w+"):
        OUT_OF_RANGE[name](device)


def test_where_constants_wrap(device: str) -> None:
    x, u = INT8(device), UINT8(device)
    assert (x + 300).tolist() == [45, 45] and (x == 300).tolist() == [False, False]
    assert (x < 300).tolist() == [True, True] and (x & 257).tolist() == [1, 1]
    assert u.fill_(-1).tolist() == [255, 255] and (u & -2).tolist() == [254, 254]
    assert (x / 400).tolist() == pytest.approx([0.0025, 0.0025])
    assert rl.tensor([-1], dtype=rl.uint8).tolist() == [255]
    assert rl.tensor(np.array([300]), dtype=rl.int8).tolist() == [44]
    assert rl.full((1,), float("inf"), dtype=rl.float16, device=device).item() == float("inf")


def test_a_number_on_cpu_goes_to_the_others(device: str) -> None:
    x, two = rl.ones(2, device=device), rl.tensor(2.0, requires_grad=True)
    for found in (x + two, two + x, x.clone().add_(two.detach()), rl.where(x > 0, two + 1, x)):
        assert found.device is x.device and found.tolist() == [3, 3]
    assert (two * rl.tensor(3.0, device=device)).device is x.device
    (x * two).sum().backward()
    assert two.grad is not None and two.grad.device.type == "cpu" and two.grad.item() == 2
    if device != "cpu":
        with pytest.raises(ValueError, match="tensors on"):
            x + rl.ones(2)


def test_a_fill_may_be_a_scalar_of_numpy(device: str) -> None:
    scalar: Any
    for scalar, dtype in (
        (np.float32(2), "float32"),
        (np.float64(2), "float32"),
        (np.int64(2), "int64"),
        (np.True_, "bool"),
        (2.0, "float32"),
        (2, "int64"),
        (True, "bool"),
    ):
        found = rl.full((2,), scalar, device=device)
        assert found.dtype.name == dtype and found.tolist() == [scalar] * 2
