"""Calls of a graph like earlier ones: what was prepared, by the sizes of arguments as declared.

A call that is checked from the start costs as much as a small graph's run; one whose arguments have
the declared dtypes, and sizes that were checked before, needs none of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from rushlight.core.backends import HOST
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.layout import Layout
from rushlight.core.jit import capture
from rushlight.core.onnx.proto import ValueInfo
from rushlight.core.tensor.storage import Storage
from rushlight.core.tensor.tensor import Tensor, from_numpy

_MOST = 256


class Repeats:
    """What was prepared for calls whose arguments need no conversion, by `key`."""

    def __init__(self, inputs: list[ValueInfo]) -> None:
        self.inputs = [(info.name, _plain_dtypes(info)) for info in inputs]
        self.prepared: dict[Any, Any] = {}

    def key(
        self, device: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], static: Collection[str]
    ) -> Any:
        """What tells a call apart; None where an argument must be looked at more closely.

        static: the names of inputs whose values count.
        """
        if len(args) + len(kwargs) != len(self.inputs):
            return None
        parts: list[Any] = [device, len(static)]
        for place, (name, dtypes) in enumerate(self.inputs):
            value = args[place] if place < len(args) else kwargs.get(name)
            if dtypes is None:
                return None
            if isinstance(value, np.ndarray):
                if value.dtype is not dtypes[1]:
                    return None
                if name in static:
                    parts.append(value.tobytes())
            elif not isinstance(value, Tensor) or name in static:
                return None
            elif value.dtype is not dtypes[0] or value.storage.device is not device:
                return None
            parts.append(value.shape)
        return tuple(parts)

    def bound(
        self,
        device: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        names: Collection[str] | None,
    ) -> dict[str, Any]:
        """The inputs by name as tensors of a device: those of `names`, or all."""
        tensors: dict[str, Any] = {}
        for place, (name, dtypes) in enumerate(self.inputs):
            if names is not None and name not in names:
                continue
            value = args[place] if place < len(args) else kwargs[name]
            if not isinstance(value, Tensor):
                value = _tensor_of(np.asarray(value, order="C"), dtypes)
                value = value if device is HOST else value.to(device=device)
            tensors[name] = value
        return tensors

    def remember(self, key: Any, prepared: Any) -> None:
        """Keep what a call of this key was prepared to."""
        if len(self.prepared) >= _MOST:
            self.prepared.clear()
        self.prepared[key] = prepared


def _tensor_of(array: Any, dtypes: tuple[DType, Any] | None) -> Tensor:
    """A tensor on cpu over the memory of a contiguous array of its dtype, as `from_numpy` makes."""
    if capture.active or not array.size or dtypes is None:
        return from_numpy(array)
    storage = Storage(HOST, array.reshape(-1).view(np.uint8), array.nbytes)
    return Tensor(storage, dtypes[0], Layout.contiguous(array.shape))


def _plain_dtypes(info: ValueInfo) -> tuple[Any, Any] | None:
    """The dtypes of tensors and arrays that an input takes as they are; None where none are."""
    kind = info.type.kind if info.type is not None and info.type.form == "tensor" else None
    if kind is None or kind.carried is None or kind.carried is not kind.declared:
        return None
    return kind.carried, np.dtype(kind.carried.name)
