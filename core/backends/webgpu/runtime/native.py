"""The port over wgpu-py: Vulkan, Metal or Direct3D 12."""

from __future__ import annotations

import os
import re
import tempfile
from array import array
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from rushlight.core.backends.protocol import Bytes
from rushlight.core.backends.webgpu.runtime.native_commands import CommandLists, Encoding
from rushlight.core.backends.webgpu.runtime.native_reading import Reading, cut
from rushlight.core.backends.webgpu.runtime.native_shader import shader_module
from rushlight.core.backends.webgpu.runtime.native_timer import Timed
from rushlight.core.backends.webgpu.runtime.port import SLOT, SPREAD, Range, lost
from rushlight.core.basis.errors import DeviceError, DeviceMemoryError

R = TypeVar("R")

# Features that kernels have variants for, by WebGPU's names; wgpu-py calls some differently.
_FEATURES = {
    "shader-f16": "shader-f16",
    "subgroup": "subgroups",
    "subgroups": "subgroups",
    "timestamp-query": "timestamp-query",
}
_WRITTEN = 64 << 20  # the most bytes of unsubmitted writes


def _wgpu() -> Any:
    # Without a runtime folder Vulkan's loader complains on every start.
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    import wgpu

    return wgpu


def adapters() -> list[Any]:
    """wgpu-py's adapters, one per device of the machine, hardware first.

    Raises DeviceError with a hint if wgpu-py is missing.
    """
    try:
        wgpu = _wgpu()
    except ImportError as error:
        raise DeviceError(
            f"webgpu: wgpu-py is not installed ({error})", hint="pip install wgpu"
        ) from None
    seen, usable = set(), []
    rank = {"DiscreteGPU": 0, "IntegratedGPU": 1, "VirtualGPU": 2, "CPU": 4}
    backends = {"Vulkan": 0, "Metal": 0, "D3D12": 0}
    everything = sorted(
        wgpu.gpu.enumerate_adapters_sync(),
        key=lambda a: (
            rank.get(a.info["adapter_type"], 3),
            backends.get(a.info["backend_type"], 1),
        ),
    )
    for a in everything:
        # OpenGL lists Vulkan's adapters again, and its WebGPU is not complete.
        name = (a.info["vendor_id"], a.info["device_id"], a.info["device"])
        if a.info["backend_type"] in backends and name not in seen:
            seen.add(name)
            usable.append(a)
    return usable


def open_port(index: int = 0) -> NativePort:
    """The port of adapter `index`; DeviceError with a hint if there is none."""
    usable = adapters()
    if index >= len(usable):
        have = ", ".join(f"webgpu:{i} {a.info['device']}" for i, a in enumerate(usable))
        raise DeviceError(
            f"webgpu: adapter {index} is not available; available: {have or 'none'}",
            hint="install a Vulkan, Metal or Direct3D 12 driver; on Debian without a GPU "
            "`apt-get install mesa-vulkan-drivers` gives a software adapter",
        )
    return NativePort(usable[index])


def _camel(name: str) -> str:
    head, *rest = name.split("-")
    return head + "".join(w.capitalize() for w in rest)


class NativePort(Timed):
    """One wgpu-py device. See the protocol in port.py."""

    def __init__(self, adapter: Any) -> None:
        self._w = _wgpu()
        info = adapter.info
        self.info: Mapping[str, str] = {
            "vendor": info["vendor"],
            "device": info["device"],
            "description": info["description"],
            "backend": info["backend_type"],
            "type": info["adapter_type"],
        }
        wanted = [f for f in adapter.features if f in _FEATURES]
        limits = {k: v for k, v in adapter.limits.items() if v}
        self.device = self._guard(
            lambda: adapter.request_device_sync(required_features=wanted, required_limits=limits)
        )
        self.limits: Mapping[str, int] = {_camel(k): v for k, v in self.device.limits.items()}
        # naga knows it everywhere, and writes it out where a driver does not.
        language = {"packed-4x8-integer-dot-product"}
        self.features = frozenset(_FEATURES[f] for f in wanted) | language
        self._lost: str | None = None
        self._next = 0
        self._buffers: dict[int, Any] = {}
        self._groups: dict[int, Any] = {}
        self._pipelines: dict[int, Any] = {}
        self._layouts: dict[str, Any] = {}
        self._staging: Any = None
        self.spare: list[Any] = []  # small staging buffers of completed reads
        self._uniform_layout = self._layout("u")
        self._fence: Any = None
        self._written = 0
        self._encoding = Encoding(self.device)
        self._command_lists = CommandLists(
            self._encoding, self._uniform_layout, self._pipelines, self._groups
        )
        self._ops: dict[int, Sequence[str]] = {}
        self.created = {"buffers": 0, "bytes": 0, "groups": 0, "pipelines": 0}
        self.destroyed = {"buffers": 0, "bytes": 0, "groups": 0}

    @property
    def lost(self) -> str | None:
        """Why the device was lost, or None while it works."""
        return self._lost

    def _guard(self, call: Callable[[], R]) -> R:
        """Run `call` and convert wgpu-py's errors."""
        if getattr(self, "_lost", None):
            raise lost(str(self._lost))
        try:
            return call()
        except self._w.GPUError as error:
            text = " ".join(str(error).split())
            if "is lost" in text or "Device lost" in text:
                self._lost = text
                raise lost(text) from error
            memory = re.search(r"[Oo]ut of memory|[Nn]ot enough memory", text)
            if memory or isinstance(error, self._w.GPUOutOfMemoryError):
                raise DeviceMemoryError(f"webgpu: out of memory: {text}") from error
            raise DeviceError(f"webgpu: {error}") from error

    def _id(self) -> int:
        self._next += 1
        return self._next

    def _layout(self, access: str) -> Any:
        """The bind group layout of an access string; "u" is the parameters'."""
        if access not in self._layouts:
            stage = self._w.ShaderStage.COMPUTE
            kinds = {
                "r": {"type": "read-only-storage"},
                "w": {"type": "storage"},
                "u": {
                    "type": "uniform",
                    "has_dynamic_offset": True,
                    "min_binding_size": SPREAD * SLOT,
                },
            }
            entries = [
                {"binding": i, "visibility": stage, "buffer": kinds[c]}
                for i, c in enumerate(access)
            ]
            self._layouts[access] = self._guard(
                lambda: self.device.create_bind_group_layout(entries=entries)
            )
        return self._layouts[access]

    def buffer(self, nbytes: int) -> int:
        """A new storage buffer."""
        u = self._w.BufferUsage
        buffer = self._guard(
            lambda: self.device.create_buffer(
                size=nbytes, usage=u.STORAGE | u.COPY_DST | u.COPY_SRC
            )
        )
        handle = self._id()
        self._buffers[handle] = buffer
        self.created["buffers"] += 1
        self.created["bytes"] += nbytes
        return handle

    def free(self, buffer: int) -> None:
        """Destroy a buffer."""
        gone = self._buffers.pop(buffer)
        self.destroyed["buffers"] += 1
        self.destroyed["bytes"] += gone.size
        if self._lost is None:
            self._guard(gone.destroy)

    def write(self, buffer: int, offset: int, data: Bytes) -> None:
        """Write to a buffer before all work that is not yet submitted."""
        target = self._buffers[buffer]
        self._guard(lambda: self.device.queue.write_buffer(target, offset, data))
        self._written += data.size
        if self._written > _WRITTEN:  # until they are submitted and done, writes take memory twice
            self._guard(lambda: self.device.queue.submit([]))
            self.check()

    def read(self, ranges: Sequence[Range]) -> list[Bytes]:
        """Contents of some ranges; blocks."""
        total = sum(n for _, _, n in ranges)
        if total == 0:
            return [np.empty(0, np.uint8) for _ in ranges]
        return self._guard(lambda: self._read(ranges, total))

    def _read(self, ranges: Sequence[Range], total: int) -> list[Bytes]:
        u = self._w.BufferUsage
        if self._staging is None or self._staging.size < total:
            if self._staging is not None:
                self._staging.destroy()
            size = max(total, 1 << 16)
            self._staging = self.device.create_buffer(size=size, usage=u.MAP_READ | u.COPY_DST)
        staging = self._staging
        self._copy(ranges, staging)
        staging.map_sync(self._w.MapMode.READ, 0, total)
        try:
            data = np.frombuffer(staging.read_mapped(0, total), np.uint8)
        finally:
            staging.unmap()
        if staging.size > 64 << 20:  # large ones are not kept
            staging.destroy()
            self._staging = None
        return cut(data, ranges)

    def begin(self, ranges: Sequence[Range]) -> Reading:
        """Begin to read the present contents of ranges."""
        return Reading(self, ranges)

    def read_async(self, ranges: Sequence[Range]) -> Coroutine[Any, Any, list[Bytes]]:
        """`read` that lets an event loop run while the device works; without a loop it blocks."""
        return Reading(self, ranges).later()

    def _copy(self, ranges: Sequence[Range], staging: Any) -> None:
        """Submit the copies of some ranges, one after another, into a buffer that is mapped."""
        copy = self._encoding.checked.wgpuCommandEncoderCopyBufferToBuffer

        def fill(encoder: Any) -> None:
            landing = 0
            for handle, offset, nbytes in ranges:
                if nbytes:
                    source = self._buffers[handle]._internal
                    copy(encoder, source, offset, staging._internal, landing, nbytes)
                landing += nbytes

        self._encoding.submit(fill)

    def pipeline(self, source: str, access: str, label: str) -> int:
        """Compile WGSL."""
        # naga has the subgroup functions, but refuses the line that asks for them.
        source = source.replace("enable subgroups;\n", "")

        def make() -> Any:
            module = shader_module(self._encoding, label, source)
            layouts = [self._layout(access), self._uniform_layout]
            layout = self.device.create_pipeline_layout(bind_group_layouts=layouts)
            return self.device.create_compute_pipeline(
                label=label, layout=layout, compute={"module": module, "entry_point": "main"}
            )

        handle = self._id()
        self._pipelines[handle] = self._guard(make)
        self.created["pipelines"] += 1
        return handle

    def bind_group(self, access: str, ranges: Sequence[Range]) -> int:
        """The buffers of group 0."""
        entries = [
            {"binding": i, "resource": {"buffer": self._buffers[b], "offset": offset, "size": size}}
            for i, (b, offset, size) in enumerate(ranges)
        ]
        layout = self._layout(access)
        handle = self._id()
        self._groups[handle] = self._guard(
            lambda: self.device.create_bind_group(layout=layout, entries=entries)
        )
        self.created["groups"] += 1
        return handle

    def free_group(self, group: int) -> None:
        """Forget a bind group."""
        del self._groups[group]
        self.destroyed["groups"] += 1

    def submit(self, commands: array[int], uniforms: bytes, ops: Sequence[str] = ()) -> None:
        """Run a command list in one pass and one submit."""
        self._guard(lambda: self._command_lists.submit(commands, uniforms))
        self._written = 0
        if self.log is not None:
            self.log.append(ops)

    def retain(self, commands: array[int], uniforms: bytes, ops: Sequence[str]) -> int:
        """Keep a command list with its parameters."""
        handle = self._id()
        self._guard(lambda: self._command_lists.retain(handle, commands, uniforms))
        self._ops[handle] = ops
        return handle

    def replay(self, number: int) -> None:
        """Run a retained command list."""
        self._guard(lambda: self._command_lists.replay(number))
        self._written = 0
        if self.log is not None:
            self.log.append(self._ops[number])

    def patch(self, number: int, dispatch: int, group: int) -> None:
        """Replace the bind group of one dispatch of a retained command list."""
        self._command_lists.patch(number, dispatch, group)

    def patch_uniforms(self, number: int, offset: int, data: bytes) -> None:
        """Write parameters of a retained command list."""
        self._guard(lambda: self._command_lists.arena_of(number).write(offset, data))

    def release(self, number: int) -> None:
        """Forget a retained command list."""
        self._command_lists.release(number)
        del self._ops[number]

    def check(self) -> None:
        """Wait for all submitted work."""
        # Reading is waiting: wgpu-py 0.32 cannot wait for a queue (its callback type is wrong).
        if self._fence is None:
            u = self._w.BufferUsage
            self._fence = self._guard(
                lambda: self.device.create_buffer(size=4, usage=u.COPY_SRC | u.COPY_DST)
            )
            self._buffers[0] = self._fence
        self.read([(0, 0, 4)])
        self._written = 0

    def close(self) -> None:
        """Destroy the device."""
        if self._lost is None:
            self.device.destroy()
            self._lost = "it was closed"
