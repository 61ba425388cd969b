"""Changes of shape: dims joined, split, exchanged, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import broadcast_shapes, infer_shape, normalize_dim
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.movement import expand, reshape, transpose

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims start_dim to end_dim, both included, joined into one."""
    a, b = (normalize_dim("flatten", d, x.shape) for d in (start_dim, end_dim))
    if a > b:
        raise ValueError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    return reshape(x, *x.shape[:a], -1 if x.numel() else _product(x.shape[a : b + 1]),
                   *x.shape[b + 1 :])  # fmt: skip


@public
@method()
def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dim split into dims of `sizes`; one size may be -1."""
    d = normalize_dim("unflatten", dim, x.shape)
    return reshape(x, *x.shape[:d], *infer_shape("unflatten", x.shape[d], sizes), *x.shape[d + 1 :])


def _product(shape: Sequence[int]) -> int:
    result = 1
    for n in shape:
        result *= n
    return result


@public
@method()
def t(x: Tensor) -> Tensor:
    """A view of a matrix with its two dims exchanged; 0-d and 1-d tensors stay unchanged."""
    if x.ndim > 2:
        raise ShapeError(f"t: shape {x.shape} has more than two dims; use transpose or mT")
    return transpose(x, 0, 1) if x.ndim == 2 else x


@public
@method()
def broadcast_to(x: Tensor, *shape: Any) -> Tensor:
    """`expand` under NumPy's name."""
    return expand(x, *shape)


@public
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Views of the tensors expanded to one shape."""
    shape = broadcast_shapes("broadcast_tensors", *(x.shape for x in tensors))
    return tuple(expand(x, *shape) for x in tensors)
