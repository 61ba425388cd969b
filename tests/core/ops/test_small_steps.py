"""Shortest ways of small calls give what the long ones give: masked_fill_, where, one draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.basis import philox
from rushlight.core.tensor.op import REGISTRY


def test_masked_fill_is_one_op_over_its_tensor() -> None:
    x, mask = rl.arange(4.0), rl.tensor([True, False, True, False])
    before = x.storage.version
    assert x.masked_fill_(mask, -1) is x and x.tolist() == [-1, 1, -1, 3]
    assert x.storage.version == before + 1  # one write, and no copy of another result
    part = x[1:3]
    part.masked_fill_(mask[:2], 7.0)
    assert x.tolist() == [-1, 7, -1, 3]
    column = rl.zeros(3, 2)[:, 1]
    assert column.masked_fill_(rl.tensor([True, True, False]), 2.0).tolist() == [2, 2, 0]


def test_masked_fill_keeps_what_gradients_need() -> None:
    w: Any = rl.tensor([1.0, 2.0]).requires_grad_()
    x = w * 1.0
    y = x * x
    with rl.no_grad():
        x.detach().masked_fill_(rl.tensor([True, False]), 9.0)
    with pytest.raises(RuntimeError, match="modified"):
        y.sum().backward()
    x = w * 2.0
    x.masked_fill_(rl.tensor([True, False]), 5.0)
    x.sum().backward()
    assert w.grad.tolist() == [0.0, 2.0]
    with pytest.raises(RuntimeError):
        rl.zeros(1).expand(3).masked_fill_(rl.tensor([True, False, True]), 1.0)


def test_a_result_is_not_written_over_what_shares_memory() -> None:
    where = REGISTRY["where"]
    x = rl.arange(4.0)
    assert where.over(x, rl.tensor([True] * 4), x.flip(0), x) is x
    assert x.tolist() == [3, 2, 1, 0]
    bits = x.view(rl.uint8)[:4].view(rl.bool)
    assert where.over(x, bits, rl.ones(4), x) is None

    @rl.jit
    def captured(x: rl.Tensor, mask: rl.Tensor) -> rl.Tensor:
        return (x + 0).masked_fill_(mask, 3.0) * 2

    for mask in (rl.tensor([True, False]), rl.tensor([False, True])):
        assert captured(rl.ones(2), mask).tolist() == [6.0 if m else 2.0 for m in mask.tolist()]
    rows = rl.func.vmap(lambda x, m: (x + 0).masked_fill_(m, 3.0))
    assert rows(rl.ones(2, 2), rl.eye(2).bool()).tolist() == [[3, 1], [1, 3]]


def test_where_takes_numbers_beside_floats() -> None:
    mask, x = rl.tensor([True, False]), rl.tensor([1.0, 2.0]).to(rl.bfloat16)
    for value in (0, -1.5, float("inf"), True):
        for result in (rl.where(mask, value, x), x.masked_fill(mask, value)):
            assert result.dtype is rl.bfloat16 and result.tolist() == [float(value), 2.0]
    assert rl.where(mask, 1, 2.5).dtype is rl.float32
    assert rl.where(mask, 1.5, rl.tensor([1, 2])).tolist() == [1.5, 2.0]


@pytest.mark.parametrize("seed", [0, 3, 2**40 + 7])
def test_one_index_is_drawn_with_the_same_words(seed: int) -> None:
    for offset in (0, 1, 2**33 + 5):
        assert philox.word(seed, offset) == philox.words(seed, offset, 1)[0]
    weights = rl.tensor([0.5, 0.0, 3.0, 1.5])
    ends = np.cumsum(weights.numpy())
    rl.manual_seed(seed)
    drawn = [rl.multinomial(weights, 1, True).item() for _ in range(20)]
    classes = rl.distributions.Categorical(weights)
    rl.manual_seed(seed)
    numbers = [rl.rand(1).item() for _ in range(20)]
    assert drawn == [int(np.searchsorted(ends, np.float32(n) * ends[-1], "right")) for n in numbers]
    rl.manual_seed(seed)
    sampled = [classes.sample() for _ in range(20)]
    assert [s.item() for s in sampled] == drawn
    assert sampled[0].shape == () and sampled[0].dtype is rl.int64
    with pytest.raises(rl.errors.RangeError, match="negative, infinite or nan"):
        rl.multinomial(rl.tensor([1.0, -1.0]), 1, True)


def test_arrays_that_share_memory_are_not_read_after_they_are_written() -> None:
    array = np.arange(8.0, dtype=np.float32)
    expected = array.copy()
    expected[1:] += array[:-1]
    x, behind = rl.from_numpy(array[1:]), rl.from_numpy(array[:-1])
    assert x.storage.may_overlap(behind.storage)
    x.add_(behind)
    np.testing.assert_array_equal(array, expected)
    ahead = rl.from_numpy(array[4:])
    start = rl.from_numpy(array[:4])
    assert not start.storage.may_overlap(ahead.storage)  # neighbours
    start.mul_(ahead)
    np.testing.assert_array_equal(array[:4], expected[:4] * expected[4:])


def test_arrays_apart_take_the_short_way() -> None:
    rng = np.random.default_rng(0)
    x, y = (rl.from_numpy(rng.standard_normal(11, np.float32)) for _ in range(2))
    expected = x.numpy() + y.numpy()
    memos = REGISTRY["add"].inplace_memos
    assert memos is not None
    memos.clear()
    x.add_(y)
    np.testing.assert_array_equal(x.numpy(), expected)
    assert len(memos) == 1  # the checks of this call serve the next one


@pytest.mark.parametrize("value", [0, -0.0, 448, 449, 60000.0, True, float("nan"), float("-inf")])
@pytest.mark.parametrize("dtype", [rl.float32, rl.float16, rl.bfloat16, rl.int32, rl.bool])
def test_numbers_fill_tensors(value: float, dtype: Any) -> None:
    if dtype is rl.int32 and value != value or dtype is rl.int32 and abs(value) == float("inf"):
        with pytest.raises((ValueError, OverflowError, RuntimeError)):
            rl.zeros(2).to(dtype).fill_(value)
        return
    filled = rl.ones(2).to(dtype).fill_(value)
    assert filled.dtype is dtype
    np.testing.assert_array_equal(
        filled.float().numpy(), np.full(2, rl.tensor(value, dtype=dtype).float())
    )
    assert np.signbit(filled.float().numpy()[0]) == np.signbit(float(rl.tensor(value, dtype=dtype)))
