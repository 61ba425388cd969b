"""The port: the interface between the webgpu device and an implementation of WebGPU.

Buffers, pipelines and bind groups are small integers, so that the same calls cross into JavaScript.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol

from rushlight.core.backends.protocol import Bytes
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.errors import DeviceLostError

# (buffer, offset, nbytes): a range of a buffer, in bytes.
Range = tuple[int, int, int]

# Words per dispatch in a command list: pipeline, bind group, offset of the parameters, grid x, y
# and z.
STRIDE = 6
# Bytes of one slot of parameters: the largest offset alignment that WebGPU allows.
SLOT = 256
# Slots that a kernel sees from its offset on: a merged kernel has the parameters of several.
SPREAD = 4
# Dispatches of a retained command list that are submitted at once, about: they run while the next
# are encoded. Natively a submit takes as long as many dispatches; a tab encodes more slowly.
PART = 128 if sys.platform == "emscripten" else 256
# Dispatches whose timestamps are resolved at once.
TIMED = 512


def even(count: int) -> int:
    """The number of a retained list's `count` dispatches per submit, in even parts."""
    return -(-count // max(1, round(count / PART)))


class Port(Protocol):
    """One device of one adapter. Methods raise the DeviceError family and nothing else."""

    info: Mapping[str, str]  # vendor, device, description, backend
    limits: Mapping[str, int]  # the names of the WebGPU specification
    features: frozenset[str]
    log: list[Sequence[str]] | None  # the ops of what was submitted, while dispatches are timed

    @property
    def lost(self) -> str | None:
        """Why the device was lost, or None while it works."""

    def buffer(self, nbytes: int) -> int:
        """A new storage buffer; `nbytes` is a multiple of four."""

    def free(self, buffer: int) -> None:
        """Destroy a buffer that no command list still to be submitted uses."""

    def write(self, buffer: int, offset: int, data: Bytes) -> None:
        """Write to a buffer before all unsubmitted work; sizes are multiples of four."""

    def read(self, ranges: Sequence[Range]) -> list[Bytes]:
        """Contents of some ranges after all submitted work; blocks. Sizes: multiples of four."""

    def begin(self, ranges: Sequence[Range]) -> Readback[list[Bytes]]:
        """Begin to read some ranges: contents as they are when this is called."""

    def read_async(self, ranges: Sequence[Range]) -> Coroutine[Any, Any, list[Bytes]]:
        """`read` without blocking: contents as they are when this is called."""

    def pipeline(self, source: str, access: str, label: str) -> int:
        """Compile WGSL whose entry point is `main`.

        access: a letter per binding of group 0, "r" for read-only storage and "w" for read-write.
        Group 1 binding 0 is SPREAD uniform slots from the offset on that the command list gives.
        """

    def bind_group(self, access: str, ranges: Sequence[Range]) -> int:
        """The buffers of group 0 for pipelines of this access."""

    def free_group(self, group: int) -> None:
        """Forget a bind group that no command list still to be submitted uses."""

    def submit(self, commands: array[int], uniforms: bytes, ops: Sequence[str] = ()) -> None:
        """Run a command list: STRIDE words a dispatch, parameters in slots of SLOT bytes.

        ops: the op of each dispatch, for errors that a browser reports later.
        """

    def retain(self, commands: array[int], uniforms: bytes, ops: Sequence[str]) -> int:
        """Keep a command list with its parameters, to be replayed; its number."""

    def replay(self, number: int) -> None:
        """Run a retained command list, in submits of about PART dispatches."""

    def patch(self, number: int, dispatch: int, group: int) -> None:
        """Replace the bind group of one dispatch of a retained command list."""

    def patch_uniforms(self, number: int, offset: int, data: bytes) -> None:
        """Write parameters of a retained command list, before its next replay."""

    def release(self, number: int) -> None:
        """Forget a retained command list."""

    def time(self, on: bool) -> None:
        """Begin (with an empty `log`) or end to time dispatches; needs "timestamp-query"."""

    def times(self) -> tuple[list[Range], float]:
        """The ranges of the timestamps, in the order of `log`, and the nanoseconds of a tick.

        Two 64-bit numbers a dispatch: when it began and when it ended. For `read`; they go with
        the next `time`.
        """

    def check(self) -> None:
        """Wait for all submitted work and raise its errors."""

    def close(self) -> None:
        """Destroy the device; `lost` says so afterwards."""


def lost(why: str) -> DeviceLostError:
    """The error of a port whose device was lost."""
    return DeviceLostError(
        f"webgpu: the device was lost: {why}",
        hint="its tensors are gone; rl.device('webgpu').reset() opens a new one",
    )


def summary(ops: Sequence[str]) -> str:
    """The distinct names of some ops in order, shortened when there are many."""
    names = list(dict.fromkeys(ops))
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more
