"""Layouts: shape, strides and offset of a tensor in its storage. Integers only.

Strides and offset count elements. Strides are never negative (as in torch: `flip` copies).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, SupportsIndex, overload

from rushlight.core.basis.errors import ShapeError, SizeError

Shape = tuple[int, ...]


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple of ints whose slices and sums are Sizes, with `numel()`."""

    __slots__ = ()

    def numel(self) -> int:
        """The product of the sizes: the number of elements."""
        return math.prod(self)

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> Size: ...
    def __getitem__(self, key: Any) -> Any:
        item = tuple.__getitem__(self, key)
        return Size(item) if isinstance(key, slice) else item

    def __add__(self, other: Any) -> Size:
        return Size(tuple(self) + tuple(other))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, count: Any) -> Size:
        return Size(tuple(self) * count)

    __rmul__ = __mul__


# The most elements of a view or of an empty tensor, a size of zero counted as one. Other tensors
# are bounded by memory. So every size and stride that has memory fits 64 bits.
MOST_ELEMENTS = 2**60


class Layout(NamedTuple):
    """Positions of a tensor's elements: one step along dim d moves strides[d] elements.

    A tuple, as eager ops look for layouts in tables: C makes, hashes and compares it.
    """

    shape: Shape
    strides: Shape
    offset: int = 0

    @staticmethod
    def contiguous(shape: Sequence[int]) -> Layout:
        """Row-major layout of `shape` at offset zero."""
        return _contiguous(tuple(shape))

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie row-major without gaps (dims of size one do not matter)."""
        if 0 in self.shape:
            return True
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1:
                if stride != expected:
                    return False
                expected *= size
        return True

    @property
    def repeats(self) -> bool:
        """Whether a stride of zero makes several elements share one position."""
        steps = zip(self.shape, self.strides, strict=True)
        return 0 not in self.shape and any(n > 1 and s == 0 for n, s in steps)

    @property
    def extent(self) -> tuple[int, int]:
        """First element of the storage that this layout reaches, and one past the last."""
        if 0 in self.shape:
            return self.offset, self.offset
        low = high = self.offset
        for n, s in zip(self.shape, self.strides, strict=True):
            if s > 0:
                high += (n - 1) * s
            else:  # layouts inside a backend may have negative strides
                low += (n - 1) * s
        return low, high + 1

    def permute(self, dims: Sequence[int]) -> Layout:
        """The dims in another order; `dims` is a permutation of range(ndim)."""
        return Layout(
            tuple(self.shape[d] for d in dims), tuple(self.strides[d] for d in dims), self.offset
        )

    def expand(self, shape: Sequence[int]) -> Layout:
        """Dims of size one, and new leading dims, repeated by stride zero up to `shape`."""
        return _expanded(self.shape, self.strides, self.offset, tuple(shape))

    def slice(self, dim: int, start: int, stop: int, step: int = 1) -> Layout:
        """Elements start, start + step, ... below stop of one dim; bounds are already checked."""
        shape, strides = list(self.shape), list(self.strides)
        shape[dim] = max(0, -((start - stop) // step))
        offset = self.offset + (start * strides[dim] if shape[dim] else 0)
        if shape[dim] > 1:  # otherwise the step leads nowhere, and may be any number
            strides[dim] *= step
        return Layout(tuple(shape), tuple(strides), offset)

    def select(self, dim: int, index: int) -> Layout:
        """One element of a dim, which is removed; `index` is already checked."""
        return Layout(
            self.shape[:dim] + self.shape[dim + 1 :],
            self.strides[:dim] + self.strides[dim + 1 :],
            self.offset + index * self.strides[dim],
        )

    def unsqueeze(self, dim: int) -> Layout:
        """A new dim of size one before `dim`."""
        stride = self.shape[dim] * self.strides[dim] if dim < self.ndim else 1
        return Layout(
            self.shape[:dim] + (1,) + self.shape[dim:],
            self.strides[:dim] + (stride,) + self.strides[dim:],
            self.offset,
        )

    def reshape(self, shape: Sequence[int]) -> Layout | None:
        """The same elements viewed as `shape`, or None where that needs a copy."""
        return self._reshape(tuple(shape))

    @lru_cache(4096)  # noqa: B019  a layout is a few numbers, and few distinct ones occur
    def _reshape(self, shape: Shape) -> Layout | None:
        if 0 in self.shape or self.is_contiguous:
            return Layout(tuple(shape), contiguous_strides(shape), self.offset)
        old = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        new = list(shape)
        strides = [0] * len(new)
        j = len(new) - 1
        i = len(old) - 1
        while i >= 0:
            # Join old dims that are contiguous with each other into one run of `size` elements.
            size, stride = old[i]
            while i > 0 and old[i - 1][1] == old[i][1] * old[i][0]:
                i -= 1
                size *= old[i][0]
            i -= 1
            while j >= 0 and (size > 1 or new[j] == 1):
                if size % new[j]:
                    return None
                strides[j] = stride
                stride *= new[j]
                size //= new[j]
                j -= 1
            if size != 1:
                return None
        while j >= 0:
            strides[j] = 1
            j -= 1
        return Layout(tuple(new), tuple(strides), self.offset)


@lru_cache(4096)
def _contiguous(shape: Shape) -> Layout:
    return Layout(shape, contiguous_strides(shape))


@lru_cache(4096)
def _expanded(old: Shape, steps: Shape, offset: int, shape: Shape) -> Layout:
    lead = len(shape) - len(old)
    strides = [0] * lead
    for size, stride, want in zip(old, steps, shape[lead:], strict=True):
        strides.append(stride if size == want else 0)
    check_elements(shape)
    return Layout(shape, tuple(strides), offset)


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Row-major strides of `shape`, as in torch (a size of zero counts as one).

    Raises SizeError for an empty shape with sizes that multiply to more than a view may have.
    """
    if 0 in shape:
        check_elements(shape)
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def count_elements(shape: Sequence[int]) -> int:
    """The elements of `shape`, a size of 0 counted as 1, which bounds its strides too."""
    return math.prod(shape) or math.prod(n for n in shape if n)


def check_elements(shape: Sequence[int], op: str = "") -> None:
    """Raise SizeError for more elements than a view may have; op: for its message."""
    count = count_elements(shape)
    if count > MOST_ELEMENTS:
        empty = ", counting a size of 0 as 1" if 0 in shape else ""
        error = SizeError(
            f"shape {tuple(shape)} has {count} elements{empty}; at most 2**60 are supported"
        )
        raise error.during(op) if op else error


@lru_cache(4096)
def broadcast_shapes(op: str, *shapes: Shape) -> Shape:
    """The shape that all of `shapes` expand to; ValueError naming them where there is none."""
    ndim = max((len(s) for s in shapes), default=0)
    out = [1] * ndim
    for shape in shapes:
        for i, size in enumerate(shape, ndim - len(shape)):
            if size != 1:
                if out[i] not in (1, size):
                    raise ShapeError(
                        f"{op}: shapes {' and '.join(map(str, shapes))} do not broadcast: "
                        f"dim {i} is {out[i]} in one and {size} in another"
                    )
                out[i] = size
    return tuple(out)


def normalize_dim(op: str, dim: int, shape: Shape, *, extra: int = 0) -> int:
    """`dim` counted from the front; IndexError where `shape` has no such dim.

    extra: 1 where the dim may also be one past the last (unsqueeze, stack).
    """
    ndim = max(len(shape) + extra, 1)
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"{op}: dim must be an int, not {dim!r}")
    dim = operator.index(dim)
    if not -ndim <= dim < ndim:
        raise IndexError(f"{op}: dim {dim} is out of range for shape {shape}")
    return dim % ndim


def normalize_dims(op: str, dim: int | Sequence[int] | None, shape: Shape) -> tuple[int, ...]:
    """Sorted dims counted from the front; None means all of them. Repeats are refused."""
    if dim is None:
        return tuple(range(len(shape)))
    if type(dim) is int and -len(shape) <= dim < len(shape):
        return (dim % len(shape),)
    dims = list(dim) if isinstance(dim, Sequence) else [dim]
    dims_sorted = sorted(normalize_dim(op, d, shape) for d in dims)
    if len(set(dims_sorted)) != len(dims_sorted):
        raise ShapeError(f"{op}: dims {tuple(dims)} name a dim twice for shape {shape}")
    return tuple(d for d in dims_sorted if d < len(shape))


def as_shape(op: str, size: tuple[Any, ...]) -> Shape:
    """Sizes or dims, passed as separate ints or as one sequence; TypeError for other values."""
    sizes = size[0] if len(size) == 1 and not hasattr(size[0], "__index__") else size
    try:
        sizes = tuple(sizes)
        if set(map(type, sizes)) <= {int}:
            return sizes
        if any(isinstance(n, bool) for n in sizes):
            raise TypeError
        return tuple(operator.index(n) for n in sizes)
    except TypeError:
        raise TypeError(f"{op}: {size!r} must be ints, or one sequence of ints") from None


def infer_shape(op: str, numel: int, shape: Sequence[int]) -> Shape:
    """`shape` with a -1 replaced so that it holds `numel` elements; ValueError where none fits."""
    wanted = as_shape(op, (tuple(shape),))
    if min(wanted, default=0) >= 0 and math.prod(wanted) == numel:
        if not numel:
            check_elements(wanted, op)
        return wanted
    out = list(wanted)
    holes = [i for i, n in enumerate(out) if n == -1]
    if len(holes) > 1 or any(n < -1 for n in out):
        raise ShapeError(f"{op}: shape {tuple(shape)} may have one -1 and no other negative size")
    if holes:
        rest = math.prod(n for n in out if n != -1)
        if rest == 0 or numel % rest:
            raise ShapeError(f"{op}: {numel} elements do not fit shape {tuple(shape)}")
        out[holes[0]] = numel // rest
    if math.prod(out) != numel:
        raise ShapeError(f"{op}: {numel} elements do not fit shape {tuple(shape)}")
    return tuple(out)
