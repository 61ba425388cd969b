"""Nested arguments and results of captured functions: their signature, and tensors exchanged."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from rushlight.core.autograd import Node
from rushlight.core.backends import Device
from rushlight.core.capture import Slot
from rushlight.core.dtype import DType
from rushlight.core.layout import Layout
from rushlight.core.nn.module import Module
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor

_VALUES = (Device, DType, type(Ellipsis), range, type, FunctionType)


class Leaf:
    """How a replay gives a tensor of the result.

    It is argument `index` (without a slot), a tensor from outside (`ref`), or lies in the memory
    of argument `index` or of `slot`.
    """

    def __init__(self, like: Tensor, index: int, slot: Slot | None, ref: Any = None) -> None:
        self.index, self.slot, self.ref = index, slot, ref
        self.dtype, self.layout = like.dtype, like.layout
        self.flags = like.is_view, like.frozen_view
        self.ended: Node | None = None  # where a backward through it would raise

    def over(self, storage: Storage, shift: int) -> Tensor:
        """The tensor over `storage`."""
        layout = self.layout
        if shift:
            layout = Layout(layout.shape, layout.strides, layout.offset + shift)
        out = Tensor(storage, self.dtype, layout)
        out.is_view, out.frozen_view = self.flags
        if self.ended is not None:
            out.node = Node(self.ended.op, self.ended.context, [], {})
            out.requires_grad = True
        return out


class Signature:
    """What calls with one plan have in common: `key`. Collects the tensors and modules, too."""

    __slots__ = ("key", "modules", "seen", "tensors")

    def __init__(self, *values: Any) -> None:
        self.key: list[Any] = []
        self.tensors: list[Tensor] = []
        self.modules: list[Module] = []
        self.seen: dict[int, int] = {}  # a storage's id -> its first tensor
        for value in values:
            sign(value, self)


def words(tensor: Tensor) -> int:
    """How many elements of a tensor of a webgpu device lie in one word; 1 on cpu."""
    narrow = tensor.device.type == "webgpu" and tensor.dtype.itemsize < 4
    return 4 // tensor.dtype.itemsize if narrow else 1


def origin(tensor: Tensor) -> int:
    """The element of an argument's memory that operands over it count from: a word begins there."""
    first = tensor.layout.offset
    planes = tensor.dtype.kind == "q" and tensor.storage.packing == "planes"
    return 0 if planes else first - first % words(tensor)


def sign(value: Any, into: Signature) -> None:
    """Add what `value` is to a signature. TypeError for what can be in none."""
    key, kind = into.key, type(value)
    if isinstance(value, Tensor):
        layout, storage, tensors = value.layout, value.storage, into.tensors
        key += (layout.shape, layout.strides, value.dtype, value.requires_grad, storage.device)
        if storage.device.type == "webgpu":
            if value.dtype.kind == "q":  # planes begin where they do by the size of the whole
                key += (layout.offset, storage.nbytes)
            elif value.dtype.itemsize < 4:
                key.append(layout.offset % words(value))
        first = into.seen.setdefault(id(storage), len(tensors))
        if first < len(tensors):  # views of one memory stand as far apart in every call
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
            f"jit: a {kind.__name__} is no argument or result of a captured function; it takes "
            "and gives tensors, numbers, strings, None, and dicts, lists and tuples of them"
        )


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with its tensors (or leaves) changed."""
    if isinstance(value, (Tensor, Leaf)):
        return change(value)
    if isinstance(value, dict):
        return {k: mapped(v, change) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        items = [mapped(v, change) for v in value]
        if hasattr(value, "_make"):
            return value._make(items)
        return items if isinstance(value, list) else tuple(items)
    return value
