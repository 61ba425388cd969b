"""The port's contract, which both implementations keep: natively, and inside the tab.

The numbered rules are those of WebGPU that the device is built around.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.webgpu import open_backend
from rushlight.core.backends.webgpu.backend import WebGpuBackend
from rushlight.core.backends.webgpu.runtime.port import SLOT, Port
from rushlight.core.backends.webgpu.runtime.recorder import Kernel, Slice
from rushlight.core.basis.errors import DeviceError, DeviceLostError

HEAD = """
@group(1) @binding(0) var<uniform> parameters: array<vec4<u32>, 16>;
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> b: array<u32>;
"""
# b[i] = a[i + parameter 1] * parameter 0, one word per workgroup.
SCALE = (
    HEAD
    + """
@compute @workgroup_size(1) fn main(@builtin(workgroup_id) group: vec3<u32>) {
  let i = group.x + 4u * group.y + 8u * group.z;
  b[i] = a[i + parameters[0][1]] * parameters[0][0];
}
"""
)


@pytest.fixture
def port(gpu: rl.Device) -> Port:
    found: Port = gpu.backend.port  # type: ignore[attr-defined]
    return found


def words(*values: int) -> Any:
    return np.array(values, np.uint32).view(np.uint8)


def slots(*parameters: tuple[int, ...]) -> bytes:
    return b"".join(words(*p).tobytes().ljust(SLOT, b"\0") for p in parameters)


def filled(port: Port, *values: int) -> int:
    handle = port.buffer(4 * len(values))
    port.write(handle, 0, words(*values))
    return handle


def values(port: Port, handle: int, count: int) -> list[int]:
    [found] = port.read([(handle, 0, 4 * count)])
    numbers: list[int] = found.view(np.uint32).tolist()
    return numbers


def test_a_new_buffer_holds_zeros_and_what_is_written(port: Port) -> None:
    made = port.buffer(16)
    assert values(port, made, 4) == [0, 0, 0, 0]
    port.write(made, 4, words(5, 6))
    assert values(port, made, 4) == [0, 5, 6, 0]
    port.free(made)


def test_several_ranges_are_read_at_once(port: Port) -> None:
    one, two = filled(port, 1, 2, 3), filled(port, 4, 5)
    found = port.read([(one, 4, 8), (two, 0, 0), (two, 4, 4)])
    assert [part.view(np.uint32).tolist() for part in found] == [[2, 3], [], [5]]
    assert port.read([(one, 0, 0)])[0].size == 0
    assert port.read([]) == []


def test_a_large_buffer_is_read_as_it_was_written(port: Port) -> None:
    data = np.random.default_rng(0).integers(0, 256, 3 << 20, np.uint8)
    made = port.buffer(data.size)
    port.write(made, 0, data)
    assert np.array_equal(port.read([(made, 0, data.size)])[0], data)
    port.free(made)


def test_later_writes_do_not_change_a_finished_read(port: Port) -> None:
    made = filled(port, 1)
    first = port.read([(made, 0, 4)])[0]
    port.write(made, 0, words(2))
    assert values(port, made, 1) == [2] and first.view(np.uint32).tolist() == [1]


if sys.platform == "emscripten":
    # There are two ways to stop Python in the tab: a C function that waits for web/gpu/readings.js,
    # and run_sync, for a Pyodide that has no place for that.

    @pytest.fixture(params=["stopped", "run_sync"])
    def either(port: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
        assert port._stop is not None
        if request.param == "run_sync":
            monkeypatch.setattr(port, "_stop", None)
        return port

    def test_both_ways_of_waiting_read_the_same(either: Any) -> None:
        one, two = filled(either, *range(3000)), filled(either, 4, 5)
        assert values(either, one, 3000) == list(range(3000))
        assert values(either, one, 3) == [0, 1, 2]
        found = either.read([(one, 8, 8), (two, 4, 4), (two, 0, 0)])
        assert [part.view(np.uint32).tolist() for part in found] == [[2, 3], [5], []]
        assert either.read([]) == []
        readback = either.begin([(two, 0, 8)])
        either.write(two, 0, words(6, 7))
        assert values(either, two, 2) == [6, 7]
        assert readback.wait()[0].view(np.uint32).tolist() == [4, 5]
        either.check()

    def test_both_ways_of_waiting_say_what_went_wrong(either: Any) -> None:
        made = filled(either, 1)
        row = [(made, 0, 4)]
        for ask in (lambda: either.read(row), lambda: either.begin(row).wait(), either.check):
            readback = either.begin(row)
            either.bind_group("w", [(made, 0, 1 << 20)])  # beyond its end
            with pytest.raises(DeviceError, match="webgpu: "):
                ask()
            assert readback.wait()[0].view(np.uint32).tolist() == [1], "told once"
        for wrong in (either.read, either.begin):
            with pytest.raises(DeviceError, match="webgpu: "):
                wrong([(10**9, 0, 4)])  # no such buffer
        assert values(either, made, 1) == [1]

    def test_calls_that_read_at_the_same_time_do_not_mix(either: Any) -> None:
        from pyodide.code import run_js  # type: ignore[import-not-found, unused-ignore]
        from pyodide.ffi import create_proxy, run_sync

        handles = [filled(either, i, i + 100) for i in range(6)]
        found: dict[int, list[int]] = {}
        order: list[int] = []

        def call(i: int) -> None:
            for _ in range(5):
                order.append(i)
                found[i] = values(either, handles[i], 2)
                assert found[i] == [i, i + 100]

        proxy = create_proxy(call)
        promising = run_js(
            "(call, n) => Promise.all([...Array(n).keys()].map((i) => call.callPromising(i)))"
        )
        run_sync(promising(proxy, len(handles)))
        proxy.destroy()
        assert found == {i: [i, i + 100] for i in range(6)}
        assert order[:6] == list(range(6)), "all had begun before one was done"

    def test_a_call_that_cannot_stop_says_so(port: Any) -> None:
        from pyodide.code import run_js
        from pyodide.ffi import create_proxy

        made = filled(port, 7)
        said: list[str] = []

        def call() -> None:
            with pytest.raises(rl.BlockingReadError) as caught:
                values(port, made, 1)
            said.append(str(caught.value))
            with pytest.raises(rl.BlockingReadError):
                port.begin([(made, 0, 4)]).wait()

        proxy = create_proxy(call)
        run_js("(call) => call()")(proxy)
        proxy.destroy()
        assert "numpy_async" in said[0]
        assert values(port, made, 1) == [7]


def test_an_asynchronous_read_sees_its_own_time(port: Port) -> None:
    made = filled(port, 1)
    pending = port.read_async([(made, 0, 4)])
    port.write(made, 0, words(2))
    [found] = _wait(pending)
    assert found.view(np.uint32).tolist() == [1]
    # One that nobody waits for to its end takes nothing with it.
    other = port.read_async([(made, 0, 4)])
    other.close()
    assert values(port, made, 1) == [2]


def _wait(coroutine: Any) -> Any:
    """Run a coroutine to its end, in the tab through the browser's own waiting."""
    try:
        from pyodide.ffi import run_sync  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        import asyncio

        return asyncio.run(coroutine)
    return run_sync(coroutine)


def test_a_plan_of_several_dispatches_runs_in_order(port: Port) -> None:
    kernel = port.pipeline(SCALE, "rw", "scale")
    x, y, z = filled(port, 1, 2, 3, 4), port.buffer(16), port.buffer(16)
    there = port.bind_group("rw", [(x, 0, 16), (y, 0, 16)])
    on = port.bind_group("rw", [(y, 0, 16), (z, 0, 16)])
    commands = array("I", [kernel, there, 0, 4, 1, 1, kernel, on, SLOT, 4, 1, 1])
    commands.extend([kernel, there, 2 * SLOT, 2, 1, 1])
    port.submit(commands, slots((10, 0), (7, 0), (3, 1)), ("mul", "mul", "mul"))
    assert values(port, z, 4) == [70, 140, 210, 280]
    assert values(port, y, 4) == [6, 9, 30, 40]
    for group in (there, on):
        port.free_group(group)


def test_a_grid_has_three_axes(port: Port) -> None:
    kernel = port.pipeline(SCALE, "rw", "scale")
    x, y = filled(port, *range(16)), port.buffer(64)
    group = port.bind_group("rw", [(x, 0, 64), (y, 0, 64)])
    port.submit(array("I", [kernel, group, 0, 4, 2, 2]), slots((2, 0)))
    assert values(port, y, 16) == [2 * i for i in range(16)]


def test_parameters_outgrow_the_arena(port: Port) -> None:
    kernel = port.pipeline(SCALE, "rw", "scale")
    x, count = filled(port, 1), 600
    commands, pieces = array("I"), []
    groups = []
    made = port.buffer(256 * count)
    for i in range(count):
        groups.append(port.bind_group("rw", [(x, 0, 4), (made, 256 * i, 4)]))
        commands.extend([kernel, groups[-1], SLOT * i, 1, 1, 1])
        pieces.append((i, 0))
    port.submit(commands, slots(*pieces))
    [found] = port.read([(made, 0, 256 * count)])
    assert found.view(np.uint32)[::64].tolist() == list(range(count))
    for group in groups:
        port.free_group(group)


def test_ten_thousand_dispatches_are_one_submit(port: Port) -> None:
    kernel = port.pipeline(SCALE, "rw", "scale")
    x, y = filled(port, 3), port.buffer(4)
    group = port.bind_group("rw", [(x, 0, 4), (y, 0, 4)])
    port.submit(array("I", [kernel, group, 0, 1, 1, 1] * 10_000), slots((5, 0)))
    assert values(port, y, 1) == [15]


def test_the_adapter_says_what_it_is_and_what_it_can(port: Port) -> None:
    assert port.info["device"] and port.info["backend"]
    # Rule 5: the adapter's own limits were asked for; never less than what WebGPU promises.
    assert port.limits["maxStorageBufferBindingSize"] >= 128 << 20
    assert port.limits["maxStorageBuffersPerShaderStage"] >= 8
    assert port.limits["maxComputeInvocationsPerWorkgroup"] >= 256
    known = {"shader-f16", "subgroups", "timestamp-query", "packed-4x8-integer-dot-product"}
    assert port.features <= known
    assert port.lost is None


def test_memory_that_grows_takes_no_buffer_away(port: Port) -> None:
    """Rule 6: in the tab the wasm heap moves when it grows; addresses are looked up anew."""
    kernel = port.pipeline(SCALE, "rw", "scale")
    x, y = filled(port, 1, 2), port.buffer(8)
    group = port.bind_group("rw", [(x, 0, 8), (y, 0, 8)])
    room = [np.ones(32 << 20, np.uint8) for _ in range(4)]
    pending = port.read_async([(x, 0, 8)])
    room += [np.ones(32 << 20, np.uint8) for _ in range(4)]
    port.submit(array("I", [kernel, group, 0, 2, 1, 1]), slots((4, 0)))
    assert values(port, y, 2) == [4, 8]
    assert _wait(pending)[0].view(np.uint32).tolist() == [1, 2]
    assert sum(int(part[-1]) for part in room) == 8


# --- the rules, as the recorder and the backend keep them ----------------------------------------


@pytest.fixture
def counted(backend: WebGpuBackend) -> Iterator[WebGpuBackend]:
    backend.recorder.flush()
    yield backend


def test_rule_1_no_dispatch_binds_a_buffer_for_reading_and_writing(
    counted: WebGpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, Any]] = []
    original = counted.port.bind_group

    def bind_group(access: str, ranges: Any) -> int:
        seen.append((access, tuple(ranges)))
        return original(access, ranges)

    monkeypatch.setattr(counted.port, "bind_group", bind_group)
    x = rl.arange(1000, dtype=rl.float32, device="webgpu")
    x.add_(1)
    x[1:] += 0.5
    x[::2] *= 2
    x[1:] = x[:-1].clone()
    x[1:] = x[:-1]  # overlapping halves of one buffer
    y = x[:500].add(x[500:])
    y.copy_(y.flip(0))
    assert y.numpy().shape == (500,)
    assert seen
    for access, ranges in seen:
        written = {r[0] for r, letter in zip(ranges, access, strict=True) if letter == "w"}
        others = [r[0] for r, letter in zip(ranges, access, strict=True) if letter == "r"]
        assert not written & set(others), (access, ranges)
        assert len(written) == access.count("w")


def test_rule_2_a_write_comes_after_what_waits(counted: WebGpuBackend) -> None:
    recorder, pool = counted.recorder, counted.pool
    x, y = pool.take(16), pool.take(16)
    recorder.write(x, words(1, 2, 3, 4))
    kernel = Kernel(SCALE, "rw", "scale")
    before = recorder.submits
    recorder.dispatch("mul", kernel, [Slice(x, 0, 16), Slice(y, 0, 16)], [10, 0], (4, 1, 1))
    assert recorder.submits == before  # it waits
    recorder.write(x, words(9, 9, 9, 9))  # WebGPU alone would do this before the dispatch
    assert recorder.submits == before + 1
    [found] = recorder.read([Slice(y, 0, 16)])
    assert found.view(np.uint32).tolist() == [10, 20, 30, 40]
    # A write to a buffer that nothing waits for submits nothing.
    recorder.dispatch("mul", kernel, [Slice(x, 0, 16), Slice(y, 0, 16)], [1, 0], (4, 1, 1))
    other, submits = pool.take(1 << 16), recorder.submits
    recorder.write(other, words(1))
    assert recorder.submits == submits


def test_rule_2_a_buffer_that_waits_is_not_given_out_for_a_write(counted: WebGpuBackend) -> None:
    recorder, pool = counted.recorder, counted.pool
    x, y = pool.take(16), pool.take(16)
    recorder.write(x, words(7, 7, 7, 7))
    kernel = Kernel(SCALE, "rw", "scale")
    recorder.dispatch("mul", kernel, [Slice(x, 0, 16), Slice(y, 0, 16)], [2, 0], (4, 1, 1))
    handle = x.handle
    del x
    taken = [pool.take(16, write=True) for _ in range(20)]
    assert handle not in {b.handle for b in taken}
    # Dispatches run in order: one that is recorded later may write to it.
    taken += [pool.take(16) for _ in range(20)]
    assert handle in {b.handle for b in taken}
    recorder.flush()
    del taken
    assert recorder.read([Slice(y, 0, 4)])[0].view(np.uint32).tolist() == [14]


@pytest.fixture
def bound(counted: WebGpuBackend, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The ranges of each bind group that is made."""
    seen: list[Any] = []
    original = counted.port.bind_group

    def bind_group(access: str, ranges: Any) -> int:
        seen.append(ranges)
        return original(access, ranges)

    monkeypatch.setattr(counted.port, "bind_group", bind_group)
    return seen


def test_rule_3_views_bind_at_aligned_offsets(bound: list[Any], small_bindings: Any) -> None:
    x = rl.arange(600_000, dtype=rl.float32, device="webgpu")  # more than one binding holds
    found = [(x[start : start + 5] + 1).numpy()[0] for start in (1, 63, 64, 65, 300_001, 599_995)]
    assert found == [2, 64, 65, 66, 300_002, 599_996]
    offsets = [offset for ranges in bound for _, offset, _ in ranges]
    assert any(offsets) and all(offset % 256 == 0 for offset in offsets)


def test_rule_4_a_kernel_binds_no_more_than_eight(bound: list[Any]) -> None:
    """What every kernel binds, test_compiles.py looks at; here an op of more operands."""
    parts = [rl.full((3,), float(i), device="webgpu") for i in range(20)]
    assert rl.cat(parts).numpy()[::3].tolist() == list(range(20))
    assert bound and max(map(len, bound)) <= 8


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.fixture
def own() -> Iterator[WebGpuBackend]:
    """A device of the test's own, which it may break."""
    made = open_backend(0)
    yield made
    made.close()


def read_word(backend: WebGpuBackend) -> None:
    backend.recorder.read([backend.status.slice()])


def test_a_kernel_that_does_not_compile_is_named_with_the_message(own: WebGpuBackend) -> None:
    x, y = own.pool.take(16), own.pool.take(16)
    bad = Kernel(HEAD + "@compute @workgroup_size(1) fn main() { b[0] = nothing; }", "rw", "broken")
    with pytest.raises(DeviceError, match=r"(?s)frobnicate: broken.*nothing"):
        own.recorder.dispatch("frobnicate", bad, [Slice(x, 0, 16), Slice(y, 0, 16)], [], (1, 1, 1))
        read_word(own)
    # The device goes on.
    own.recorder.commands, own.recorder.ops = array("I"), []
    read_word(own)


def test_an_invalid_batch_names_its_ops(own: WebGpuBackend) -> None:
    x, y = own.pool.take(1024), own.pool.take(1024)
    kernel = Kernel(SCALE, "rw", "scale")
    far = [Slice(x, 0, 1024), Slice(y, 512, 1024)]  # beyond the end of y
    with pytest.raises(DeviceError) as caught:
        own.recorder.dispatch("frobnicate", kernel, far, [1], (1, 1, 1))
        read_word(own)
    assert not isinstance(caught.value, DeviceLostError)


def test_a_closed_device_is_lost(own: WebGpuBackend) -> None:
    x = own.pool.take(16)
    own.recorder.write(x, words(1, 2, 3, 4))
    own.port.close()
    assert own.port.lost
    with pytest.raises(DeviceLostError, match=r"reset\(\) opens a new one"):
        own.recorder.read([Slice(x, 0, 16)])


def test_there_is_no_hundredth_adapter() -> None:
    with pytest.raises(DeviceError, match="adapter 99 is not available"):
        open_backend(99)
