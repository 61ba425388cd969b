"""An index out of range is named at the next read, whatever else waits, and nothing is damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.ops.attention import cache_write_
from rushlight.core.tools.testing import assert_close

Call = Callable[[rl.Tensor, rl.Tensor], rl.Tensor]

OPS: dict[str, Call] = {
    "gather": lambda x, i: x.gather(0, i.reshape(1, 1)),
    "index_select": lambda x, i: x.index_select(0, i),
    "scatter": lambda x, i: x.scatter(0, i.reshape(1, 1), 5.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i.reshape(1, 1), rl.ones(1, 1, device=x.device)),
    "index_add": lambda x, i: x.index_add(0, i, rl.ones(1, 3, device=x.device)),
    "index": lambda x, i: x[i],
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("index", [4, -5, 2**31 - 1, -(2**31)])
def test_the_next_read_names_op_index_and_size(gpu: rl.Device, name: str, index: int) -> None:
    x = rl.zeros(4, 3, device=gpu)
    out = OPS[name](x, rl.tensor([index], device=gpu))
    with pytest.raises(IndexError, match=f"{name}: index {index} is out of range for size 4"):
        out.cpu()
    if name.startswith(("scatter", "index_add")):
        assert_close(out.cpu(), np.zeros((4, 3)), label="nothing is written for a wrong index")
    assert np.isfinite(OPS[name](x, rl.tensor([2], device=gpu)).cpu().numpy()).all()


def test_the_first_of_a_batch_is_named_and_then_it_resets(gpu: rl.Device) -> None:
    x, y = rl.zeros(4, 3, device=gpu), rl.zeros(7, device=gpu)
    x.index_select(0, rl.tensor([1], device=gpu))
    x.gather(1, rl.tensor([[9]], device=gpu))
    y.index_select(0, rl.tensor([8], device=gpu))
    other = rl.ones(2, device=gpu)
    with pytest.raises(IndexError, match="gather: index 9 is out of range for size 3"):
        other.tolist()
    assert other.tolist() == [1, 1], "one error for the batch"
    y.index_select(0, rl.tensor([7], device=gpu))
    with pytest.raises(IndexError, match="index_select: index 7 is out of range for size 7"):
        other.tolist()


def test_reads_pay_only_where_an_index_waits(gpu: rl.Device, backend: Any) -> None:
    x, read = rl.ones(4, device=gpu), backend.port.read
    x.tolist()
    sizes: list[int] = []

    def counted(ranges: Any) -> Any:
        sizes.append(len(ranges))
        return read(ranges)

    backend.port.read = counted
    try:
        (x + 1).tolist()
        x.index_select(0, rl.tensor([1], device=gpu)).tolist()
        (x + 2).tolist()
    finally:
        del backend.port.read
    assert sizes == [1, 2, 1]


def test_an_async_read_raises_too(gpu: rl.Device) -> None:
    x = rl.zeros(4, device=gpu)

    async def read() -> None:
        out = x[rl.tensor([6], device=gpu)]
        with pytest.raises(IndexError, match="index: index 6 is out of range for size 4"):
            await out.tolist_async()
        assert await x.tolist_async() == [0, 0, 0, 0]

    asyncio.run(read())


def test_an_index_noted_during_an_async_read_is_not_forgotten(gpu: rl.Device) -> None:
    x = rl.zeros(4, device=gpu)

    async def read() -> None:
        x.index_select(0, rl.tensor([1], device=gpu))
        reading = gpu.backend.download_async(x.buffer, 0, 16, x.dtype)
        task = asyncio.ensure_future(reading)
        await asyncio.sleep(0)
        bad = x.index_select(0, rl.tensor([5], device=gpu))
        await task
        with pytest.raises(IndexError, match="index 5"):
            await bad.tolist_async()

    asyncio.run(read())


def test_assignment_by_a_wrong_index_writes_nothing(gpu: rl.Device) -> None:
    for dtype in (rl.float32, rl.float16, rl.uint8):
        x = rl.zeros(5, dtype=dtype, device=gpu)
        x[rl.tensor([1, 9, 3], device=gpu)] = rl.tensor([1, 2, 3], device=gpu).to(dtype)
        with pytest.raises(IndexError, match="index: index 9 is out of range for size 5"):
            x.cpu()
        assert x.tolist() == [0, 1, 0, 3, 0]


@pytest.mark.parametrize("offset", [3, -1])
def test_a_cache_that_is_full_says_so(gpu: rl.Device, offset: int) -> None:
    cache = rl.zeros(1, 2, 4, 2, device=gpu)
    cache_write_(cache, rl.ones(1, 2, 2, 2, device=gpu), rl.tensor([offset], device=gpu))
    text = f"cache_write_: new tokens at {offset} do not fit the capacity 4"
    with pytest.raises(IndexError, match=text):
        cache.cpu()
    assert_close(cache.cpu(), np.zeros((1, 2, 4, 2)))
