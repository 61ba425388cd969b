"""Changes of shape: dims joined, split, exchanged, turned, broadcast, resized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import Layout, as_shape, infer_shape, normalize_dim
from rushlight.core.basis.layout import broadcast_shapes as _broadcast
from rushlight.core.jit import capture
from rushlight.core.ops.creation import empty, sizes
from rushlight.core.ops.declare import PUBLIC, method, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.movement import expand, flip, narrow, permute, reshape, transpose
from rushlight.core.ops.strided import as_strided
from rushlight.core.ops.unary import turned

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _list(dim: int | Sequence[int]) -> list[int]:
    return [dim] if isinstance(dim, int) else list(dim)


@public
@method()
def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """A view with dims moved from `source` to `destination`; the others keep their order.

    `x` keeps its memory. Raises IndexError for a dim that there is not, ShapeError for a dim that
    comes twice, or counts that differ.
    """
    old = [normalize_dim("movedim", d, x.shape) for d in _list(source)]
    new = [normalize_dim("movedim", d, x.shape) for d in _list(destination)]
    if len(old) != len(new) or len({*old}) != len(old) or len({*new}) != len(new):
        raise ShapeError(f"movedim: {source} cannot be moved to {destination}")
    rest = iter([d for d in range(x.ndim) if d not in old])
    placed = dict(zip(new, old, strict=True))
    return permute(x, *(placed[d] if d in placed else next(rest) for d in range(x.ndim)))


@public
@method()
def fliplr(x: Tensor) -> Tensor:
    """A copy with the elements of dim 1 in reverse."""
    if x.ndim < 2:
        raise ShapeError(f"fliplr: x is {x.shape}; it must have at least 2 dims")
    return flip(x, 1)


@public
@method()
def flipud(x: Tensor) -> Tensor:
    """A copy with the elements of dim 0 in reverse."""
    if x.ndim < 1:
        raise ShapeError("flipud: x is 0-d; it must have at least 1 dim")
    return flip(x, 0)


@public
@method()
def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned k times by 90 degrees from the first of `dims` to the second; a copy.

    `x` has two dims or more. Raises ShapeError for dims that are not two different ones, IndexError
    for one that there is not.
    """
    if len(dims) != 2 or x.ndim < 2:
        raise ShapeError(f"rot90: dims {tuple(dims)} must be two of the dims of {x.shape}")
    a, b = (normalize_dim("rot90", d, x.shape) for d in dims)
    if a == b:
        raise ShapeError(f"rot90: dims {tuple(dims)} must differ")
    k %= 4
    if k == 0:
        return x.clone()
    if k == 2:
        return flip(x, a, b)
    return flip(transpose(x, a, b), a) if k == 1 else transpose(flip(x, a), a, b).clone()


@public
@method()
def ravel(x: Tensor) -> Tensor:
    """All elements in one dim; a view where that is possible."""
    return x.reshape(x.numel())


@public
@method()
def adjoint(x: Tensor) -> Tensor:
    """The last two dims exchanged, and complex numbers conjugated."""
    return turned(transpose(x, -2, -1))


@method()
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """`view` with the shape of `other`."""
    return x.view(*other.shape)


@method()
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """`reshape` to the shape of `other`."""
    return x.reshape(*other.shape)


@method()
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """`expand` to the shape of `other`."""
    return expand(x, *other.shape)


@method()
def sum_to_size(x: Tensor, *size: Any) -> Tensor:
    """Sums over the dims that broadcasting `size` to x's shape would add or expand."""
    shape = sizes("sum_to_size", size)
    if x.shape == shape != ():
        return x
    if len(shape) > x.ndim:
        raise ShapeError(f"sum_to_size: {shape} has more dims than {x.shape}")
    more = x.ndim - len(shape)
    x = x.sum(list(range(more))) if more or not shape else x
    dims = [d for d, n in enumerate(shape) if n == 1 and x.shape[d] != 1]
    x = x.sum(dims, True) if dims else x
    if x.shape != shape:
        raise ShapeError(f"sum_to_size: {x.shape} does not broadcast from {shape}")
    return x


@public
def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which all shapes broadcast; ints are shapes of one dim."""
    return _broadcast(
        "broadcast_shapes", *((s,) if isinstance(s, int) else tuple(s) for s in shapes)
    )


@method()
def resize_(x: Tensor, *size: Any, memory_format: Any = None) -> Tensor:
    """Another shape in place, row-major; more elements than before are zeros.

    `x` is returned; `size`: ints, or one sequence; `memory_format` changes nothing. Raises
    RuntimeError for a tensor that requires grad.
    """
    shape = sizes("resize_", size)
    if x.requires_grad:
        raise RuntimeError("resize_: a tensor that requires grad cannot be resized")
    layout = Layout.contiguous(shape)
    room = x.storage.nbytes // x.dtype.itemsize
    if layout.numel <= room:
        capture.memory_replaced(x.storage)
        x.layout = layout
        return x
    out = empty(layout.numel, dtype=x.dtype, device=x.device)
    old = as_strided(x, (room,), (1,), 0)
    out[:room] = old
    return x.set_(out.reshape(*shape))


@method()
def resize_as_(x: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of another tensor.

    `x` is returned; `the_template` has the shape; `memory_format` changes nothing. Raises
    RuntimeError for a tensor that requires grad.
    """
    return resize_(x, the_template.shape)


PUBLIC["resize_as_"] = resize_as_


@public
@method()
def roll(x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """A copy with the elements moved by `shifts` along `dims`; the last wrap to the front.

    One shift for each dim; without `dims` the tensor is rolled as if it were flat.

    `x` may have any dtype. Raises IndexError for a dim that there is not, ShapeError for different
    counts.
    """
    if dims is None:
        return roll(x.reshape(-1), shifts, 0).reshape(*x.shape)
    moves, along = as_shape("roll", (shifts,)), as_shape("roll", (dims,))
    if len(moves) != len(along):
        raise ShapeError(f"roll: shifts {moves} and dims {along} differ in number")
    for shift, dim in zip(moves, along, strict=True):
        d = normalize_dim("roll", dim, x.shape)
        n = x.shape[d]
        k = shift % n if n else 0
        x = cat([narrow(x, d, n - k, k), narrow(x, d, 0, n - k)], d)
    return x


@public
@method()
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims start_dim to end_dim, both included, joined into one.

    `x` keeps its memory where it can. Raises IndexError for a dim that there is not, ValueError for
    dims in the wrong order.
    """
    a, b = (normalize_dim("flatten", d, x.shape) for d in (start_dim, end_dim))
    if a > b:
        raise ValueError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    return reshape(
        x, *x.shape[:a], -1 if x.numel() else _product(x.shape[a : b + 1]), *x.shape[b + 1 :]
    )


@public
@method()
def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dim split into dims of `sizes`; one size may be -1.

    `x` keeps its memory. Raises IndexError for a dim that there is not, ShapeError for sizes whose
    product is another.
    """
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
    shape = _broadcast("broadcast_tensors", *(x.shape for x in tensors))
    return tuple(expand(x, *shape) for x in tensors)
