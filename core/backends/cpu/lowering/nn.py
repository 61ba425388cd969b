"""Lowerings of softmax, normalisation, rotary positions, attention, windows and resampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.core.backends.cpu.lowering.elementwise import FLOATS, WHOLE, apart
from rushlight.core.backends.cpu.simd import Record, bits
from rushlight.core.basis.dtype import float32, uint8
from rushlight.core.basis.philox import UNIFORM_BITS

# Keys and values: floats or packed rows.
_ROWS = FLOATS | {uint8}


def _floats(name: str, *attrs: Callable[[Mapping[str, Any]], int]) -> Any:
    def lower(inputs: Sequence[Any], out: Any, attributes: Mapping[str, Any]) -> Record | None:
        if not all(x is None or x.dtype in FLOATS for x in inputs) or not apart(inputs, out):
            return None
        return Record(name, (out, *inputs), tuple(a(attributes) for a in attrs))

    return lower


def _eps(attrs: Mapping[str, Any]) -> int:
    return bits(attrs["eps"])


def _dim(attrs: Mapping[str, Any]) -> int:
    return int(attrs["dim"])


def _attention(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    q, k, v, bias, _, *places, sinks = inputs
    good = all(x is None or x.dtype in FLOATS for x in (q, bias, sinks)) and all(
        x is None or x.dtype in WHOLE for x in places
    )
    good = good and k.dtype in _ROWS and v.dtype in _ROWS
    window, softcap = attrs["window"], attrs["softcap"]
    if not good or softcap == 0 or not apart(inputs, out):
        return None
    attributes = (
        bits(attrs["scale"]),
        int(attrs["causal"]),
        -1 if window is None else window,
        bits(softcap or 0.0),
    )
    return Record("attention", (out, *inputs), attributes)


def _cache_write(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    cache, values, offsets = inputs
    good = cache.storage is out.storage and values.dtype is out.dtype and offsets.dtype in WHOLE
    return Record("cache_write", (out, values, offsets)) if good and apart(inputs, out) else None


def _pack_rows(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    good = inputs[0].dtype in FLOATS and apart(inputs, out)
    return Record("pack_rows", (out, *inputs)) if good else None


def _recurrence(name: str, nth: int) -> Any:
    """The state is input `nth`; after it comes what the last state is written to, if given."""

    def lower(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
        state = inputs[nth] if len(inputs) > nth else None
        rows = [x for x in (*inputs[:nth], *inputs[nth + 1 :]) if x is not None]
        good = all(x is None or x.dtype is float32 for x in (*rows, state))
        good = good and all(x.layout.strides[-1] == 1 or x.layout.shape[-1] < 2 for x in rows)
        if not good or not apart(inputs, out):
            return None
        return Record(name, (out, *inputs), tuple(map(int, attrs.values())))

    return lower


def _windows(name: str) -> Any:
    def lower(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
        if inputs[0].dtype not in FLOATS or not apart(inputs, out):
            return None
        names = ("kernel", "stride", "padding", "dilation")
        return Record(name, (out, *inputs), tuple(n for k in names for n in attrs[k]))

    return lower


def _resample(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    x = inputs[0]
    good = x.dtype is float32 and x.layout.is_contiguous and apart(inputs[:3], out)
    return Record("resample", (out, *inputs[:3]), (_dim(attrs),)) if good else None


def _random(normal: bool) -> Any:
    def lower(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
        if out.dtype not in FLOATS:
            return None
        words = (attrs["seed"], attrs["offset"], UNIFORM_BITS.get(out.dtype.name, 24))
        signed = (n - 2**64 if n >= 2**63 else n for n in words)
        return Record("random", (out,), (int(normal), *signed))

    return lower


LOWERINGS: dict[str, Any] = {
    "rand": _random(False),
    "randn": _random(True),
    "softmax": _floats("softmax", _dim),
    "log_softmax": _floats("log_softmax", _dim),
    "layer_norm": _floats("layer_norm", _eps),
    "rms_norm": _floats("rms_norm", _eps),
    "attention": _attention,
    "cache_write": _cache_write,
    "pack_rows": _pack_rows,
    "selective_scan": _recurrence("selective_scan", 5),
    "delta_scan": _recurrence("delta_scan", 6),
    "window_argmax": _windows("window_argmax"),
    "window_max": _windows("window_max"),
    "resample": _resample,
    "rope": _floats("rope", lambda attrs: int(attrs["interleaved"])),
}
