"""Reads that do not block: the same values on every device, and others run meanwhile."""

from __future__ import annotations

import asyncio

import pytest

import rushlight as rl


def test_values(device: str) -> None:
    x = rl.tensor([[1.5, 2.0], [3.0, 0.0]], device=device)

    async def read() -> None:
        assert (await x.numpy_async()).tolist() == x.tolist()
        assert await x.t()[1].tolist_async() == [2, 0]
        assert await x.bfloat16()[0, 0].item_async() == 1.5
        assert await rl.zeros(0, 3, device=device).tolist_async() == []
        with pytest.raises(ValueError, match="item: shape"):
            await x.item_async()
        with pytest.raises(TypeError, match="numpy: NumPy has no bfloat16"):
            await x.bfloat16().numpy_async()
        with pytest.raises(RuntimeError, match="requires grad"):
            await x.clone().requires_grad_().numpy_async()

    asyncio.run(read())


def test_shapes_that_depend_on_data(device: str) -> None:
    x = rl.tensor([[1.5, 0.0], [0.0, 3.0]], device=device)
    mask = x > 0

    async def read() -> None:
        found = await rl.nonzero_async(x)
        assert found.device is rl.device(device) and found.tolist() == x.nonzero().tolist()
        assert (await x.nonzero_async()).dtype is rl.int64
        assert (await x.masked_select_async(mask)).tolist() == [1.5, 3]
        row = await rl.masked_select_async(x, rl.tensor([False, True], device=device))
        assert row.tolist() == [0, 3]
        assert (await rl.masked_select_async(x, mask & ~mask)).shape == (0,)
        with pytest.raises(TypeError, match="masked_select: mask is float32"):
            await x.masked_select_async(x)

    asyncio.run(read())


def test_others_run_meanwhile(device: str) -> None:
    x = rl.ones(64, 64, device=device)
    seen = []

    async def other() -> None:
        seen.append("other")

    async def read() -> None:
        waiting = asyncio.ensure_future(other())
        await (x * 2).numpy_async()
        seen.append("read")
        await waiting

    asyncio.run(read())
    if device != "cpu":  # there is nothing to wait for on cpu
        assert seen == ["other", "read"]


def test_several_reads_at_once(device: str) -> None:
    xs = [rl.full((5,), float(i), device=device) for i in range(6)]

    async def read() -> None:
        found = await asyncio.gather(*((x + 1).tolist_async() for x in xs))
        assert found == [[i + 1.0] * 5 for i in range(6)]

    asyncio.run(read())
