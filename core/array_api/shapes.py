"""Functions that move elements: shapes, joining, indexing."""

from __future__ import annotations

from typing import Any

from rushlight.core.array_api.common import F, dims, promoted
from rushlight.core.tensor.tensor import Tensor

__all__ = ["broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "matrix_transpose",
           "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "take",
           "take_along_axis", "tile", "unstack"]  # fmt: skip


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Views of one shape."""
    return list(F["broadcast_tensors"](*arrays))


def broadcast_to(x: Tensor, /, shape: Any) -> Tensor:
    """A view of x with dims of size 1 repeated."""
    return x.expand(tuple(shape))


def concat(arrays: Any, /, *, axis: int | None = 0) -> Tensor:
    """Tensors one behind the other along `axis`; flattened first where it is None."""
    parts = promoted(*arrays)
    flat = [p.reshape(-1) for p in parts] if axis is None else parts
    out: Tensor = F["concat"](flat, axis or 0)
    return out


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape along a new dim."""
    out: Tensor = F["stack"](promoted(*arrays), axis)
    return out


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along `axis`, as views."""
    return tuple(x.unbind(axis))


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """A view with a dim of size 1 at `axis`."""
    return x.unsqueeze(axis)


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """A view without these dims; ValueError where one is not of size 1."""
    for d in dims(axis, x.ndim):
        if x.shape[d] != 1:
            raise ValueError(f"squeeze: dim {d} of shape {x.shape} is not of size 1")
    return x.squeeze(dims(axis, x.ndim))


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """The elements in reverse order along these dims, or along all."""
    return x.flip(dims(axis, x.ndim))


def matrix_transpose(x: Tensor, /) -> Any:
    """A view with the last two dims exchanged."""
    return x.mT


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """A view with dims at other places."""
    return x.moveaxis(source, destination)


def permute_dims(x: Tensor, /, axes: Any) -> Tensor:
    """A view with the dims in this order."""
    return x.permute(tuple(axes))


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element several times, along `axis` or of the flattened tensor."""
    return x.repeat_interleave(repeats, axis)


def reshape(x: Tensor, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The elements in another shape. copy=False gives a view, or ValueError."""
    out = x.reshape(tuple(shape))
    if copy is False and out.storage is not x.storage:
        raise ValueError(f"reshape: {x.shape} with strides {x.stride()} is no view of {shape}")
    return out.clone() if copy and out.storage is x.storage else out


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """The elements moved on by `shift`; those that fall off come in at the other end."""
    if isinstance(axis, tuple) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return x.roll(shift, axis)


def tile(x: Tensor, repetitions: Any, /) -> Tensor:
    """The tensor several times along each dim."""
    return x.tile(tuple(repetitions))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices of x at a 1-D tensor of indices; `axis` may be left out of a 1-D tensor."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: shape {x.shape} has {x.ndim} dims; say which by axis=")
    return x.index_select(axis or 0, indices)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements at `indices` along `axis`; the other dims broadcast."""
    return x.take_along_dim(indices.long(), axis)
