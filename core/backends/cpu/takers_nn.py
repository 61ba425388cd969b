"""Takers of softmax, normalisation, rotary positions and attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.core.backends.cpu.simd import Record, bits
from rushlight.core.backends.cpu.takers_map import FLOATS, apart


def _floats(name: str, *attrs: Callable[[Mapping[str, Any]], int]) -> Any:
    def take(inputs: Sequence[Any], out: Any, given: Mapping[str, Any]) -> Record | None:
        if not all(x is None or x.dtype in FLOATS for x in inputs) or not apart(inputs, out):
            return None
        return Record(name, (out, *inputs), tuple(a(given) for a in attrs))

    return take


def _eps(attrs: Mapping[str, Any]) -> int:
    return bits(attrs["eps"])


def _dim(attrs: Mapping[str, Any]) -> int:
    return int(attrs["dim"])


TAKERS: dict[str, Any] = {
    "softmax": _floats("softmax", _dim),
    "log_softmax": _floats("log_softmax", _dim),
    "layer_norm": _floats("layer_norm", _eps),
    "rms_norm": _floats("rms_norm", _eps),
    "rope": _floats("rope", lambda attrs: int(attrs["interleaved"])),
}
