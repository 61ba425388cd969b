"""Reads that do not block: the same values on every device, and others run meanwhile.

And what must not read at all: training, so that it works where nothing may block.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn, optim

F = nn.functional


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


def test_values_are_those_of_when_they_were_asked_for(device: str) -> None:
    x = rl.tensor([[1.5, 2.0], [3.0, 0.0]], device=device)
    first, narrow, none = x.readback(), x.t()[1].bfloat16().readback(), rl.zeros(0, 3).readback()
    x.mul_(2)
    second = x.readback()
    x.readback()  # nobody waits for it

    async def read() -> None:
        assert (await second).tolist() == [[3, 4], [6, 0]]

    asyncio.run(read())
    assert first.wait().tolist() == [[1.5, 2], [3, 0]]
    assert narrow.wait().tolist() == [2, 0] and none.wait().shape == (0, 3)
    with pytest.raises(TypeError, match="q8_0 is quantized"):
        rl.Tensor.from_buffer(bytes(34), rl.q8_0, (1, 32)).to(device).readback()
    bad = x.index_select(0, rl.tensor([7], device=device)).readback() if device != "cpu" else None
    if bad is not None:
        with pytest.raises(IndexError, match="index 7 is out of range for size 2"):
            bad.wait()


def test_values_asked_for_in_a_loop_that_has_ended(device: str) -> None:
    async def ask() -> Any:
        y = rl.ones(256, 256, device=device)
        for _ in range(12):  # long enough that it is not there when the loop ends
            y = (y @ y) * (1 / 256)
        return [y[0, :2].readback()]  # in a list, as a tab awaits what a coroutine returns

    async def read(readback: Any) -> Any:
        return (await readback).tolist()

    assert asyncio.run(read(*asyncio.run(ask()))) == [1, 1]


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


@pytest.mark.parametrize("nbytes", [4, 4092, 4096, 4100])
def test_later_reads_do_not_change_earlier_results(device: str, nbytes: int) -> None:
    """Small reads share memory to land in, up to a size."""
    tensors = [rl.full((nbytes // 4,), float(i), device=device) + 1.0 for i in range(3)]
    found = [t.numpy() for t in tensors]
    for i, values in enumerate(found):
        assert (values == i + 1).all()


def test_waiting_for_a_device(device: str) -> None:
    x = rl.arange(8, device=device)
    far = rl.tensor([3, 9], device=device)
    if device == "cpu":
        asyncio.run(rl.device(device).synchronize_async())
        return
    x.to(rl.float32).index_select(0, far)
    with pytest.raises(IndexError, match="index_select: index 9 is out of range for size 8"):
        asyncio.run(rl.device(device).synchronize_async())
    asyncio.run(rl.device(device).synchronize_async())


def test_every_dtype_comes_to_cpu(device: str) -> None:
    rows = rl.linspace(-1, 1, 64).reshape(2, 32)
    blocks = rl.Tensor.from_buffer(bytes(range(68)), rl.q8_0, (2, 32))
    given = {
        "float": rows,
        "turned": rows.t(),
        "narrow": rows.bfloat16(),
        "blocks": blocks,
        "whole": rl.arange(5),
        "truth": rows > 0,
        "none": rl.zeros(0, 3),
    }
    there = {name: t.to(device) for name, t in given.items()}
    there["turned"] = given["float"].to(device).t().requires_grad_()

    async def read() -> dict[str, rl.Tensor]:
        return {name: await t.cpu_async() for name, t in there.items()}

    for name, t in asyncio.run(read()).items():
        assert (t.device.type, t.dtype, t.shape) == ("cpu", given[name].dtype, given[name].shape)
        assert t.raw_bytes() == given[name].raw_bytes() and not t.requires_grad


@pytest.fixture
def unread(device: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after which a blocking read fails, except on cpu, where none blocks."""

    def refused(*args: Any) -> Any:
        raise AssertionError("a blocking read")

    def forbid() -> None:
        if device != "cpu":
            monkeypatch.setattr(rl.device(device).backend, "download", refused)

    return forbid


class Mixed(nn.Module):
    """Some of every kind of layer."""

    def __init__(self) -> None:
        self.words = nn.Embedding(12, 8, padding_idx=0)
        self.conv = nn.Conv1d(8, 8, 3, padding=1)
        self.batch = nn.BatchNorm1d(8, momentum=None)
        self.mean = nn.BatchNorm1d(8)
        self.norm = nn.LayerNorm(8)
        self.root = nn.RMSNorm(8)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(8, 3)

    def forward(self, ids: rl.Tensor) -> rl.Tensor:
        x = self.words(ids)  # (batch, length, 8)
        x = self.mean(self.batch(self.conv(x.transpose(1, 2)))).transpose(1, 2)
        q = self.norm(x).reshape(*x.shape[:2], 2, 4).transpose(1, 2)
        x = x + rl.attention(q, q, q, causal=True).transpose(1, 2).flatten(2)
        out: rl.Tensor = self.head(self.drop(self.root(x)).mean(1))
        return out


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_training_reads_nothing(device: str, unread: Callable[[], None], kind: str) -> None:
    rl.manual_seed(4)
    model = Mixed().init_(device=device)
    if kind == "sgd":
        chosen: optim.Optimizer = optim.SGD(
            model.parameters(), 0.2, momentum=0.9, nesterov=True, weight_decay=1e-4
        )
    else:
        chosen = optim.AdamW(model.parameters(), 0.05)
    ids = rl.randint(0, 12, (24, 5), device=device)
    labels = ids.sum(1) % 3
    unread()
    losses = []
    for _ in range(30):
        loss = F.cross_entropy(model(ids), labels, label_smoothing=0.05)
        chosen.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        chosen.step()
        losses.append(loss.detach())

    async def read() -> tuple[list[float], int]:
        found = await rl.stack(losses).tolist_async()
        assert model.batch.num_batches_tracked is not None
        return found, await model.batch.num_batches_tracked.item_async()

    found, batches = asyncio.run(read())
    assert found[-1] < found[0] - 0.2 and batches == 30
