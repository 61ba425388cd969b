"""Executables on webgpu: what they bind, what they hold, and what one replay costs the port."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import simd
from rushlight.core.backends.webgpu.runtime.port import PART, STRIDE, even
from rushlight.core.basis.errors import DeviceError, DeviceLostError
from rushlight.core.basis.graph import PASSES
from rushlight.core.tools.testing import block_draws


@pytest.fixture
def gpu() -> Iterator[rl.Device]:
    """The device, opened anew where a test closed it."""
    device = rl.device("webgpu")
    yield device
    device.set_memory_budget(None) if device.backend.port.lost is None else device.reset()  # type: ignore[attr-defined]


def data(*shape: int, seed: int = 0) -> rl.Tensor:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return rl.from_numpy(values).to("webgpu")


def executable_of(captured: Any) -> Any:
    (entry,) = captured.executables.values()
    assert entry.why is None, entry.why
    return entry.body.executable


def long(x: rl.Tensor) -> rl.Tensor:
    """More dispatches than go into one submit."""
    for _ in range(PART // 2 + 5):
        x = (x + 1).cumsum(0) * 0.5
    return x


@pytest.mark.parametrize("passes", [(), PASSES])
def test_whole_quads_are_bound(
    gpu: rl.Device, passes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVIDIA's driver reads a quad that is only partly bound as zeros."""
    port: Any = gpu.backend.port  # type: ignore[attr-defined]
    bind, bound = port.bind_group, []

    def seen(access: str, ranges: Any) -> int:
        bound.extend(ranges)
        made: int = bind(access, ranges)
        return made

    w, v = data(7, 5), data(5, 3, seed=1)
    captured: Any = rl.jit(lambda x: ((x @ w).tanh() @ v).sum(1), passes=passes)
    monkeypatch.setattr(port, "bind_group", seen)
    for seed in range(3):
        x = data(3, 7, seed=seed)
        np.testing.assert_allclose(
            captured(x).numpy(), ((x @ w).tanh() @ v).sum(1).numpy(), rtol=1e-5, atol=1e-6
        )
    assert len(bound) > 6 and not [n for _, _, n in bound if n % 16]


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "bool", "int64"])
def test_arguments_may_begin_anywhere(gpu: rl.Device, dtype: str) -> None:
    values = rl.from_numpy((np.arange(900) * 7 % 5).astype(np.uint8)).to(gpu).to(dtype)
    captured: Any = rl.jit(lambda x: (x[1:].float().sum(), x.clone()))
    runs = 0
    for start in (0, 1, 2, 3, 4, 64, 128, 255, 256, 512, 513):
        part = values[start : start + 130]
        total, copy = captured(part)
        assert total.item() == part[1:].float().sum().item()
        assert copy.tolist() == part.tolist()
        runs += 1
    assert len(captured.executables) <= 4  # by where in a word they begin
    assert sum(e.replays for e in captured.executables.values()) == runs - len(captured.executables)


@pytest.mark.parametrize("start", [0, 64, 3])
def test_writes_to_an_argument_reach_the_replay(gpu: rl.Device, start: int) -> None:
    captured: Any = rl.jit(lambda x: x.mul_(2))
    for i in range(3):
        base = data(200, seed=i)
        want = base.numpy().copy()
        want[start : start + 90] *= 2
        captured(base[start : start + 90])
        assert base.tolist() == want.tolist()
    assert executable_of(captured)


@pytest.mark.parametrize("dtype", [rl.q8_0, rl.q6_k], ids=str)
def test_blocks_as_arguments(gpu: rl.Device, dtype: rl.DType) -> None:
    columns = 2 * dtype.block

    def weight(seed: int) -> rl.Tensor:
        blocks = block_draws(seed, dtype, 16)
        return rl.Tensor.from_buffer(blocks.reshape(-1), dtype, (8, columns)).to(gpu)

    captured: Any = rl.jit(lambda w, x: rl.nn.functional.linear(x, w))
    for i in range(3):
        w, x = weight(i), data(2, columns, seed=i)
        assert captured(w, x).tolist() == rl.nn.functional.linear(x, w).tolist()
        half = w[4:]
        assert captured(half, x).tolist() == rl.nn.functional.linear(x, half).tolist()
    assert sorted(e.replays for e in captured.executables.values()) == [2, 2]


def test_a_replay_is_few_submits_of_one_flat_plan(gpu: rl.Device) -> None:
    captured: Any = rl.jit(long, passes=())
    x = data(16)
    want = captured(x).tolist()
    executable, recorder = executable_of(captured), gpu.backend.recorder  # type: ignore[attr-defined]
    assert len(executable.words) == STRIDE * len(executable.ops) and len(executable.ops) > PART
    captured(x)
    gpu.synchronize()
    port: Any = gpu.backend.port  # type: ignore[attr-defined]
    before, created = recorder.submits, dict(port.created)
    for _ in range(3):
        assert captured(x).tolist() == want
    assert recorder.submits == before + 3
    assert port.created == created  # no buffer, bind group or pipeline


def test_parts_of_a_plan_are_even() -> None:
    for count in range(1, 2000):
        size = even(count)
        parts = -(-count // size)
        assert (parts - 1) * size < count <= parts * size  # none is empty
        assert size * 2 < 3 * PART and (count < 1.5 * PART or size * 3 > 2 * PART)
        assert count - (parts - 1) * size > size - parts  # the last is hardly shorter


def test_every_part_sees_the_arguments(gpu: rl.Device) -> None:
    def f(x: rl.Tensor) -> rl.Tensor:
        y = x
        for _ in range(PART + 20):
            y = y.cumsum(0) * 0.1 + x
        return y

    captured: Any = rl.jit(f)
    for i in range(3):
        x = data(8, seed=i)
        np.testing.assert_allclose(captured(x).numpy(), f(x).numpy(), rtol=1e-5)
    assert len(executable_of(captured).ops) > PART


@pytest.mark.native
@pytest.mark.parametrize("library", [True, False])
def test_plans_are_encoded_with_and_without_the_library(
    gpu: rl.Device, monkeypatch: pytest.MonkeyPatch, library: bool
) -> None:
    lists: Any = gpu.backend.port._command_lists  # type: ignore[attr-defined]
    assert (lists.encode is not None) == (simd.library is not None)
    encoded: list[int] = []

    def encode(*given: int) -> None:
        encoded.append(given[-1])
        assert simd.library is not None
        simd.library.encode(*given)

    monkeypatch.setattr(lists, "encode", encode if library and simd.library else None)
    captured: Any = rl.jit(long, passes=())
    kept = [data(16, seed=i) for i in range(3)]  # each with memory of its own
    for x in [*kept, *kept]:
        assert captured(x).tolist() == long(x).tolist()
    replays, count = 5, len(executable_of(captured).ops)
    assert sum(encoded) == (replays * count if library and simd.library else 0)


def test_dropped_plans_leave_nothing(gpu: rl.Device) -> None:
    backend: Any = gpu.backend

    def held() -> dict[str, int]:
        gc.collect()
        gpu.synchronize()
        backend.pool.trim(0)
        backend.recorder.flush()
        port = backend.port
        return {kind: n - port.destroyed.get(kind, 0) for kind, n in port.created.items()}

    def use(f: Callable[[rl.Tensor], rl.Tensor]) -> None:
        captured: Any = rl.jit(f)
        for n in (30, 40, 50):
            captured(data(n)).tolist()

    use(long)
    before = held()
    for _ in range(3):
        use(long)
    assert held() == before


def test_debug_runs_op_by_op(gpu: rl.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: rl.Tensor) -> rl.Tensor:
        return (x @ x).softmax(-1) + rl.rand(4, 4, device="webgpu")

    captured: Any = rl.jit(f)
    port: Any = gpu.backend.port  # type: ignore[attr-defined]
    submit, submitted = port.submit, []
    rl.manual_seed(3)
    want = [captured(data(4, 4, seed=i)).tolist() for i in range(3)]

    def counting(commands: Any, uniforms: bytes, ops: Any = ()) -> None:
        submitted.append(list(ops))
        submit(commands, uniforms, ops)

    monkeypatch.setattr(port, "submit", counting)
    rl.manual_seed(3)
    with rl.debug():
        assert [captured(data(4, 4, seed=i)).tolist() for i in range(3)] == want
    assert submitted == [[op] for op in executable_of(captured).ops] * 3


def test_an_index_in_a_replay_is_named_at_the_next_read(gpu: rl.Device) -> None:
    table = data(4, 3)
    captured: Any = rl.jit(lambda i: rl.nn.functional.embedding(i, table).exp())
    good, bad = rl.tensor([1, 2], device=gpu), rl.tensor([1, 9], device=gpu)
    want = captured(good).tolist()
    for _ in range(2):
        out = captured(bad)
        with pytest.raises(IndexError, match="embedding: index 9 is out of range for size 4"):
            out.tolist()
        assert captured(good).tolist() == want


def test_an_overflow_in_a_replay_is_noticed(gpu: rl.Device) -> None:
    captured: Any = rl.jit(lambda x: x * x)
    assert captured(rl.tensor([3], device=gpu)).tolist() == [9]
    out = captured(rl.tensor([70_000], device=gpu))
    with pytest.raises(OverflowError, match="beyond the 32 bits"):
        out.tolist()
    assert captured(rl.tensor([4], device=gpu)).tolist() == [16]


def test_without_memory_for_a_command_list_ops_run_one_by_one(gpu: rl.Device) -> None:
    captured: Any = rl.jit(lambda x: (x @ x).tanh() @ x, passes=())
    x = data(200, 200)
    want = ((x @ x).tanh() @ x).tolist()
    gc.collect()
    gpu.synchronize()
    pool = gpu.backend.pool  # type: ignore[attr-defined]
    pool.collect()
    # For the run itself, which frees what it has used, but not for buffers to keep beside it.
    gpu.set_memory_budget(pool.used + 4 * 40_000 * 5 // 2)
    for _ in range(3):
        try:
            assert captured(x).tolist() == want
        finally:
            gc.collect()
    (entry,) = captured.executables.values()
    assert entry.why is not None and "memory budget" in entry.why


def test_a_closed_device_is_captured_anew(gpu: rl.Device) -> None:
    def f(x: rl.Tensor) -> rl.Tensor:
        return (x.cumsum(0) * 2).cumsum(0) + 1  # with intermediates

    captured: Any = rl.jit(f)
    captured(data(3))
    captured(data(3))
    old = data(3)
    gpu.reset()
    for i in range(3):
        x = data(3, seed=i)
        assert captured(x).tolist() == f(x).tolist()
    with pytest.raises(DeviceLostError):
        captured(old)


def test_a_lost_device_says_so_in_a_replay(gpu: rl.Device) -> None:
    captured: Any = rl.jit(lambda x: x * 2)
    x = data(3)
    captured(x)
    captured(x)
    gpu.backend.port.close()  # type: ignore[attr-defined]
    with pytest.raises(DeviceLostError):
        captured(x).tolist()


def test_an_error_of_the_port_names_the_ops(
    gpu: rl.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured: Any = rl.jit(lambda x: x.softmax(-1).cumsum(0))
    captured(data(3))

    def fail(number: int) -> None:
        raise DeviceError("webgpu: it broke")

    monkeypatch.setattr(gpu.backend.port, "replay", fail)  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match="softmax.*cumsum|softmax, "):
        captured(data(3))


@pytest.mark.native
def test_threads_replay_their_own(gpu: rl.Device) -> None:
    weights = [data(8, 8, seed=i) for i in range(3)]
    wrong: list[int] = []

    def work(i: int) -> None:
        captured: Any = rl.jit(lambda x: (x @ weights[i]).softmax(-1))
        x = data(4, 8, seed=i)
        want = (x @ weights[i]).softmax(-1).tolist()
        for _ in range(20):
            if captured(x).tolist() != want:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
