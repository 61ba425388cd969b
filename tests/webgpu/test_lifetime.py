"""The webgpu device over time: memory that comes back, devices that are lost, errors that name."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core import nn
from rushlight.core.backends.webgpu import WebGpuBackend, open_backend
from rushlight.core.backends.webgpu.runtime.pool import size_class
from rushlight.core.backends.webgpu.runtime.recorder import Kernel, Slice
from rushlight.core.basis.errors import DeviceError, DeviceLostError, DeviceMemoryError
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.core.ops import common
from rushlight.core.tools.testing import assert_close, draws


@pytest.fixture
def gpu() -> Iterator[rl.Device]:
    """The device, opened anew where a test lost it."""
    device = rl.device("webgpu")
    yield device
    device.set_memory_budget(None) if _port(device).lost is None else device.reset()


def _backend(device: rl.Device) -> WebGpuBackend:
    backend = device.backend
    assert isinstance(backend, WebGpuBackend)
    return backend


def _port(device: rl.Device) -> Any:
    return _backend(device).port


def _held(device: rl.Device) -> dict[str, int]:
    """Buffers, their bytes, bind groups and pipelines at the port: created less destroyed."""
    device.constants.clear()  # of the numbers that ops were given: bounded
    device.scalars.clear()
    gc.collect()
    device.synchronize()
    backend = _backend(device)
    backend.pool.trim(0)
    backend.recorder.flush()
    port: Any = backend.port
    return {kind: n - port.destroyed.get(kind, 0) for kind, n in port.created.items()}


def test_a_reset_lets_go_of_the_device(gpu: rl.Device) -> None:
    """Constants that ops keep would hold the closed device, and its compiled shaders with it."""
    x = rl.ones(4, device=gpu)
    assert (x * 1.625).tolist() == [1.625] * 4 and gpu.constants
    kept = [weakref.ref(t.storage) for t in gpu.constants.values()]
    gpu.reset()
    gc.collect()
    assert not gpu.constants and not any(ref() for ref in kept)


def test_sizes_of_the_pool_waste_little() -> None:
    for n in (1, 4, 255, 256, 257, 1000, 4097, 10**6, 10**8 + 1):
        size = size_class(n)
        assert size >= n and size % 256 == 0
        assert size <= max(256 + n, n * 1.26)


def test_small_weights_share_buffers(gpu: rl.Device) -> None:
    """They are what they would be alone, also as arguments of captured calls; all come back."""
    pool = _backend(gpu).pool
    before = _held(gpu)
    weights = [rl.randn(40, 96).to(dtype) for dtype in (rl.q4_1, rl.q5_0, rl.q8_0) * 20]
    there = [w.to(gpu) for w in weights]
    parts = [w.storage.buffer for w in there]
    assert len({p.handle for p in parts}) < len(parts) == len({(p.handle, p.base) for p in parts})
    ends = sorted((p.handle, p.base, p.base + p.nbytes) for p in parts)
    assert all(a[0] != b[0] or a[2] <= b[1] for a, b in zip(ends, ends[1:], strict=False))
    x = rl.randn(3, 96)
    linear = rl.jit(nn.functional.linear)
    for w, t in zip(weights, there, strict=True):
        assert t.dequantize().tolist() == t.clone().dequantize().tolist()
        assert_close(t.dequantize(), w.dequantize())
        assert_close(linear(x.to(gpu), t), x.numpy() @ w.dequantize().numpy().T, "product")
    del parts, there, t, linear
    assert _held(gpu)["buffers"] == before["buffers"] and pool.shared() is None


def test_a_budget_that_the_weights_fit_is_enough(gpu: rl.Device) -> None:
    _held(gpu)
    w = rl.randn(64, 96).to(rl.q8_0)
    gpu.set_memory_budget(_backend(gpu).pool.used + 100_000)
    there = [w.to(gpu) for _ in range(8)]
    assert there[7].dequantize().tolist() == w.dequantize().tolist()
    with pytest.raises(DeviceMemoryError, match="exceed the memory budget"):
        there += [w.to(gpu) for _ in range(16)]


def test_ten_thousand_ops_leak_nothing(gpu: rl.Device) -> None:
    x = rl.ones(64, device=gpu)

    def work(count: int) -> None:
        y = x
        for i in range(count):
            y = (y + 1) * 0.5 if i % 3 else y[1:].clone().exp().log()
            if y.numel() < 8:
                y = x
        y.numpy()

    work(300)
    before = _held(gpu)
    work(10_000)
    assert _held(gpu) == before


def test_two_hundred_training_steps_leak_nothing(gpu: rl.Device) -> None:
    rl.manual_seed(0)
    x, y = rl.rand(6, 4, device=gpu), rl.tensor([0, 1, 2, 0, 1, 2], device=gpu)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).to(gpu)
    made = rl.optim.AdamW(model.parameters(), lr=0.01)

    def steps(count: int) -> float:
        for _ in range(count):
            made.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            made.step()
        return float(loss.item())

    first = steps(5)
    trained = _held(gpu)
    assert steps(200) < first
    after = _held(gpu)
    # Bind groups are kept as long as all their buffers live: how many are left varies.
    assert after.pop("groups") <= trained.pop("groups") + 10
    assert after == trained


def test_a_repeated_step_finds_its_bind_groups(gpu: rl.Device) -> None:
    x = rl.rand(6, 4, device=gpu)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).to(gpu)
    made = rl.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def steps(count: int) -> int:
        for _ in range(count):
            made.zero_grad()
            (model(x) * model(x)).mean().backward()
            made.step()
        gpu.synchronize()
        return int(_port(gpu).created["groups"])

    _held(gpu)  # other tests' memory does not come back meanwhile
    groups = steps(20)
    assert steps(20) == groups


@pytest.mark.parametrize("zero_first", [True, False])
def test_captured_training_steps_leak_nothing(gpu: rl.Device, zero_first: bool) -> None:
    """Gradients that a step drops are gone before it makes new ones, in the same buffers."""
    x = rl.rand(6, 4, device=gpu)
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)).to(gpu)
    made = rl.optim.AdamW(model.parameters(), lr=0.01)

    def train(x: rl.Tensor) -> rl.Tensor:
        if zero_first:
            made.zero_grad()
        loss = (model(x) * model(x)).mean()
        loss.backward()
        made.step()
        if not zero_first:
            made.zero_grad()
        detached: rl.Tensor = loss.detach()
        return detached

    step: Any = rl.jit(train)

    def steps(count: int) -> int:
        for _ in range(count):
            step(x)
        gpu.synchronize()
        return int(_port(gpu).created["groups"])

    steps(6)
    held = _held(gpu)
    again = steps(4)  # memory that lay about has been given back just now
    assert steps(40) == again
    now = _held(gpu)
    assert now.pop("groups") <= held.pop("groups") + 20
    assert now == held


DATA = Path(__file__).parents[1] / "models" / "data" / "llama_tiny.safetensors"


def test_two_hundred_loads_leak_nothing(gpu: rl.Device) -> None:
    config = json.loads(open_tables(DATA)[0][1].metadata["plain"])
    files = {"config.json": json.dumps(config).encode()}
    blocks = rl.Tensor.from_buffer(bytes(range(34)) * 64, "q8_0", (32, 64))

    def load() -> None:
        tensors = {
            name.removeprefix("plain/model."): t
            for name, t in rl.load(DATA).items()
            if name.startswith("plain/model.")
        }
        model = rl.models.assemble(files, tensors, device=gpu)
        with rl.no_grad():
            assert model(rl.tensor([[1, 2, 3]], device=gpu)).shape == (1, 3, 64)
        assert blocks.to(gpu)[3:5].raw_bytes() == blocks[3:5].raw_bytes()

    for _ in range(3):
        load()
    before = _held(gpu)
    for _ in range(200):
        load()
    assert _held(gpu) == before


def test_freed_memory_is_used_again(gpu: rl.Device) -> None:
    def step() -> None:
        (rl.ones(1000, device=gpu) + 1).numpy()

    step()
    created = _port(gpu).created["buffers"]
    for _ in range(50):
        step()
    assert _port(gpu).created["buffers"] <= created + 4


def test_the_pool_keeps_no_more_than_its_bound(gpu: rl.Device) -> None:
    pool = _backend(gpu).pool
    before, pool.bound = pool.bound, 1 << 20
    try:
        for n in range(1, 40):
            rl.ones(50_000 + 9000 * n, device=gpu).numpy()
        gpu.synchronize()
        assert pool.kept <= 1 << 20
    finally:
        pool.bound = before


def test_a_budget_refuses_before_the_device_is_asked(gpu: rl.Device) -> None:
    gc.collect()
    gpu.synchronize()
    _backend(gpu).pool.collect()
    used = _backend(gpu).pool.used
    created = _port(gpu).created["buffers"]
    gpu.set_memory_budget(used + 4096)
    with pytest.raises(DeviceMemoryError, match=r"exceed the memory budget of \d+"):
        rl.zeros(100_000, device=gpu)
    assert _port(gpu).created["buffers"] == created
    rl.zeros(16, device=gpu).numpy()
    gpu.set_memory_budget(None)
    assert rl.zeros(100_000, device=gpu)[-1].item() == 0
    with pytest.raises(ValueError, match="must not be negative"):
        gpu.set_memory_budget(-1)
    with pytest.raises(ValueError, match="cpu is not supported; supported: webgpu"):
        rl.device("cpu").set_memory_budget(1)


def test_no_memory_names_the_op(gpu: rl.Device) -> None:
    x = rl.ones(4096, dtype=rl.float16, device=gpu)
    gpu.synchronize()
    pool = _backend(gpu).pool
    pool.collect()
    gpu.set_memory_budget(pool.used + 4096)
    with pytest.raises(DeviceMemoryError, match=r"(?s)^exp: webgpu: .*hint: free tensors") as told:
        x.exp()
    assert told.value.hint is not None
    gpu.set_memory_budget(pool.used + 8192 + 512)  # the result fits, what it is made of does not
    with pytest.raises(DeviceMemoryError, match="^softmax: webgpu: "):
        x.reshape(1, 4096)[:, 1:].softmax(-1)
    gpu.set_memory_budget(None)
    assert x.exp().shape == (4096,)


# Runs where no more than some memory can be had; what it prints is the test's result.
STARVED = """
import resource
import rushlight as rl
from rushlight.core.basis.errors import DeviceMemoryError

gpu = rl.device("webgpu")
(rl.ones(4, device=gpu) + 1).tolist()
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30),) * 2)
SIZE, held = 200 << 20, []
try:
    while len(held) < 20:  # memory that nothing writes to
        held.append(gpu.backend.allocate(SIZE, rl.float32))
except DeviceMemoryError:
    pass
try:
    rl.zeros(SIZE // 4, device=gpu)
except DeviceMemoryError as error:
    print(len(held), error)
count = len(held)
del held[1:]
# What the pool kept goes to make room for another size, and the device goes on.
held.append(gpu.backend.allocate(SIZE * (count - 1) * 3 // 4, rl.float32))
print(held[1].nbytes > SIZE, (rl.ones(3, device=gpu) + 1).tolist())
"""


@pytest.mark.native
@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded by Linux's means")
def test_an_allocation_that_fails_is_told_and_survived(gpu: rl.Device) -> None:
    if gpu.info["type"] != "CPU":
        pytest.xfail("a bound on the process bounds no GPU's memory")
    done = subprocess.run([sys.executable, "-c", STARVED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told, after = done.stdout.strip().rsplit("\n", 1)
    assert re.match(r"[1-5] full: webgpu: out of memory: ", told), told
    assert after == "True [2.0, 2.0, 2.0]"


def test_a_buffer_beyond_the_adapters_largest_is_refused(gpu: rl.Device) -> None:
    most = _port(gpu).limits["maxBufferSize"]
    with pytest.raises(DeviceMemoryError, match=f"exceeds the adapter's largest, {most}"):
        rl.zeros(most // 4 + 1000, device=gpu)
    assert isinstance(DeviceMemoryError("x"), MemoryError)


def test_a_lost_device_says_so_and_can_be_opened_again(gpu: rl.Device) -> None:
    x = rl.arange(8, device=gpu).to(rl.float32)
    y = x + 1
    getattr(_port(gpu), "js", _port(gpu)).device.destroy()  # amid a run: y is still pending
    with pytest.raises(DeviceLostError, match="was lost"):
        y.numpy()
    with pytest.raises(DeviceLostError, match="was lost"):
        (x * 2).numpy()
    assert _port(gpu).lost
    gpu.reset()
    z = rl.arange(8, device=gpu).to(rl.float32) + 1
    assert z.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(DeviceLostError, match="was closed or lost"):
        (x + z).numpy()
    with pytest.raises(DeviceLostError, match="was closed or lost"):
        x.tolist()


def test_a_device_that_is_lost_while_a_read_waits(gpu: rl.Device) -> None:
    x = rl.ones(8, device=gpu)

    async def read() -> None:
        waiting = asyncio.ensure_future((x + 1).numpy_async())
        await asyncio.sleep(0)
        getattr(_port(gpu), "js", _port(gpu)).device.destroy()
        try:
            found = await waiting  # it may have been done by then
        except DeviceLostError:
            pass
        else:
            assert found.tolist() == [2] * 8
        with pytest.raises(DeviceLostError, match="was lost"):
            await (x * 3).numpy_async()

    asyncio.run(read())
    gpu.reset()
    assert (rl.ones(3, device=gpu) + 1).tolist() == [2, 2, 2]


if sys.platform == "emscripten":

    def test_a_device_that_is_lost_while_python_stands_still(gpu: rl.Device) -> None:
        from pyodide.code import run_js  # type: ignore[import-not-found, unused-ignore]

        x = rl.ones(8, device=gpu)
        assert (x + 1).tolist() == [2] * 8
        waiting = (x + 2).readback()
        run_js("(device) => { queueMicrotask(() => device.destroy()); }")(_port(gpu).js.device)
        for read in ((x * 3).numpy, waiting.wait):
            with pytest.raises(DeviceLostError, match="was lost"):
                read()
        gpu.reset()
        assert (rl.ones(3, device=gpu) + 1).tolist() == [2, 2, 2]


def test_a_closed_device_starts_anew(gpu: rl.Device) -> None:
    x = rl.ones(3, device=gpu)
    gpu.reset()
    assert (rl.ones(3, device=gpu) + 1).tolist() == [2, 2, 2]
    with pytest.raises(DeviceLostError):
        x.tolist()


BAD = "@compute @workgroup_size(1) fn main() { let x: f32 = 1u; }"


def test_a_validation_error_names_the_op(gpu: rl.Device) -> None:
    backend = _backend(gpu)
    for _ in range(2):  # a browser tells at the next read, and each time
        with pytest.raises(DeviceError, match=r"(?s)bad_op.*u32"):
            backend.recorder.dispatch("bad_op", Kernel(BAD, "", "bad"), [], [], (1, 1, 1))
            gpu.synchronize()
    assert (rl.ones(2, device=gpu) + 1).tolist() == [2, 2], "the device goes on"


# The shader asks for more bytes than a small binding has, which WebGPU tells at the submit.
LARGE = """
@group(0) @binding(0) var<storage, read_write> a: array<u32, 64>;
@compute @workgroup_size(1) fn main() { a[0] = 1u; }
"""


def test_debug_names_exactly_one_op() -> None:
    backend = open_backend(0)  # the test's own
    buffer = backend.pool.take(256)
    kernel = Kernel(LARGE, "w", "large")

    def three() -> None:
        for op, nbytes in (("first", 256), ("second", 16), ("third", 256)):
            backend.recorder.dispatch(op, kernel, [Slice(buffer, 0, nbytes)], [], (1, 1, 1))

    three()
    with pytest.raises(DeviceError, match="^first, second, third: webgpu: "):
        backend.synchronize()
    before = backend.recorder.submits
    with rl.debug(), pytest.raises(DeviceError, match="^second: webgpu: "):
        three()
    assert backend.recorder.submits == before + 2, "each op by itself"
    backend.recorder.dispatch("after", kernel, [Slice(buffer, 0, 256)], [], (1, 1, 1))
    [found] = backend.recorder.read([Slice(buffer, 0, 4)])
    assert found.view(np.uint32).tolist() == [1], "the device goes on"
    backend.close()


def test_debug_submits_each_op(gpu: rl.Device) -> None:
    backend = _backend(gpu)
    x = rl.ones(4, device=gpu)
    gpu.synchronize()
    before = backend.recorder.submits
    with rl.debug():
        (x + 1).exp()
        assert backend.recorder.submits - before >= 2
        assert not backend.recorder.ops
    (x + 1).exp()
    assert len(backend.recorder.ops) >= 2, "outside they wait for one batch"


def test_a_grid_over_two_axes(gpu: rl.Device) -> None:
    from rushlight.core.backends.webgpu.emit import grid

    assert grid(65535) == (65535, 1, 1)
    for count in (65536, 10**6, 65535 * 7 + 1):
        x, y, z = grid(count)
        assert max(x, y) <= 65535 and z == 1 and count <= x * y < count + y
    n = 65536 * 64 + 100  # more groups of 64 than one axis holds
    line = rl.arange(n, device=gpu)
    assert line[-1].item() == n - 1 and line[12345].item() == 12345


@pytest.mark.native
def test_two_threads_share_a_device(gpu: rl.Device) -> None:
    wrong: list[Any] = []

    def work(seed: int) -> None:
        try:
            for i in range(40):  # sizes of its own each time, so that memory changes hands
                n, m = 1 + (7 * i + seed) % 40, 1 + (11 * i + 3 * seed) % 40
                a, b = draws(seed, (n, m)).astype(np.float32), draws(i, (m, n)).astype(np.float32)
                x, rows = rl.tensor(a, device=gpu), np.arange(i, i + 5) % n
                product = x @ rl.tensor(b, device=gpu)
                product += 1
                taken, order = x[rl.tensor(rows, device=gpu)], x.argsort(0)
                assert_close(product[:, ::2].cpu(), (a.astype(float) @ b + 1)[:, ::2], "product")
                assert np.array_equal(taken.numpy(), a[rows])
                assert np.array_equal(order.numpy(), np.argsort(a, 0, kind="stable"))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_devices_are_listed(gpu: rl.Device) -> None:
    names = [str(d) for d in rl.devices()]
    assert names[0] == "cpu" and "webgpu" in names
    assert gpu is rl.device("webgpu:0")
    assert gpu.info["limits"]["maxBufferSize"] > 0 and gpu.info["device"]
    with pytest.raises(
        DeviceError, match="adapter 99 is not available; (available: webgpu:0|a tab has)"
    ):
        rl.ones(2, device="webgpu:99")
    with pytest.raises(ValueError, match="device 'webgpu:x' is not supported"):
        rl.device("webgpu:x")


def test_captured_functions_with_ever_new_numbers_leave_a_bounded_number_of_buffers(
    gpu: rl.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "_BUFFERS", 8)
    port = _port(gpu)
    x = rl.ones(4, device=gpu)

    def made(number: float) -> None:
        captured: Any = rl.jit(lambda x: (x * 2 + number).sin())
        for _ in range(3):
            found = captured(x)
        assert found[0].item() == pytest.approx(np.sin(2 + number), abs=1e-5)

    def held() -> int:
        gc.collect()
        gpu.synchronize()
        return int(port.created["buffers"] - port.destroyed.get("buffers", 0))

    for i in range(20):
        made(i / 64 + 0.001)
    before = held()
    for i in range(60):
        made(i / 64 + 2.001)
    assert held() <= before + 2 and len(gpu.scalars) <= 8
