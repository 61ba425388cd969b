"""The exceptions of Rushlight, and the hints they carry."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Self


class RushlightError(Exception):
    """Base class of Rushlight's exceptions.

    `hint` says how to fix the error. It is a part of the message.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)
        self.hint = hint

    def during(self, ops: str) -> Self:
        """The same error with the names of the running ops in front."""
        if str(self).startswith(f"{ops}: "):
            return self
        found = type(self)(f"{ops}: {self}")
        found.hint = self.hint
        return found


class SizeError(RushlightError, ValueError):
    """A shape has more elements than a view, or an operand of a kernel, may have."""


class FormatError(RushlightError, ValueError):
    """A file from outside does not follow its format; names the file part and the value."""


class LoadError(RushlightError):
    """The names, shapes or dtypes of a checkpoint do not fit the model."""


class BlockingReadError(RushlightError, RuntimeError):
    """A blocking read in a place that cannot block: use the `_async` form."""


class CaptureError(RushlightError, RuntimeError):
    """A function under `jit` did something that a replay cannot repeat."""


class DeviceError(RushlightError, RuntimeError):
    """A device refused or failed; the message names the ops that were running."""


class DeviceLostError(DeviceError):
    """The device was lost (unplugged, reset, closed), and its tensors with it."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A device has no free memory, or an allocation would exceed its budget."""


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` of `names` that look most like `name`, best first."""
    return difflib.get_close_matches(name, list(names), n=count, cutoff=0.4)
