"""Devices: names, meta, transfers, gradients between devices, threads, memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import backend as cpu
from rushlight.core.tensor.op import REGISTRY
from rushlight.core.tensor.tensor import TRANSFER
from rushlight.core.tools.testing import assert_close, draws


def test_names() -> None:
    assert rl.device("cpu") is rl.device("cpu:0") is rl.device(rl.device("cpu"))
    assert str(rl.device("cpu")) == "cpu" and repr(rl.device("meta")) == "device(type='meta')"
    assert rl.device("cpu") in rl.devices() and rl.device("meta") not in rl.devices()
    for bad in ("cpu:1", "gpu", "cpu:x", "", "meta:-1"):
        with pytest.raises(
            ValueError, match=rf"device '{bad}' is not supported; supported: cpu, meta"
        ):
            rl.device(bad)


def test_every_op_runs_on_meta_as_on_cpu(op_samples: ModuleType, op_name: str) -> None:
    """The same shape, dtype and strides, and nothing allocated."""
    op, meta = REGISTRY[op_name], rl.device("meta")
    for sample in op_samples.SAMPLES[op_name].samples:
        here = [None if x is None else rl.tensor(x) for x in sample.inputs]
        there = [None if t is None else t.to("meta") for t in here]
        a = op(*here, device=rl.device("cpu"), **sample.attrs)
        b = op(*there, device=meta, **sample.attrs)
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride()), sample.label
        assert b.device is meta and b.buffer is None


def test_meta_is_as_large_as_you_like() -> None:
    x = rl.zeros(10**6, 10**6, 10**6, device="meta")
    y = (x @ rl.ones(10**6, 3, device="meta")).softmax(-1).sum((0, 1))
    assert y.shape == (3,) and y.device.type == "meta"
    assert repr(y) == "tensor(..., device='meta', size=(3,))"
    assert x.nbytes == 4 * 10**18
    for read in (y.tolist, y[0].item, y.numpy, lambda: y.to("cpu"), lambda: bool(y[0] > 1)):
        with pytest.raises(RuntimeError, match="a tensor on the meta device has no values"):
            read()


def test_meta_records_gradients() -> None:
    x = rl.ones(2, 3, device="meta", requires_grad=True)
    (x.exp() @ rl.ones(3, 4, device="meta")).sum().backward()
    assert x.grad is not None and x.grad.shape == (2, 3) and x.grad.device.type == "meta"


def test_devices_do_not_mix() -> None:
    with pytest.raises(ValueError, match=r"mul: input 1 of shape \(2,\) is on the meta device"):
        rl.ones(2) * rl.ones(2, device="meta")
    with pytest.raises(ValueError, match="on the meta device and has no values"):
        rl.ones(2)[rl.tensor([0], device="meta")]


def test_to(device: str) -> None:
    x = rl.tensor([1.5, 2.5], device=device)
    assert (
        x.to(device) is x
        and x.to(rl.float32) is x
        and x.to(x) is x
        and x.cpu().device.type == "cpu"
    )
    other = rl.zeros(1, dtype=rl.float16, device="meta")
    y = x.to(other)
    assert y.dtype is rl.float16 and y.device.type == "meta"
    z = x.to(device, rl.int64)
    assert z.dtype is rl.int64 and z.tolist() == [1, 2]
    assert x.to(dtype="float16", device=device).dtype is rl.float16
    with pytest.raises(TypeError, match="dtype 'float99' is not supported"):
        x.to("float99")


def test_a_transfer_passes_the_gradient(device: str) -> None:
    """The op `transfer` is recorded by hand; between one device and itself it does nothing."""
    x = rl.tensor(draws(1, (3,)), dtype=rl.float32, device=device, requires_grad=True)
    y = x.detach().clone()
    TRANSFER.record(y, (x,), {"source": rl.device(device)})
    (y * y).sum().backward()
    assert x.grad is not None and x.grad.device is rl.device(device)
    assert_close(x.grad, 2 * draws(1, (3,)))
    moved = x.to("meta")
    assert moved.requires_grad and moved.grad_fn is not None and moved.grad_fn.op is TRANSFER


def test_too_much_memory() -> None:
    with pytest.raises(MemoryError, match="cpu: no memory for a tensor of 4000000000000000000 byt"):
        rl.zeros(10**9, 10**9)
    with pytest.raises(MemoryError, match=r"cpu: no memory for a tensor of 4\d* bytes"):
        rl.zeros(10**12, 10**12)


def test_views_share_and_copies_do_not(device: str) -> None:
    x = rl.arange(6.0, device=device).reshape(2, 3)
    for view in (
        x.t(),
        x[0],
        x.view(6),
        x[:, None],
        x.expand(2, 2, 3),
        x.detach(),
        x.unfold(1, 2, 1),
    ):
        assert view.storage is x.storage
    for copied in (x.clone(), x.t().contiguous(), x.t().reshape(6), x + 0, x.half().float()):
        assert copied.storage is not x.storage
    assert x.contiguous() is x and x.reshape(2, 3) is x


def test_set(device: str) -> None:
    x, y = rl.zeros(2, device=device, requires_grad=True), rl.ones(3, 2, device=device)
    x.set_(y)
    assert x.shape == (3, 2) and x.storage is y.storage and x.requires_grad
    with pytest.raises(RuntimeError, match="set_: only a leaf can be set to other memory"):
        (x * 2).set_(y)


def _on_threads(work: Callable[[int], None], count: int = 4) -> None:
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []


@pytest.mark.native
def test_two_threads_compute_and_differentiate(device: str) -> None:
    results: dict[int, list[float]] = {}

    def work(i: int) -> None:
        x = rl.tensor(draws(i, (20, 20)), dtype=rl.float32, device=device, requires_grad=True)
        for _ in range(20):
            loss = (x @ x.t()).softmax(-1).exp().sum()
            loss.backward()
        assert x.grad is not None
        results[i] = x.grad.reshape(-1).tolist()

    _on_threads(work)
    alone = dict(results)
    for i in range(4):
        work(i)
    assert results == alone


@pytest.mark.native
def test_modes_and_random_numbers_on_threads(device: str) -> None:
    inside, ready = threading.Event(), threading.Event()

    def work(i: int) -> None:
        if i == 0:
            with rl.no_grad():
                inside.set()
                assert ready.wait(10)
                assert not rl.is_grad_enabled()
        else:
            assert inside.wait(10)
            assert rl.is_grad_enabled()
            ready.set()

    _on_threads(work, 2)
    rl.manual_seed(0)
    drawn: list[float] = []
    _on_threads(lambda i: drawn.extend(rl.rand(4000, device=device).tolist()))
    rl.manual_seed(0)
    assert sorted(drawn) == sorted(rl.rand(16000, device=device).tolist())


@pytest.mark.native
def test_a_function_under_no_grad_on_threads() -> None:
    @rl.no_grad()  # type: ignore[untyped-decorator]
    def inner(x: rl.Tensor) -> rl.Tensor:
        for _ in range(50):
            x = x + 1
        return x

    x = rl.ones(3, requires_grad=True)

    def work(i: int) -> None:
        for _ in range(20):
            assert not inner(x).requires_grad
            assert rl.is_grad_enabled()

    _on_threads(work)


def test_the_backend_contract() -> None:
    backend = cpu.CpuBackend()
    assert backend.supports("matmul") and backend.supports("exp") and backend.supports("cast")
    assert not backend.supports("no such op")
    data = np.arange(4, dtype=np.uint8)
    assert backend.upload(data, rl.uint8) is data
    assert backend.download(data, 1, 3, rl.uint8).tolist() == [1, 2]


def test_async_reads() -> None:
    async def read() -> Any:
        return await rl.tensor([1.0, 2.0]).numpy_async()

    steps = read()
    with pytest.raises(StopIteration) as stopped:
        steps.send(None)
    assert stopped.value.value.tolist() == [1, 2]
