"""Ops that move elements: views (which copy nothing), flipping, padding."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rushlight.core.backends import HOST
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import (
    Layout,
    Shape,
    as_shape,
    check_elements,
    infer_shape,
    normalize_dim,
    normalize_dims,
)
from rushlight.core.jit import capture
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.common import Scalar, fitted
from rushlight.core.ops.declare import method, public
from rushlight.core.tensor.op import Context, Meta, Op, rule, tensor_class

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor

Ranges = tuple[tuple[int, int, int], ...]
Key = tuple[int | tuple[int, int, int], ...]  # a range or an element of each dim


def shape_of(c: Context, index: int = 0) -> Shape:
    """The shape of an input of the op that is differentiated."""
    meta = c.inputs[index]
    assert meta is not None
    return meta.shape


def _infer_permute(x: Meta, *, dims: tuple[int, ...]) -> Meta:
    return Meta(x.dtype, x.layout.permute(dims))


def _permute_grad(c: Context, g: Tensor) -> Tensor:
    dims = c.attrs["dims"]
    return PERMUTE(g, dims=tuple(dims.index(d) for d in range(len(dims))))


def _infer_expand(x: Meta, *, shape: Shape) -> Meta:
    return Meta(x.dtype, x.layout.expand(shape))


def _expand_grad(c: Context, g: Tensor) -> Tensor:
    shape = shape_of(c)
    lead = g.ndim - len(shape)
    dims = tuple(d for d in range(g.ndim) if d < lead or (shape[d - lead] == 1 and g.shape[d] != 1))
    return g.sum(dims, keepdim=True).reshape(*shape) if dims else g


def _infer_view(x: Meta, *, shape: Shape) -> Meta:
    if x.dtype.kind == "q" and shape[-1:] != x.shape[-1:]:
        raise TypeError(
            f"view: {x.dtype.name} blocks lie along the last dim, which must stay {x.shape[-1]}; "
            f"{x.shape} cannot be viewed as {shape}"
        )
    layout = x.layout.reshape(shape)
    assert layout is not None
    return Meta(x.dtype, layout)


def _infer_slice(x: Meta, *, ranges: Ranges) -> Meta:
    layout = x.layout
    if x.dtype.kind == "q" and ranges[-1] != (0, x.shape[-1], 1):
        raise TypeError(
            f"index: {x.dtype.name} blocks lie along the last dim of {x.shape}, which cannot be "
            "sliced; index leading dims, or dequantize() the tensor first"
        )
    for d, (start, stop, step) in enumerate(ranges):
        layout = layout.slice(d, start, stop, step)
    return Meta(x.dtype, layout)


def _slice_grad(c: Context, g: Tensor) -> Tensor:
    return SLICE_BACKWARD(g, shape=shape_of(c), ranges=c.attrs["ranges"])


def _infer_index(x: Meta, *, key: Key) -> Meta:
    layout = x.layout
    return Meta(x.dtype, _indexed(layout.shape, layout.strides, layout.offset, key))


@lru_cache(4096)
def _indexed(old: Shape, steps: Shape, offset: int, key: Key) -> Layout:
    shape, strides = [], []
    for size, stride, item in zip(old, steps, key, strict=True):
        if isinstance(item, int):
            offset += item * stride
            continue
        layout = Layout((size,), (stride,), offset).slice(0, *item)
        offset = layout.offset
        shape.append(layout.shape[0])
        strides.append(layout.strides[0])
    return Layout(tuple(shape), tuple(strides), offset)


def _index_grad(c: Context, g: Tensor) -> Tensor:
    ranges = tuple((k, k + 1, 1) if isinstance(k, int) else k for k in c.attrs["key"])
    shape = tuple(max(0, -((start - stop) // step)) for start, stop, step in ranges)
    return SLICE_BACKWARD(g.reshape(*shape), shape=shape_of(c), ranges=ranges)


def _infer_slice_backward(g: Meta, *, shape: Shape, ranges: Ranges) -> Meta:
    return g.fresh(shape)


def _infer_unfold(x: Meta, *, dim: int, size: int, step: int, dilation: int) -> Meta:
    old = x.layout
    count = (old.shape[dim] - (size - 1) * dilation - 1) // step + 1
    shape = (*old.shape[:dim], count, *old.shape[dim + 1 :], size)
    stride = old.strides[dim]
    along = stride * step if count > 1 else stride
    strides = (
        *old.strides[:dim],
        along,
        *old.strides[dim + 1 :],
        stride * dilation if size > 1 else stride,
    )
    check_elements(shape)
    return Meta(x.dtype, Layout(shape, strides, old.offset))


def _unfold_grad(c: Context, g: Tensor) -> Tensor:
    return UNFOLD_BACKWARD(g, length=shape_of(c)[c.attrs["dim"]], **c.attrs)


def _infer_unfold_backward(
    g: Meta, *, length: int, dim: int, size: int, step: int, dilation: int
) -> Meta:
    return g.fresh((*g.shape[:dim], length, *g.shape[dim + 1 : -1]))


def _unfold_backward_grad(c: Context, g: Tensor) -> Tensor:
    a = c.attrs
    return UNFOLD(g, dim=a["dim"], size=a["size"], step=a["step"], dilation=a["dilation"])


PERMUTE = Op("permute", infer=_infer_permute, grads=(rule(_permute_grad),), view=True, complex=True)
EXPAND = Op("expand", infer=_infer_expand, grads=(rule(_expand_grad),), view=True, complex=True)
VIEW = Op(
    "view",
    infer=_infer_view,
    view=True,
    blocks=(0,),
    grads=(rule(lambda c, g: g.reshape(*shape_of(c))),),
    complex=True,
)
SLICE = Op(
    "slice", infer=_infer_slice, grads=(rule(_slice_grad),), view=True, blocks=(0,), complex=True
)
# Elements of some dims, which are removed, and ranges of the others.
INDEX = Op("index", infer=_infer_index, grads=(rule(_index_grad),), view=True, complex=True)
SLICE_BACKWARD = Op(
    "slice_backward",
    infer=_infer_slice_backward,
    grads=(rule(lambda c, g: SLICE(g, ranges=c.attrs["ranges"])),),
    complex=True,
)
UNFOLD = Op(
    "unfold", infer=_infer_unfold, grads=(rule(_unfold_grad),), view=True, complex=True, batch="dim"
)
UNFOLD_BACKWARD = Op(
    "unfold_backward",
    infer=_infer_unfold_backward,
    grads=(rule(_unfold_backward_grad),),
    complex=True,
    batch="dim",
)


@public
@method()
def permute(x: Tensor, *dims: Any) -> Tensor:
    """A view with the dims in another order; every dim must be named once."""
    order = as_shape("permute", dims)
    dims_in_order = tuple(normalize_dim("permute", d, x.shape) for d in order)
    if sorted(dims_in_order) != list(range(x.ndim)):
        raise ShapeError(f"permute: {order} does not name each of the {x.ndim} dims once")
    return PERMUTE(x, dims=dims_in_order)


@public
@method()
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view with two dims exchanged.

    `x` keeps its memory; `dim0` and `dim1` are the two. Raises IndexError for a dim that there is
    not.
    """
    if x.ndim == 0:
        return x
    a, b = (normalize_dim("transpose", d, x.shape) for d in (dim0, dim1))
    dims = list(range(x.ndim))
    dims[a], dims[b] = b, a
    return PERMUTE(x, dims=tuple(dims))


@public
@method()
def expand(x: Tensor, *size: Any) -> Tensor:
    """A view with dims of size one (and new leading dims) repeated; -1 keeps a size."""
    want = as_shape("expand", size)
    lead = len(want) - x.ndim
    if lead < 0:
        raise ShapeError(f"expand: {want} has fewer dims than the tensor's shape {x.shape}")
    shape = tuple(x.shape[d - lead] if n == -1 and d >= lead else n for d, n in enumerate(want))
    for d, n in enumerate(shape):
        if n < 0 or (d >= lead and x.shape[d - lead] not in (1, n)):
            raise ShapeError(f"expand: shape {x.shape} does not expand to {want}: dim {d}")
    same = shape == x.shape and not capture.follows_sizes()
    return x if same else EXPAND(x, shape=shape)


def reread(x: Tensor, dtype: DType) -> Tensor:
    """The bytes of x as elements of another dtype, in the same memory."""
    if "q" in (x.dtype.kind, dtype.kind) or x.storage.device is not HOST:
        raise NotImplementedError(
            f"view: {x.dtype.name} on {x.device} as {dtype.name} is not "
            "supported; supported: plain dtypes on cpu"
        )
    old, new, layout = x.dtype.itemsize, dtype.itemsize, x.layout
    shape, strides, offset = layout.shape, layout.strides, layout.offset
    if old != new:
        if not shape or strides[-1] != 1:
            raise ShapeError(
                f"view: {x.dtype.name} as {dtype.name} needs a last dim of stride 1; "
                f"x is {tuple(shape)} with strides {strides}"
            )
        if any(n * old % new for n in (shape[-1], offset, *strides[:-1])):
            raise ShapeError(
                f"view: shape {tuple(shape)} with strides {strides} and offset "
                f"{offset} is no whole number of {dtype.name}"
            )
        shape = (*shape[:-1], shape[-1] * old // new)
        strides = (*(n * old // new for n in strides[:-1]), 1)
        offset = offset * old // new
    out = tensor_class[0](x.storage, dtype, Layout(shape, strides, offset))
    if capture.active:
        capture.refuse("it views a tensor as another dtype")
    return out


@public
@method()
def view(x: Tensor, *size: Any) -> Tensor:
    """The same elements viewed with another shape; one size may be -1. Never copies.

    Raises ShapeError if the memory layout does not allow a view; `reshape` copies then. With a
    dtype: the same bytes as elements of it; the last dim's size changes with the size of an
    element. Such a view has no gradient.
    """
    if len(size) == 1 and isinstance(size[0], DType):
        return reread(x, size[0])
    shape = infer_shape("view", x.numel(), as_shape("view", size))
    if x.layout.reshape(shape) is None:
        raise ShapeError(
            f"view: shape {x.shape} with strides {x.layout.strides} cannot be viewed as {shape} "
            "without a copy; use reshape"
        )
    return VIEW(x, shape=shape)


@public
@method()
def reshape(x: Tensor, *size: Any) -> Tensor:
    """The same elements with another shape; one size may be -1. A view where possible."""
    if size == x.shape and not capture.active:
        return x
    shape = infer_shape("reshape", x.numel(), as_shape("reshape", size))
    if shape == x.shape and not capture.follows_sizes():
        return x
    if x.layout.reshape(shape) is not None:
        return VIEW(x, shape=shape)
    return owned(VIEW(x.clone(), shape=shape))


def owned(x: Tensor) -> Tensor:
    """`x`, a view of a tensor without other references; it may be written to like its base."""
    x.is_view = False
    return x


def dim_of(name: str, dim: int, x: Tensor) -> int:
    """`dim` of `x`, counted from the front. IndexError for one out of range, or a 0-d tensor."""
    if x.ndim == 0:
        raise IndexError(f"{name}: a 0-d tensor has no dim {dim}")
    return normalize_dim(name, dim, x.shape)


@public
@method()
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """A view with a new dim of size one at `dim`."""
    d = normalize_dim("unsqueeze", dim, x.shape, extra=1)
    return VIEW(x, shape=(*x.shape[:d], 1, *x.shape[d:]))


@public
@method()
def squeeze(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """A view without the dims of size one, or without those among `dim`."""
    dims = normalize_dims("squeeze", dim, x.shape)
    return reshape(x, *(n for d, n in enumerate(x.shape) if d not in dims or n != 1))


@public
@method()
def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A view of `length` elements of one dim from `start` on.

    `x` keeps its memory. Raises IndexError for a dim or elements that there are not.
    """
    d, start = dim_of("narrow", dim, x), operator.index(start)
    begin = start + x.shape[d] if start < 0 else start
    if begin < 0 or length < 0 or begin + length > x.shape[d]:
        raise IndexError(
            f"narrow: start {start} and length {length} do not fit dim {dim} of shape {x.shape}"
        )
    return slices(
        x, tuple((begin, begin + length, 1) if i == d else (0, n, 1) for i, n in enumerate(x.shape))
    )


def slices(x: Tensor, ranges: Ranges) -> Tensor:
    """A view of (start, stop, step) of every dim; bounds are already checked."""
    whole = all(r == (0, n, 1) for r, n in zip(ranges, x.shape, strict=True))
    if whole and not capture.follows_sizes():
        return x
    return SLICE(x, ranges=ranges)


@public
@method()
def unfold(x: Tensor, dim: int, size: int, step: int, *, dilation: int = 1) -> Tensor:
    """A view of the windows along `dim`: `dim` counts the windows, a new last dim holds `size`.

    Windows start `step` apart and take every `dilation`-th element. ValueError if none fits.

    `x` keeps its memory. IndexError for a dim that there is not.
    """
    if x.ndim == 0 and size == 1 and step > 0:
        return x.reshape(1)
    d = dim_of("unfold", dim, x)
    if min(size, step, dilation) < 1 or (size - 1) * dilation >= x.shape[d]:
        raise ShapeError(
            f"unfold: size {size}, step {step} and dilation {dilation} give no window along dim "
            f"{dim} of shape {x.shape}"
        )
    return UNFOLD(x, dim=d, size=size, step=step, dilation=dilation)


def _infer_flip(x: Meta, *, dims: tuple[int, ...]) -> Meta:
    return x.fresh()


FLIP: Op = Op(
    "flip",
    infer=_infer_flip,
    grads=(rule(lambda c, g: FLIP(g, dims=c.attrs["dims"])),),
    complex=True,
    batch="dims",
)


@public
@method()
def flip(x: Tensor, *dims: Any) -> Tensor:
    """A copy with the elements of each of `dims` in reverse."""
    return FLIP(x, dims=normalize_dims("flip", as_shape("flip", dims), x.shape))


def _infer_pad(x: Meta, *, pads: tuple[tuple[int, int], ...], value: Scalar) -> Meta:
    return x.fresh([n + a + b for n, (a, b) in zip(x.shape, pads, strict=True)])


def _pad_grad(c: Context, g: Tensor) -> Tensor:
    shape = shape_of(c)
    return slices(g, tuple((a, a + n, 1) for n, (a, _) in zip(shape, c.attrs["pads"], strict=True)))


PAD = Op("pad", infer=_infer_pad, grads=(rule(_pad_grad),), complex=True)


@public
@casts("inside")
def pad(
    x: Tensor, pad: Sequence[int], mode: str = "constant", value: Scalar | None = None
) -> Tensor:
    """Pad the last dims with `value`: (before, after) of the last dim, then of the one before.

    Negative numbers cut elements off. None is 0. ValueError for a mode other than "constant", and
    for a value that the dtype of `x` cannot hold.

    `pad` are the numbers.
    """
    if mode != "constant":
        raise ValueError(f"pad: mode {mode!r} is not supported; supported: constant")
    value = fitted("pad", 0 if value is None else value, x.dtype)
    if len(pad) % 2 or len(pad) > 2 * x.ndim:
        raise ShapeError(f"pad: {tuple(pad)} is not a pair for each of at most {x.ndim} dims")
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    pads = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    if any(n + min(a, 0) + min(b, 0) < 0 for n, (a, b) in zip(x.shape, pads, strict=True)):
        raise ShapeError(f"pad: {tuple(pad)} cuts off more than shape {x.shape} has")
    x = slices(
        x, tuple((max(0, -a), n - max(0, -b), 1) for n, (a, b) in zip(x.shape, pads, strict=True))
    )
    grow = tuple((max(a, 0), max(b, 0)) for a, b in pads)
    return PAD(x, pads=grow, value=value)
