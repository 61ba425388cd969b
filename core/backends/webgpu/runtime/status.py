"""Status words: kernels report an index or integer out of range in them.

On a GPU an access out of range reads zeros. Kernels that may make one write to the device's status
words. The next read returns them too and raises.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import numpy as np

from rushlight.core.backends.protocol import Bytes
from rushlight.core.backends.readback import Readback
from rushlight.core.backends.webgpu.runtime.pool import Pool
from rushlight.core.backends.webgpu.runtime.recorder import Recorder, Slice
from rushlight.core.basis.errors import RangeError

_BYTES = 16


class Status:
    """Words: 0 the code of the first event (0 for none), 1 the value, 2 the size."""

    def __init__(self, recorder: Recorder, pool: Pool) -> None:
        self.recorder = recorder
        self.buffer = pool.take(_BYTES)
        recorder.write(self.buffer, np.zeros(_BYTES, np.uint8))
        self.codes: list[tuple[str, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}
        # The number of dispatches that may write status words, and of those that a read covered.
        self.noting = self.checked = 0

    @property
    def armed(self) -> bool:
        """Whether the next read has to check the status words."""
        return self.noting > self.checked

    def code(self, op: str, kind: str) -> int:
        """The code that a kernel sets for `op`; kind: "index", "capacity", "overflow" or "refusal".

        Of a refusal `op` is the whole message.

        Arms the check of the next read.
        """
        key = (op, kind)
        if key not in self._numbers:
            self.codes.append(key)
            self._numbers[key] = len(self.codes)
        self.noting += 1
        return self._numbers[key]

    def slice(self) -> Slice:
        """The slice that a kernel binds."""
        return Slice(self.buffer, 0, self.buffer.nbytes)

    def read(self, wanted: Slice) -> Bytes:
        """The contents of a range; raises errors that kernels reported."""
        if not self.armed:
            return self.recorder.read([wanted])[0]
        data, words = self.recorder.read([wanted, Slice(self.buffer, 0, _BYTES)])
        self._raise(words, self.noting)
        return data

    def read_async(self, wanted: Slice) -> Coroutine[Any, Any, Bytes]:
        """`read` without blocking; pending work is submitted at once."""
        return self.begin(wanted).later()

    def begin(self, wanted: Slice) -> Readback[Bytes]:
        """Begin to read a range as it is now; pending work is submitted at once."""
        self.recorder.flush()
        armed, noting = self.armed, self.noting
        ranges = [wanted, Slice(self.buffer, 0, _BYTES)] if armed else [wanted]

        def finish(reads: list[Bytes]) -> Bytes:
            _keep = wanted  # keeps the buffer out of the pool until it is read
            if armed:
                self._raise(reads[1], noting)
            return reads[0]

        return self.recorder.port.begin(
            [(r.buffer.handle, r.offset, r.nbytes) for r in ranges]
        ).then(finish)

    def check(self) -> None:
        """Raise the error that a kernel reported, if one could have."""
        if self.armed:
            self._raise(self.recorder.read([Slice(self.buffer, 0, _BYTES)])[0], self.noting)

    def _raise(self, words: Bytes, noting: int) -> None:
        """Raise the error in the words, of the first `noting` dispatches, and clear them."""
        self.checked = max(self.checked, noting)
        code, value, size, _ = words.view(np.int32).tolist()
        if code == 0:
            return
        self.recorder.write(self.buffer, np.zeros(_BYTES, np.uint8))
        op, kind = self.codes[code - 1]
        if kind == "index":
            raise IndexError(f"{op}: index {value} is out of range for size {size}")
        if kind == "refusal":
            raise RangeError(op)
        if kind == "capacity":
            raise IndexError(f"{op}: new tokens at {value} do not fit the capacity {size}")
        raise OverflowError(
            f"{op}: an int64 result is beyond the 32 bits that webgpu holds it in; convert with "
            ".to(rl.int32) to wrap around, or compute on cpu"
        )
