"""Lowerings of the ops that copy, reduce, index and sort elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core.backends.cpu.lowering.elementwise import FLOATS, PLAIN, WHOLE, apart
from rushlight.core.backends.cpu.simd import Record, bits
from rushlight.core.basis import codec
from rushlight.core.basis.dtype import DTYPES
from rushlight.core.basis.graph import TensorView

Attrs = Mapping[str, Any]
Inputs = Sequence[Any]


def _stored(value: Any, dtype: Any) -> int | None:
    """A number in its dtype's stored form; None if it does not fit."""
    try:
        if dtype.encoded:
            stored = codec.encode(dtype, np.full(1, value, np.float32))
        else:
            stored = np.empty(1, dtype.numpy)
            with np.errstate(all="ignore"):
                stored[...] = value
    except (OverflowError, ValueError):
        return None
    return int.from_bytes(stored.tobytes().ljust(8, b"\0"), "little", signed=True)


def _full(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
    word = _stored(attrs["value"], out.dtype) if apart((), out) else None
    return None if word is None else Record("fill", (out,), (word,))


def _arange(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
    start, step = attrs["start"], attrs["step"]
    if out.dtype.kind == "b":  # 0.5 is true, although its integer part is zero
        return None
    if isinstance(start, int) and isinstance(step, int):
        if max(abs(start), abs(step)) >= 1 << 62:
            return None
        return Record("arange", (out,), (1, start, step))
    return Record("arange", (out,), (0, bits(start), bits(step)))


def _sliced(x: Any, ranges: Any) -> TensorView:
    layout = x.layout
    for d, bounds in enumerate(ranges):
        layout = layout.slice(d, *bounds)
    return TensorView(x.storage, layout, x.dtype)


def _alike(inputs: Inputs, out: Any) -> bool:
    same = out.dtype in PLAIN and all(x.dtype is out.dtype for x in inputs)
    return same and apart(inputs, out)


def _copy(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
    return Record("copy", (out, *inputs)) if _alike(inputs, out) else None


def _flip(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
    good = _alike(inputs, out) and inputs[0].storage is not out.storage
    return Record("flip", (out, *inputs), tuple(attrs["dims"])) if good else None


def _slice_backward(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
    if not _alike(inputs, out):
        return None
    return Record("place", (_sliced(out, attrs["ranges"]), inputs[0], out, None), (0,))


def _pad(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
    (x,), word = inputs, _stored(attrs["value"], out.dtype)
    if word is None or not _alike(inputs, out):
        return None
    pads = zip(x.layout.shape, attrs["pads"], strict=True)
    region = _sliced(out, [(a, a + n, 1) for n, (a, _) in pads])
    return Record("place", (region, x, out, None), (word,))


def _assign(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
    x, value = inputs
    region = _sliced(out, attrs["ranges"])
    seen = value.layout.reshape(region.layout.shape)
    if seen is None or not _alike(inputs, out):
        return None
    value = TensorView(value.storage, seen, value.dtype)
    if x.storage is out.storage:
        return Record("copy", (region, value))
    return Record("place", (region, value, out, x), (0,))


def _cat(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
    good = len(inputs) < 12 and _alike(inputs, out)
    return Record("cat", (out, *inputs), (attrs["dim"],)) if good else None


def _reducer(name: str) -> Any:
    def lower(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
        (x,), dims = inputs, attrs["dim"]
        single = isinstance(dims, int)
        dims = (dims,) if single else dims
        target = out.layout.reshape([1 if d in dims else n for d, n in enumerate(x.layout.shape)])
        kinds = {x.dtype} if single or name in ("any", "all") else {x.dtype, out.dtype}
        if target is None or not (kinds <= FLOATS or kinds <= WHOLE) or not apart(inputs, out):
            return None
        return Record(name, (TensorView(out.storage, target, out.dtype), x), dims if single else ())

    return lower


def _cumsum(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
    good = out.dtype is not DTYPES["float64"] and _alike(inputs, out)
    return Record("cumsum", (out, *inputs), (attrs["dim"],)) if good else None


def _by_index(name: str, adds: bool = False, *more: int) -> Any:
    def lower(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
        x, index, *source = inputs
        good = index.dtype in WHOLE and _alike((x, *source), out) and apart(inputs, out)
        if not good or (adds and out.dtype is not DTYPES["float32"]):
            return None
        return Record(name, (out, *inputs), (attrs["dim"], *more))

    return lower


def _sorted(inputs: Inputs, out: Any, attrs: Attrs) -> Record | None:
    x = inputs[0]
    if x.dtype not in FLOATS | WHOLE or not x.layout.shape or not apart(inputs, out):
        return None
    falling = attrs["largest"] if "largest" in attrs else attrs["descending"]
    return Record("argsort", (out, x), (attrs["dim"], int(falling)))


LOWERINGS: dict[str, Any] = {
    **{name: _reducer(name) for name in "sum amax amin any all argmax argmin".split()},
    "index_select": _by_index("index_select"),
    "gather": _by_index("gather"),
    "index_add": _by_index("index_add", True),
    "scatter": _by_index("scatter", False, 0),
    "scatter_add": _by_index("scatter", True, 1),
    "copy": _copy,
    "flip": _flip,
    "full": _full,
    "arange": _arange,
    "slice_backward": _slice_backward,
    "pad": _pad,
    "assign": _assign,
    "cat": _cat,
    "cumsum": _cumsum,
    "argsort": _sorted,
    "topk": _sorted,
}
