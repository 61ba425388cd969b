"""The version: our own, and the version of torch whose names and numbers are kept.

`rl.__version__` is "2.14.0+rushlight.0.1.0". What is before the plus is the version of torch that
this library follows, so a program's `torch.__version__ >= "2.0"`, `.split(".")` and
`packaging.version.parse` hold. What is after it is our own version, a local label as PEP 440 means
it for packages that serve in place of an upstream one. `rl.version.rushlight` is it alone.
"""

from __future__ import annotations

import re
from typing import Any

VERSION = "0.1.0"
TORCH = "2.14.0"

rushlight = VERSION
cuda = hip = rocm = xpu = None  # no such library is used
debug = False
git_version = "Unknown"


class TorchVersion(str):
    """A version as text that compares by its numbers with texts and tuples of numbers.

    `__version__ > "2.9"`, `__version__ >= (2, 0)`; texts that hold no number compare as texts.
    It equals the text itself and our own version.
    """

    def _compared(self, other: Any, compare: str) -> bool:
        ours, theirs = _numbers(self), _numbers(other)
        if theirs is None or ours is None:
            result = getattr(str, compare)(self, other)
        else:
            width = max(len(ours), len(theirs))
            ours, theirs = (v + (0,) * (width - len(v)) for v in (ours, theirs))
            result = getattr(tuple, compare)(ours, theirs)
        return bool(result) if result is not NotImplemented else NotImplemented

    def __lt__(self, other: Any) -> bool:
        return self._compared(other, "__lt__")

    def __le__(self, other: Any) -> bool:
        return self._compared(other, "__le__")

    def __gt__(self, other: Any) -> bool:
        return self._compared(other, "__gt__")

    def __ge__(self, other: Any) -> bool:
        return self._compared(other, "__ge__")

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or other == VERSION

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _numbers(version: Any) -> tuple[int, ...] | None:
    """The numbers before a letter or a plus; None where there are none."""
    if isinstance(version, tuple | list):
        return tuple(int(n) for n in version)
    parts = re.match(r"\s*v?(\d+(?:\.\d+)*)", version) if isinstance(version, str) else None
    return parts and tuple(int(n) for n in parts.group(1).split("."))


__version__ = TorchVersion(f"{TORCH}+rushlight.{VERSION}")
