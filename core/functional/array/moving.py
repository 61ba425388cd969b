"""Dims moved, exchanged and turned; views and shapes like those of other tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rushlight.core.backends import device as _device
from rushlight.core.basis.dtype import DType, as_dtype, float64
from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import broadcast_shapes as _broadcast
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.functional.creation import linspace, of_data
from rushlight.core.ops.creation import empty, full, ones, sizes, zeros
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.movement import expand, flip, permute, transpose
from rushlight.core.ops.unary import turned
from rushlight.core.tensor import interpreter_stack

if TYPE_CHECKING:
    from rushlight.core.backends import Device
    from rushlight.core.tensor.tensor import Tensor


def _list(dim: int | Sequence[int]) -> list[int]:
    return [dim] if isinstance(dim, int) else list(dim)


@public
@method()
def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """A view with dims moved from `source` to `destination`; the others keep their order."""
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
    """Turned k times by 90 degrees from the first of `dims` to the second; a copy."""
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
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype and on the device of `other`."""
    return x.to(dtype=other.dtype, device=other.device)


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
    return _broadcast("broadcast_shapes", *((s,) if isinstance(s, int) else tuple(s)
                                            for s in shapes))  # fmt: skip


def _options(x: Tensor, dtype: DType | str | None, device: Device | str | None) -> dict[str, Any]:
    return {"dtype": x.dtype if dtype is None else as_dtype(dtype), "device": device or x.device}


def _new(
    x: Tensor, make: Any, shape: tuple[int, ...], dtype: DType | str | None,
    device: Device | str | None,
) -> Tensor:  # fmt: skip
    options = _options(x, dtype, device)
    return interpreter_stack.new_like(x, lambda shape: make(shape, **options), shape)


@method()
def new_zeros(
    x: Tensor, *size: Any, dtype: DType | str | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Zeros of a shape, by default with the dtype and device of x."""
    out = _new(x, zeros, sizes("new_zeros", size), dtype, device)
    return out.requires_grad_() if requires_grad else out


@method()
def new_ones(
    x: Tensor, *size: Any, dtype: DType | str | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Ones of a shape, by default with the dtype and device of x."""
    out = _new(x, ones, sizes("new_ones", size), dtype, device)
    return out.requires_grad_() if requires_grad else out


@method()
def new_empty(
    x: Tensor, *size: Any, dtype: DType | str | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of a shape without chosen values, by default with the dtype and device of x."""
    out = _new(x, empty, sizes("new_empty", size), dtype, device)
    return out.requires_grad_() if requires_grad else out


@method()
def new_full(
    x: Tensor, size: Sequence[int], fill_value: float, *, dtype: DType | str | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A shape full of one value, by default with the dtype and device of x."""
    options = _options(x, dtype, device)
    out: Tensor = interpreter_stack.new_like(
        x, lambda shape: full(shape, fill_value, **options), tuple(size)
    )
    return out.requires_grad_() if requires_grad else out


@method()
def new_tensor(
    x: Tensor, data: Any, *, dtype: DType | str | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor of `data`, by default with the dtype and device of x."""
    return of_data(data, **_options(x, dtype, device)).requires_grad_(requires_grad)


@public
def scalar_tensor(
    s: float,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A 0-d tensor of a number."""
    return full((), s, dtype=as_dtype(dtype), device=device, requires_grad=requires_grad)


@public
def logspace(
    start: float, end: float, steps: int, base: float = 10.0, *, dtype: DType | str | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """base ** linspace(start, end, steps), as torch rounds it for integers."""
    found = as_dtype(dtype)
    start, end = (v.item() if hasattr(v, "item") else v for v in (start, end))
    if found.kind in "bui":
        start, end = int(start), int(end)
    wide = found if found.is_floating_point else float64
    there = device if found.is_floating_point else "cpu"
    out = (
        (base ** linspace(start, end, steps, dtype=wide, device=there))
        .to(found)
        .to(_device(device))
    )
    return out.requires_grad_() if requires_grad else out
