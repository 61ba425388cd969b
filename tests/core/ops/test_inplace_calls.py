"""Equal in-place calls share checks and messages; what makes them differ is still seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl


def test_equal_calls_see_new_values_and_count_versions(device: str) -> None:
    x, y = rl.zeros(3, device=device), rl.tensor([1.0, 2.0, 3.0], device=device)
    for n in range(1, 4):
        before = x.storage.version
        assert x.add_(y) is x and x.storage.version == before + 1
        assert x.tolist() == [n * 1.0, n * 2.0, n * 3.0]
    x.mul_(2).sub_(1).div_(y)
    assert x.tolist() == pytest.approx([5.0, 5.5, 17 / 3])
    x.fill_(4)
    for method in ("sqrt_", "neg_", "abs_"):
        getattr(x, method)()
    assert x.tolist() == [2.0] * 3
    assert x.zero_().copy_(y).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_a_scaled_tensor_is_added_in_one_pass(device: str, dtype: str, widest: str) -> None:
    dtype = widest if dtype == "float64" else dtype
    values = np.linspace(-2, 2, 24).reshape(4, 6)
    x = rl.tensor(values, dtype=dtype, device=device)
    y = rl.tensor(values[::-1].copy(), dtype=dtype, device=device)
    a, b = (t.double().numpy() if device == "cpu" else t.float().numpy() for t in (x, y))
    error = 2e-2 if x.dtype.itemsize == 2 else 1e-5
    cases: list[tuple[Callable[[rl.Tensor], rl.Tensor], Any]] = [
        (lambda t: t.add_(y, alpha=0.5), a + 0.5 * b),
        (lambda t: t.sub_(y, alpha=0.5), a - 0.5 * b),
        (lambda t: t.addcmul_(y, y, value=-0.25), a - 0.25 * b * b),
        (lambda t: t.addcdiv_(y, y * y + 1, value=3), a + 3 * b / (b * b + 1)),
        (lambda t: t.lerp_(y, 0.3), a + 0.3 * (b - a)),
    ]
    for method, expected in cases:
        for _ in range(2):
            assert method(x.clone()).float().numpy() == pytest.approx(expected, error, error)
    turned = x.clone().t().add_(y.t(), alpha=0.5).float().numpy()
    assert turned == pytest.approx((a + b / 2).T, error, error)


def test_an_operand_in_the_same_memory_is_read_before_it_is_written(device: str) -> None:
    x = rl.arange(6.0, device=device)
    for _ in range(2):
        x[1:].add_(x[:-1])
    expected = np.arange(6.0)
    for _ in range(2):
        expected[1:] += expected[:-1].copy()
    assert x.tolist() == expected.tolist()
    assert x.add_(x).tolist() == (2 * expected).tolist()


@pytest.mark.native
def test_arrays_that_overlap_and_arrays_that_may_not_be_written() -> None:
    memory = np.arange(6.0, dtype=np.float32)
    a, b = rl.from_numpy(memory[1:]), rl.from_numpy(memory[:-1])
    for _ in range(2):
        expected = memory.copy()
        expected[1:] += expected[:-1].copy()
        a.add_(b)
        assert memory.tolist() == expected.tolist()
    fixed = np.ones(3, np.float32)
    x, y = rl.from_numpy(fixed), rl.ones(3)
    x.add_(y)
    fixed.flags.writeable = False
    with pytest.raises((ValueError, RuntimeError), match="read-only"):
        rl.from_numpy(fixed).add_(y)
    assert fixed.tolist() == [2.0] * 3


def test_gradients_and_modes_still_refuse(device: str) -> None:
    x, y = rl.ones(3, device=device), rl.ones(3, device=device)
    x.add_(y)  # the same call, allowed
    leaf = rl.ones(3, device=device).requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.add_(y)
    with rl.no_grad():
        assert leaf.add_(y).tolist() == [2.0] * 3
    product = leaf * leaf
    product.add_(y)  # recorded
    product.sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [4.0] * 3
    saved = leaf * y
    y.add_(x)
    with pytest.raises(RuntimeError, match="modified in place"):
        saved.sum().backward()
    with rl.inference_mode():
        inference = rl.ones(3, device=device)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        inference.add_(x)
    repeated = rl.ones(1, device=device).expand(3)
    with pytest.raises(RuntimeError, match="share one position"):
        repeated.add_(x)


def test_masked_elements_are_filled(device: str) -> None:
    x = rl.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    mask = x > 2
    for value in (0.5, -1):
        assert x.masked_fill_(mask, value) is x
        assert x.tolist() == [[1.0, 2.0], [value, value]]
    assert x.masked_fill_(mask[1], 7).tolist() == [[7.0, 7.0], [7.0, 7.0]]
    leaf = rl.ones(2, 2, device=device).requires_grad_()
    (leaf * 1).masked_fill_(mask, 9).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_regions_are_written_by_any_number_and_tensor(device: str) -> None:
    x = rl.zeros(3, 4, device=device)
    for value in (1.5, 2, True):
        x[1] = value
        assert x.tolist() == [[0.0] * 4, [float(value)] * 4, [0.0] * 4]
    x[:, 1:3] = rl.tensor([7.0, 8.0], device=device)
    assert x.tolist()[0] == [0.0, 7.0, 8.0, 0.0]
    x[-1, -1] = float("inf")
    assert x[2].tolist() == [0.0, 7.0, 8.0, float("inf")]
    with pytest.raises(RuntimeError, match="1e\\+300"):
        x[0] = 1e300
