"""What equal calls of an op share: checks, the result's dtype and layout, a backend's message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.layout import Layout

MEMOS = 256  # the most that an op keeps
# Types of attributes whose values mean the same where they are equal.
_PLAIN = frozenset({int, bool, str, tuple, type(None), DType})


class Memo:
    """The device and the result of an op on inputs of known dtypes and layouts.

    kept: what the device's backend keeps for such calls; None at first, False for nothing.
    """

    __slots__ = ("device", "dtype", "kept", "layout", "nbytes")

    def __init__(self, device: Any, dtype: DType, layout: Layout) -> None:
        self.device, self.dtype, self.layout = device, dtype, layout
        self.nbytes = dtype.nbytes(layout.numel)
        self.kept: Any = None


def recall(
    memos: dict[Any, Memo] | None,
    inputs: Sequence[Any],
    device: Any,
    attrs: Mapping[str, Any],
) -> Memo | None:
    """The memo of such a call, if there is one."""
    if memos is None:
        return None
    try:
        return memos.get(_key(inputs, device, attrs))
    except TypeError:  # an attribute is not hashable
        return None


def keep(
    memos: dict[Any, Memo] | None, memo: Memo, inputs: Sequence[Any], attrs: Mapping[str, Any]
) -> None:
    """Keep the memo of such a call, if its key tells which calls are equal."""
    if memos is None or (key := _key(inputs, memo.device, attrs)) is None:
        memo.kept = False
        return
    if len(memos) >= MEMOS:
        memos.clear()
    with suppress(TypeError):
        memos[key] = memo


def _key(inputs: Sequence[Any], device: Any, attrs: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Dtypes, layouts, attributes, device; None for attributes that differ though equal."""
    parts: list[Any] = []
    for x in inputs:
        if x is None:
            parts.append(None)
            continue
        place = x.storage.device
        if place is not device:
            if device is not None:
                return None  # an error
            device = place
        parts += (x.dtype, x.layout)
    if attrs:
        for item in attrs.items():
            kind = type(item[1])
            if kind in _PLAIN:
                parts.append(item)
            elif kind is float and item[1]:  # 0.0 and -0.0 are equal
                parts.append((*item, float))
            else:
                return None
    parts.append(device)
    return tuple(parts)
