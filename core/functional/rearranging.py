"""Dims moved, tensors joined and split along given dims, and picking by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import DType, int64
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.pieces import split, stack
from rushlight.core.functional.shapes import broadcast_tensors
from rushlight.core.ops.common import Scalar
from rushlight.core.ops.creation import arange, full, sizes
from rushlight.core.ops.declare import also, method, network, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.movement import flip, permute, reshape, transpose

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

also("swapaxes", "swapdims")(transpose)


@public
def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """`cat` under another name."""
    return cat(tensors, dim)


@public
def concatenate(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """`cat` under NumPy's name."""
    return cat(tensors, dim)


@also("moveaxis")
@public
@method()
def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """A view with the dims `source` at `destination`, the others in their order."""
    pairs = [[d] if isinstance(d, int) else list(d) for d in (source, destination)]
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError(f"movedim: source {source} and destination {destination} differ in length")
    found, places = ([normalize_dim("movedim", d, x.shape) for d in dims] for dims in pairs)
    order = [d for d in range(x.ndim) if d not in found]
    for place, d in sorted(zip(places, found, strict=True)):
        order.insert(place, d)
    return permute(x, *order)


@public
@method()
def ravel(x: Tensor) -> Tensor:
    """All elements as one dim."""
    return reshape(x, -1)


@method()
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """`view` with the shape of another tensor."""
    return x.view(*other.shape)


@method()
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """`reshape` with the shape of another tensor."""
    return reshape(x, *other.shape)


@method()
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """`expand` to the shape of another tensor."""
    return x.expand(*other.shape)


@method()
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """`x` with the dtype of another tensor."""
    return x.to(other.dtype)


@public
@method()
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """A view of one index of a dim, without that dim."""
    d = normalize_dim("select", dim, x.shape)
    if not -x.shape[d] <= index < x.shape[d]:
        raise IndexError(f"select: index {index} is out of range for dim {dim} of {x.shape}")
    return x.narrow(d, index % x.shape[d], 1).squeeze(d)


@public
@method()
def take(x: Tensor, index: Tensor) -> Tensor:
    """The elements of x, seen as one dim, at `index`; its shape."""
    return reshape(reshape(x, -1)[reshape(index, -1)], *index.shape)


@public
@method()
def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with shapes broadcast but for `dim`; without a dim, of x as one dim."""
    if dim is None:
        return reshape(x, -1).gather(0, reshape(indices, -1))
    d = normalize_dim("take_along_dim", dim, x.shape)
    shape = broadcast_tensors(x.narrow(d, 0, 1), indices.narrow(d, 0, 1))[0].shape
    wide, at = ([*shape[:d], t.shape[d], *shape[d + 1 :]] for t in (x, indices))
    return x.expand(*wide).gather(d, indices.expand(*at))


@public
@method()
def index_fill(x: Tensor, dim: int, index: Tensor, value: Scalar) -> Tensor:
    """A copy of x with one value at the indices of a dim."""
    d = normalize_dim("index_fill", dim, x.shape)
    places = arange(x.shape[d], device=x.device)
    hit = (places.unsqueeze(1) == (index.reshape(1, -1) % max(x.shape[d], 1))).any(1)
    return x.masked_fill(hit.reshape(-1, *[1] * (x.ndim - d - 1)), value)


@public
@method()
def diff(x: Tensor, n: int = 1, dim: int = -1) -> Tensor:
    """Differences of neighbours along `dim`, n times over."""
    d = normalize_dim("diff", dim, x.shape)
    if n < 0:
        raise ValueError(f"diff: n is {n}; it must not be negative")
    for _ in range(min(n, x.shape[d])):
        left = x.narrow(d, 0, x.shape[d] - 1) if x.shape[d] else x
        right = x.narrow(d, 1, x.shape[d] - 1) if x.shape[d] else x
        x = right ^ left if x.dtype.kind == "b" else right - left
    return x


@public
@method()
def tile(x: Tensor, dims: Sequence[int]) -> Tensor:
    """`repeat`, where missing counts of leading dims are one."""
    return x.repeat(*[1] * (x.ndim - len(dims)), *dims)


@public
@method()
def fliplr(x: Tensor) -> Tensor:
    """Dim 1 in reverse."""
    return flip(x, 1)


@public
@method()
def flipud(x: Tensor) -> Tensor:
    """Dim 0 in reverse."""
    return flip(x, 0)


@public
@method()
def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned k times by 90 degrees, from the first of two dims towards the second."""
    a, b = dims
    turns = k % 4
    if turns == 0:
        return x.clone()
    if turns == 2:
        return flip(flip(x, a), b)
    return transpose(flip(x, b), a, b) if turns == 1 else flip(transpose(x, a, b), b)


@public
def atleast_1d(x: Tensor) -> Tensor:
    """`x` with one dim at least."""
    return x if x.ndim else reshape(x, 1)


@public
def atleast_2d(x: Tensor) -> Tensor:
    """`x` with two dims at least, new ones in front."""
    return x if x.ndim > 1 else atleast_1d(x).unsqueeze(0)


@public
def atleast_3d(x: Tensor) -> Tensor:
    """`x` with three dims at least, the third behind."""
    return x if x.ndim > 2 else atleast_2d(x).unsqueeze(-1)


@public
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dim 1, vectors along dim 0."""
    parts = [atleast_1d(x) for x in tensors]
    return cat(parts, 0 if parts and parts[0].ndim == 1 else 1)


@public
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dim 0, vectors as rows."""
    return cat([atleast_2d(x) for x in tensors], 0)


@public
def row_stack(tensors: Sequence[Tensor]) -> Tensor:
    """`vstack` under another name."""
    return vstack(tensors)


@public
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dim 2."""
    return cat([atleast_3d(x) for x in tensors], 2)


@public
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dim 1, vectors as columns."""
    return cat([x if x.ndim > 1 else reshape(x, -1, 1) for x in tensors], 1)


@public
@method()
def tensor_split(
    x: Tensor, indices_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Views cut before the indices of a dim, or that many views of sizes that differ by one."""
    d = normalize_dim("tensor_split", dim, x.shape)
    n = x.shape[d]
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1:
            raise ValueError(f"tensor_split: {indices_or_sections} sections; it must be 1 or more")
        size, more = divmod(n, indices_or_sections)
        return split(x, [size + (i < more) for i in range(indices_or_sections)], d)
    ends = [min(max(i + n if i < 0 else i, 0), n) for i in indices_or_sections] + [n]
    starts = [0, *ends[:-1]]
    return tuple(x.narrow(d, a, max(b - a, 0)) for a, b in zip(starts, ends, strict=True))


@public
def meshgrid(*tensors: Tensor, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Vectors expanded to a grid, a dim each; "xy" exchanges the first two dims."""
    if indexing not in ("ij", "xy"):
        raise ValueError(f'meshgrid: indexing is {indexing!r}; supported: "ij", "xy"')
    given = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else (
        list(tensors))  # fmt: skip
    swap = indexing == "xy" and len(given) > 1
    given[:2] = given[1::-1] if swap else given[:2]
    n = len(given)
    grid = list(broadcast_tensors(
        *(reshape(x, *[1] * i, -1, *[1] * (n - i - 1)) for i, x in enumerate(given))
    ))  # fmt: skip
    grid[:2] = grid[1::-1] if swap else grid[:2]
    return tuple(grid)


@public
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Every choice of one element of each vector, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(x, -1) for x in meshgrid(*tensors)], 1)


@network
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Classes (...) as rows (..., num_classes) of zeros with a one, int64.

    -1 takes the largest class plus one, which reads it back. ValueError for no classes then.
    """
    if num_classes == -1:
        if not tensor.numel():
            raise ValueError("one_hot: no elements to find num_classes from; give it")
        num_classes = int(tensor.max().item()) + 1
    hit = tensor.unsqueeze(-1) == arange(num_classes, device=tensor.device)
    return hit.to(int64)


@method()
def new_full(
    x: Tensor, size: Sequence[int], fill_value: Scalar, *, dtype: DType | str | None = None
) -> Tensor:
    """A tensor of one value with the dtype and device of x."""
    return full(size, fill_value, dtype=dtype or x.dtype, device=x.device)


@method()
def new_zeros(x: Tensor, *size: int, dtype: DType | str | None = None) -> Tensor:
    """Zeros of a shape with the dtype and device of x."""
    return new_full(x, sizes("new_zeros", size), 0, dtype=dtype)


@method()
def new_ones(x: Tensor, *size: int, dtype: DType | str | None = None) -> Tensor:
    """Ones of a shape with the dtype and device of x."""
    return new_full(x, sizes("new_ones", size), 1, dtype=dtype)


@method()
def new_empty(x: Tensor, *size: int, dtype: DType | str | None = None) -> Tensor:
    """A tensor to write to with the dtype and device of x."""
    return new_full(x, sizes("new_empty", size), 0, dtype=dtype)
