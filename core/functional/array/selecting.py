"""Elements selected, filled and written by index; copies of x, never x itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import int64
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import broadcast_shapes, normalize_dim
from rushlight.core.functional.creation import full_like
from rushlight.core.functional.picking import sort
from rushlight.core.ops.binary import where
from rushlight.core.ops.common import TensorLike, is_tensor
from rushlight.core.ops.creation import zeros
from rushlight.core.ops.declare import method, network, public
from rushlight.core.ops.indexing import nonzero
from rushlight.core.ops.subscript import setitem

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@method()
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """A view of element `index` along `dim`, without that dim."""
    d = normalize_dim("select", dim, x.shape)
    if x.ndim == 0 or not -x.shape[d] <= index < x.shape[d]:
        raise IndexError(f"select: index {index} is not in dim {dim} of {x.shape}")
    return x.narrow(d, index % x.shape[d], 1).squeeze(d)


@public
@method()
def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of x with `src` as element `index` along `dim`."""
    d = normalize_dim("select_scatter", dim, x.shape)
    if not -x.shape[d] <= index < x.shape[d]:
        raise IndexError(f"select_scatter: index {index} is not in dim {dim} of {x.shape}")
    out = x.clone()
    setitem(out, (slice(None),) * d + (index,), src)
    return out


@public
@method()
def slice_scatter(
    x: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    """A copy of x with `src` as the slice start:end:step along `dim`."""
    d = normalize_dim("slice_scatter", dim, x.shape)
    out = x.clone()
    setitem(out, (slice(None),) * d + (slice(start, end, step),), src)
    return out


def _key(name: str, x: Tensor, dim: int, index: Tensor) -> tuple[int, Any]:
    d = normalize_dim(name, dim, x.shape)
    if index.dtype.kind not in "ui" or index.ndim > 1:
        raise ShapeError(f"{name}: index is {index.dtype.name} {index.shape}; it must be 1-d "
                         "integers")  # fmt: skip
    return d, (slice(None),) * d + (index.reshape(-1),)


@public
@method()
def index_fill(x: Tensor, dim: int, index: Tensor, value: TensorLike) -> Tensor:
    """A copy of x with `value` at the positions `index` along `dim`."""
    if x.ndim == 0:
        return index_fill(x.reshape(1), 0, index, value).reshape()
    d, key = _key("index_fill", x, dim, index)
    if is_tensor(value) and value.requires_grad:  # type: ignore[union-attr]
        # A mask, so that a repeated index counts the value's gradient once.
        mask = zeros(x.shape[d], dtype="bool", device=x.device)
        setitem(mask, index.reshape(-1), True)
        shape = [-1 if k == d else 1 for k in range(x.ndim)]
        return where(mask.reshape(*shape), value, x).to(x.dtype)
    out = x.clone()
    setitem(out, key, value)
    return out


@public
@method()
def index_copy(x: Tensor, dim: int, index: Tensor, tensor: Tensor) -> Tensor:
    """A copy of x with element k of `tensor` along `dim` at position index[k]."""
    if x.ndim == 0:
        return tensor.reshape().clone()
    _, key = _key("index_copy", x, dim, index)
    out = x.clone()
    setitem(out, key, tensor)
    return out


@public
@method()
def index_put(x: Tensor, indices: Any, values: TensorLike, accumulate: bool = False) -> Tensor:
    """A copy of x with x[indices] = values, or added where `accumulate`."""
    out = x.clone()
    key = tuple(slice(None) if i is None else i for i in indices)
    if not accumulate:
        setitem(out, key, values)
        return out
    order = x.zeros_like(dtype=int64).reshape(-1)
    places = (order.ones_like().cumsum(0) - 1).reshape(*x.shape)[key]
    added = values.expand(*places.shape) if is_tensor(values) else full_like(  # type: ignore[union-attr]
        places, values, dtype=x.dtype)  # type: ignore[arg-type]  # fmt: skip
    flat = x.reshape(-1).index_add(0, places.reshape(-1), added.reshape(-1))
    return flat.reshape(*x.shape)


@public
@method()
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of x whose elements where `mask` holds are those of `source` in order."""
    shape = broadcast_shapes("masked_scatter", mask.shape, x.shape)
    mask, x = mask.expand(*shape), x.expand(*shape)
    place = mask.reshape(-1).to(int64).cumsum(0) - 1
    flat = source.reshape(-1)
    if flat.numel() == 0:
        return x.clone()
    picked = flat[place.clamp(0, flat.numel() - 1)].reshape(*x.shape)
    return where(mask, picked, x)


@public
@method()
def take(x: Tensor, index: Tensor) -> Tensor:
    """Elements of flat x at `index`, in its shape."""
    n = x.numel()
    return x.reshape(-1)[where(index < 0, index + n, index)]


@public
@method()
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of x with `source` at positions `index` of flat x, or added there."""
    at = where(index < 0, index + x.numel(), index).reshape(-1)
    return index_put(x.reshape(-1), (at,), source.reshape(-1), accumulate).reshape(*x.shape)


@public
@method()
def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with shapes that broadcast; without `dim` in flat x."""
    if dim is None:
        return x.reshape(-1).gather(0, indices.reshape(-1))
    d = normalize_dim("take_along_dim", dim, x.shape)
    a, b = [*x.shape], [*indices.shape]
    a[d] = b[d] = 1
    shape = list(broadcast_shapes("take_along_dim", tuple(a), tuple(b)))
    wide, at = [*shape], [*shape]
    wide[d], at[d] = x.shape[d], indices.shape[d]
    at_ = indices.expand(*at)
    return x.expand(*wide).gather(d, where(at_ < 0, at_ + x.shape[d], at_))


@public
@method()
def argwhere(x: Tensor) -> Tensor:
    """`nonzero` under NumPy's name."""
    found: Tensor = nonzero(x)
    return found


@public
@method()
def msort(x: Tensor) -> Tensor:
    """x sorted along dim 0."""
    return sort(x, 0).values


@public
@method()
def fill(x: Tensor, value: TensorLike) -> Tensor:
    """A tensor of one value with the shape and dtype of x."""
    if is_tensor(value):
        return value.to(x.dtype).expand(*x.shape).clone()  # type: ignore[union-attr]
    return x.masked_fill(x.ones_like(dtype="bool"), value)


@network
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """1 at each class and 0 elsewhere, int64 (*shape, classes); -1 reads the largest class."""
    x = tensor
    if x.dtype is not int64:
        raise TypeMismatch(f"one_hot: {x.dtype.name} is not int64; use x.long()")
    least, most = (int(v.item()) for v in (x.amin(), x.amax())) if x.numel() else (0, -1)
    count = most + 1 if num_classes == -1 else num_classes
    if least < 0 or most >= count or count < 1:
        raise ValueError(f"one_hot: classes {least} to {most} are not in 0 to {count - 1}")
    from rushlight.core.ops.creation import arange

    return (x.unsqueeze(-1) == arange(count, device=x.device)).to(int64)
