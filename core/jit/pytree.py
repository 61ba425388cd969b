"""Nested arguments and results of captured functions: signatures, and mapping over tensors."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from rushlight.core.backends import Device
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.graph import Slot
from rushlight.core.basis.layout import Layout
from rushlight.core.nn.module import Module
from rushlight.core.tensor.autograd import Node
from rushlight.core.tensor.storage import Storage
from rushlight.core.tensor.tensor import Tensor

_WORD = 4  # bytes: no device has a larger `min_element_width`
_VALUES = (Device, DType, type(Ellipsis), range, type, FunctionType)


class OutputSpec:
    """How a replay makes one tensor of the result.

    The tensor is argument `index` (without a slot), a tensor from outside (`ref`), or a new tensor
    over the memory of argument `index` or of `slot`.
    """

    def __init__(self, like: Tensor, index: int, slot: Slot | None, ref: Any = None) -> None:
        self.index, self.slot, self.ref = index, slot, ref
        self.dtype, self.layout = like.dtype, like.layout
        self.flags = like.is_view, like.frozen_view
        self.ended: Node | None = None  # the node at which a backward would raise

    def over(self, storage: Storage, shift: int) -> Tensor:
        """The tensor over `storage`."""
        layout = self.layout
        if shift:
            layout = Layout(layout.shape, layout.strides, layout.offset + shift)
        out = Tensor(storage, self.dtype, layout)
        out.is_view, out.frozen_view = self.flags
        if self.ended is not None:
            out.node = Node(self.ended.op, self.ended.context, [], {})
            out.needs_grad = True
        return out


class Signature:
    """The key that all calls of one executable share, with the tensors and modules found."""

    __slots__ = ("key", "modules", "seen", "tensors")

    def __init__(self, *values: Any) -> None:
        self.key: list[Any] = []
        self.tensors: list[Tensor] = []
        self.modules: list[Module] = []
        self.seen: dict[int, int] = {}  # a storage's id -> its first tensor
        for value in values:
            sign(value, self)


def words(tensor: Tensor) -> int:
    """How many elements of a tensor lie in one word of its device; at least 1."""
    return max(1, tensor.storage.device.backend.min_element_width // tensor.dtype.itemsize)


def origin(tensor: Tensor) -> int:
    """The element where an argument's memory begins for operands: the first of a word."""
    first = tensor.layout.offset
    planes = tensor.dtype.kind == "q" and tensor.storage.weights_layout == "planes"
    return 0 if planes else first - first % words(tensor)


def sign(value: Any, into: Signature) -> None:
    """Add `value` to a signature. TypeError for an unsupported type."""
    key, kind = into.key, type(value)
    if isinstance(value, Tensor):
        layout, storage, dtype, tensors = value.layout, value.storage, value.dtype, into.tensors
        key += (layout.shape, layout.strides, dtype, value.requires_grad, storage.device)
        if dtype.itemsize != _WORD:
            if dtype.itemsize < _WORD:
                key.append(layout.offset % words(value))
            elif dtype.kind == "q" and storage.weights_layout == "planes":
                key += (layout.offset, storage.nbytes)  # planes begin by the whole size
        first = into.seen.setdefault(id(storage), len(tensors))
        if first < len(tensors):  # views of one storage keep their distance in every call
            key += (first, layout.offset - tensors[first].layout.offset)
        tensors.append(value)
    elif kind is float or isinstance(value, np.generic):
        key.append(repr(value))  # tells -0.0 from 0.0, and nan equals itself
        key.append(kind)
    elif value is None or kind in (int, bool, str, bytes, complex) or kind in _VALUES:
        key.append(value)
        key.append(kind)
    elif kind in (tuple, list) or hasattr(kind, "_fields"):
        key += (kind, len(value))
        for v in value:
            sign(v, into)
    elif kind is dict:
        key += (kind, tuple(value), tuple(map(type, value)))  # 1 equals True
        for v in value.values():
            sign(v, into)
    elif isinstance(value, Module):
        key += (kind, id(value))
        into.modules.append(value)
    else:
        raise TypeError(
            f"jit: a {kind.__name__} is not supported as argument or result; supported: tensors, "
            "numbers, strings, None, and dicts, lists and tuples of them"
        )


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` applied to each of its tensors (or output specs)."""
    if isinstance(value, (Tensor, OutputSpec)):
        return change(value)
    if isinstance(value, dict):
        return {k: mapped(v, change) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [mapped(v, change) for v in value]
        if hasattr(value, "_make"):
            return value._make(items)
        return items if isinstance(value, list) else tuple(items)
    return value
