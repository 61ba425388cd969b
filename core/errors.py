"""The exceptions of Rushlight, and the hints they carry."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RushlightError(Exception):
    """Base of the exceptions that are Rushlight's own.

    `hint` says what to do about it; it is part of the message.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)
        self.hint = hint


class FormatError(RushlightError, ValueError):
    """A file from outside does not follow its format; names the file part and the value."""


class LoadError(RushlightError):
    """The names, shapes or dtypes of a checkpoint do not fit the model."""


class BlockingReadError(RushlightError, RuntimeError):
    """A read that would have to block, in a place that cannot: use the `_async` twin."""


class CaptureError(RushlightError, RuntimeError):
    """A function given to `jit` did something that a captured plan cannot repeat."""


class DeviceError(RushlightError, RuntimeError):
    """A device refused or failed; names the ops that were running."""

    def during(self, ops: str) -> DeviceError:
        """The same error, saying first in which ops it happened."""
        if str(self).startswith(f"{ops}: "):
            return self
        found = type(self)(f"{ops}: {self}")
        found.hint = self.hint
        return found


class DeviceLostError(DeviceError):
    """The device is gone (unplugged, reset, closed): its tensors are, too."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A device has no memory left, or less than its budget allows for."""


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` of `names` that look most like `name`, best first."""
    return difflib.get_close_matches(name, list(names), n=count, cutoff=0.4)
