"""torch.serialization: reading never runs what a file holds, so every list of safe classes fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.core.io import load, save

__all__ = ["SourceChangeWarning", "add_safe_globals", "clear_safe_globals",
           "get_default_load_endianness", "get_safe_globals", "load", "register_package",
           "safe_globals", "save", "set_default_load_endianness", "skip_data"]  # fmt: skip

_safe: list[Any] = []


class SourceChangeWarning(Warning):
    """Never given: classes are not read from files."""


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Accepted: nothing of a file is run, and plain values are read whatever their classes."""
    _safe.extend(safe_globals)


def get_safe_globals() -> list[Any]:
    """What was added."""
    return list(_safe)


def clear_safe_globals() -> None:
    """Forget what was added."""
    _safe.clear()


@contextmanager
def safe_globals(safe_globals: list[Any]) -> Iterator[None]:
    """Accepted, as `add_safe_globals`."""
    before = list(_safe)
    _safe.extend(safe_globals)
    try:
        yield
    finally:
        _safe[:] = before


@contextmanager
def skip_data(materialize_fake_tensors: bool = False) -> Iterator[None]:
    """RuntimeError: files are always written whole."""
    raise RuntimeError("serialization.skip_data is not supported; files are written whole")
    yield


def get_default_load_endianness() -> None:
    """None: a file says which order its bytes have."""


def set_default_load_endianness(endianness: Any) -> None:
    """Accepted: a file says which order its bytes have."""


def register_package(priority: int, tagger: Any, deserializer: Any) -> None:
    """RuntimeError: the devices are those of rl.devices()."""
    raise RuntimeError("serialization.register_package is not supported; supported: map_location=")


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage itself: `load` puts tensors on the device that map_location names."""
    return storage


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """Empty: no class of a file is used."""
    return []
