"""Command lists over wgpu-py: encoding dispatches, once or for replays.

Each call of wgpu-py makes an object and checks for errors, which takes longer than the call itself.
So encoding uses the C functions below wgpu-py; finishing the encoder reports errors of dispatches.
A retained list is encoded by one call of the library of C kernels, if it is available.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rushlight.core.backends.cpu import simd
from rushlight.core.backends.webgpu.runtime.native_timer import Timer
from rushlight.core.backends.webgpu.runtime.port import SLOT, SPREAD, STRIDE, even

_ROOM = 1 << 16
# Pipeline, bind group, offset of the parameters (None where they are as before), grid x, y, z.
Row = tuple[Any, Any, Any, int, int, int]


class _Part(NamedTuple):
    """Dispatches of one submit; words: the same as `rl_encode` takes them, if it is to."""

    rows: list[Row]
    words: array[int] | None = None


class Arena:
    """Parameters on the device, plus SPREAD slots, the number that a kernel sees."""

    def __init__(self, device: Any, layout: Any, nbytes: int) -> None:
        from wgpu import BufferUsage

        self.nbytes, self.queue = nbytes, device.queue
        self.buffer = device.create_buffer(
            size=nbytes + SPREAD * SLOT, usage=BufferUsage.UNIFORM | BufferUsage.COPY_DST
        )
        resource = {"buffer": self.buffer, "offset": 0, "size": SPREAD * SLOT}
        self.group = device.create_bind_group(
            layout=layout, entries=[{"binding": 0, "resource": resource}]
        )

    def write(self, offset: int, data: bytes) -> None:
        """Write before all work that is not yet submitted."""
        self.queue.write_buffer(self.buffer, offset, data)


class _Retained:
    def __init__(self, words: array[int], arena: Arena) -> None:
        self.words, self.arena = words, arena
        count = len(words) // STRIDE
        self.size = even(count)  # dispatches of a part
        self.parts: list[_Part | None] = [None] * -(-count // self.size)


class Encoding:
    """Command encoders of one device, each submitted as soon as it is filled."""

    def __init__(self, device: Any) -> None:
        from wgpu.backends.wgpu_native import _api
        from wgpu.backends.wgpu_native._ffi import ffi, lib

        self.device, self.null = device, ffi.NULL
        self.ffi: Any = ffi
        self.lib: Any = lib
        self.checked: Any = _api.libf  # the same functions; errors are raised

    def submit(self, fill: Callable[[Any], None]) -> None:
        """Submit the commands that `fill` gives to C's encoder. GPUError where one is wrong."""
        lib, checked = self.lib, self.checked
        encoder = lib.wgpuDeviceCreateCommandEncoder(self.device._internal, self.null)
        try:
            fill(encoder)
            commands = checked.wgpuCommandEncoderFinish(encoder, self.null)
        finally:
            lib.wgpuCommandEncoderRelease(encoder)
        buffers = self.ffi.new("WGPUCommandBuffer[1]", [commands])
        try:
            checked.wgpuQueueSubmit(self.device.queue._internal, 1, buffers)
        finally:
            lib.wgpuCommandBufferRelease(commands)


class CommandLists:
    """Encodes the command lists of one device. Pipelines and bind groups have numbers."""

    def __init__(
        self,
        encoding: Encoding,
        layout: Any,
        pipelines: Mapping[int, Any],
        groups: Mapping[int, Any],
    ) -> None:
        self.encoding, self.device, self.layout = encoding, encoding.device, layout
        self.pipelines, self.groups = pipelines, groups
        self._arena: Arena | None = None
        self._lists: dict[int, _Retained] = {}
        self._offsets: dict[int, Any] = {}
        ffi = encoding.ffi
        self._address: Callable[[Any], int] = lambda x: int(ffi.cast("intptr_t", x))
        names = ("SetPipeline", "SetBindGroup", "DispatchWorkgroups")
        called = [getattr(encoding.lib, f"wgpuComputePassEncoder{name}") for name in names]
        self._called = array("q", map(self._address, called))
        self.encode: Any = None if simd.library is None else simd.library.encode
        self.timer: Timer | None = None  # while a profile goes on

    def submit(self, commands: array[int], uniforms: bytes) -> None:
        """Run a command list once."""
        if self._arena is None or self._arena.nbytes < len(uniforms):
            size = max(_ROOM, 1 << (len(uniforms) - 1).bit_length())
            self._arena = Arena(self.device, self.layout, size)
        self._arena.write(0, uniforms)
        self._run(_Part(self._rows(commands)), self._arena)

    def retain(self, handle: int, commands: array[int], uniforms: bytes) -> None:
        """Keep a command list under a number."""
        arena = Arena(self.device, self.layout, max(len(uniforms), SLOT))
        arena.write(0, uniforms)
        self._lists[handle] = _Retained(array("I", commands), arena)

    def replay(self, handle: int) -> None:
        """Run a kept command list, part by part."""
        commands = self._lists[handle]
        size = STRIDE * commands.size
        for i, piece in enumerate(commands.parts):
            if piece is None:
                rows = self._rows(commands.words[i * size : (i + 1) * size])
                piece = commands.parts[i] = _Part(rows, self._words(rows) if self.encode else None)
            self._run(piece, commands.arena)

    def patch(self, handle: int, dispatch: int, group: int) -> None:
        """Give a dispatch of a kept command list another bind group."""
        commands = self._lists[handle]
        commands.words[dispatch * STRIDE + 1] = group
        commands.parts[dispatch // commands.size] = None

    def arena_of(self, handle: int) -> Arena:
        """The parameters of a kept command list."""
        return self._lists[handle].arena

    def release(self, handle: int) -> None:
        """Forget a kept command list."""
        del self._lists[handle]

    def _rows(self, commands: array[int]) -> list[Row]:
        rows: list[Row] = []
        last = (-1, -1, -1)
        for begin in range(0, len(commands), STRIDE):
            pipeline, group, slot, x, y, z = commands[begin : begin + STRIDE]
            first = self.pipelines[pipeline]._internal if pipeline != last[0] else None
            second = self.groups[group]._internal if group != last[1] else None
            third = self._offset(slot) if slot != last[2] else None
            rows.append((first, second, third, x, y, z))
            last = (pipeline, group, slot)
        return rows

    def _offset(self, slot: int) -> Any:
        """C's pointer to the offset of a slot."""
        if slot not in self._offsets:
            self._offsets[slot] = self.encoding.ffi.new("uint32_t[]", [slot])
        return self._offsets[slot]

    def _words(self, rows: Sequence[Row]) -> array[int]:
        words = array("q")
        for pipeline, group, offset, *counts in rows:
            words.append(0 if pipeline is None else self._address(pipeline))
            words.append(0 if group is None else self._address(group))
            words.append(-1 if offset is None else offset[0])
            words.extend(counts)
        return words

    def _run(self, piece: _Part, arena: Arena) -> None:
        """Encode in one pass, and submit."""
        parameters = arena.group._internal
        if self.timer is not None:
            self.timer.run(piece.rows, parameters)
            return
        lib, null = self.encoding.lib, self.encoding.null

        def fill(encoder: Any) -> None:
            run = lib.wgpuCommandEncoderBeginComputePass(encoder, null)
            if piece.words is None:
                self._fill(run, piece.rows, parameters)
            else:
                addresses = [self._called.buffer_info()[0], *map(self._address, (run, parameters))]
                self.encode(*addresses, piece.words.buffer_info()[0], len(piece.rows))
            lib.wgpuComputePassEncoderEnd(run)
            lib.wgpuComputePassEncoderRelease(run)

        self.encoding.submit(fill)

    def _fill(self, run: Any, rows: Sequence[Row], parameters: Any) -> None:
        lib, null = self.encoding.lib, self.encoding.null
        set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        set_group = lib.wgpuComputePassEncoderSetBindGroup
        dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
        for pipeline, group, offset, x, y, z in rows:
            if pipeline is not None:
                set_pipeline(run, pipeline)
            if group is not None:
                set_group(run, 0, group, 0, null)
            if offset is not None:
                set_group(run, 1, parameters, 1, offset)
            dispatch(run, x, y, z)
