"""Sparse tensors in coordinate form: indices of the elements that are stored, and their values.

A sparse tensor is a Tensor for `isinstance`, but no op reads its memory: `storage` raises, and
functions that are called with one ask the table of `calls.py`. All arithmetic is done on its values
by ordinary ops, so gradients reach them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import rushlight.core.functional.declared as f
from rushlight.core.backends import HOST, Device
from rushlight.core.basis.dtype import DType, as_dtype, get_default_dtype, int64
from rushlight.core.basis.errors import ArgumentError, ShapeError
from rushlight.core.basis.layout import Layout, Size, normalize_dim
from rushlight.core.tensor.convert import as_tensor, tensor
from rushlight.core.tensor.tensor import Tensor

REFUSED = "a sparse tensor has no memory of all elements; call to_dense(), or coalesce().values()"


class CoordinateLayout(Layout):
    """The layout that a sparse tensor would have if it were dense; equal to `rl.sparse_coo`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "torch.sparse_coo"


class SparseTensor(Tensor):
    """A tensor that is zero but at some indices (sparse dims, n), which have values (n, ...).

    The shape is that of the sparse dims followed by the values' dims. An index may occur several
    times; its values add up (`coalesce`).

    `size` is the shape; `coalesced`: whether each index occurs once, in order. Nothing is checked
    and nothing raised: `sparse_coo_tensor` does.
    """

    __slots__ = ("_at", "_coalesced", "_data", "_size")

    def __init__(
        self, indices: Tensor, values: Tensor, size: Sequence[int], coalesced: bool = False
    ) -> None:
        self._at, self._data, self._size = indices, values, Size(size)
        self._coalesced = coalesced

    # What Tensor keeps in slots.

    @property
    def storage(self) -> Any:  # type: ignore[override]
        """TypeError: there is no memory of all elements."""
        raise TypeError(REFUSED)

    @property
    def layout(self) -> Layout:  # type: ignore[override]
        """That of the dense tensor."""
        return CoordinateLayout(*Layout.contiguous(self._size))

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """That of the values."""
        return self._data.dtype

    @property
    def device(self) -> Device:
        """Where indices and values are."""
        return self._data.device

    is_sparse = True
    is_cpu = property(lambda x: x._data.device is HOST)
    is_leaf = property(lambda x: x._data.is_leaf)
    grad_fn = property(lambda x: x._data.grad_fn)
    node = property(lambda x: x._data.node)
    needs_grad = property(lambda x: x._data.requires_grad)
    is_view = frozen_view = False
    _stamp = None

    @property
    def requires_grad(self) -> bool:
        """Whether its values need a gradient."""
        return bool(self._data.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._data.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Set whether `backward` fills in the gradient of its values; returns the tensor."""
        self._data.requires_grad_(requires_grad)
        return self

    @property  # type: ignore[override]
    def grad(self) -> SparseTensor | None:
        """The gradient of its values, at its indices."""
        grad = self._data.grad
        return None if grad is None else self.with_values(grad)

    @grad.setter
    def grad(self, value: SparseTensor | None) -> None:
        self._data.grad = None if value is None else value._data

    # Indices and values.

    def with_values(self, values: Tensor) -> SparseTensor:
        """The same indices with other values."""
        size = (*self._size[: self.sparse_dim()], *values.shape[1:])
        return SparseTensor(self._at, values, size, self._coalesced)

    def sparse_dim(self) -> int:
        """How many dims the indices have."""
        return self._at.shape[0]

    def dense_dim(self) -> int:
        """How many dims each value has."""
        return self._data.ndim - 1

    def _indices(self) -> Tensor:
        return self._at

    def _values(self) -> Tensor:
        return self._data

    def _nnz(self) -> int:
        return self._data.shape[0]

    def is_coalesced(self) -> bool:
        """Whether every index occurs once, in order."""
        return self._coalesced

    def _need_coalesced(self, name: str) -> None:
        if not self._coalesced:
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )

    def indices(self) -> Tensor:
        """(sparse dims, n). RuntimeError unless it is coalesced."""
        self._need_coalesced("indices")
        return self._at

    def values(self) -> Tensor:
        """(n, ...). RuntimeError unless it is coalesced."""
        self._need_coalesced("values")
        return self._data

    def flat(self) -> Tensor:
        """The place of each index in the row-major order of the sparse dims."""
        place = self._at[0] * 0 if self.sparse_dim() else self._at.new_zeros((self._nnz(),))
        for row, n in zip(self._at, self._size, strict=False):
            place = place * n + row
        return place

    def coalesce(self) -> SparseTensor:
        """With every index once, in order, and the sums of the values. The indices are read."""
        if self._coalesced:
            return self
        places, where = self.flat().unique(return_inverse=True)
        values = self._data.new_zeros((places.shape[0], *self._data.shape[1:]))
        values = values.index_add(0, where, self._data)
        rows, rest = [], places
        for n in reversed(self._size[: self.sparse_dim()]):
            rows.append(rest % n)
            rest = rest // n
        indices = f.stack(rows[::-1]) if rows else self._at[:, : places.shape[0]]
        return SparseTensor(indices, values, self._size, True)

    def to_dense(self, dtype: Any = None, masked_grad: bool | None = None) -> Tensor:
        """The tensor with all elements."""
        count = math.prod(self._size[: self.sparse_dim()])
        zeros = self._data.new_zeros((count, *self._data.shape[1:]))
        out = zeros.index_add(0, self.flat(), self._data).reshape(tuple(self._size))
        return out if dtype is None else out.to(dtype)

    # As for any tensor.

    def to(self, *args: Any, **options: Any) -> SparseTensor:
        """Values in another dtype, or both on another device."""
        values = self._data.to(*args, **options)
        if values is self._data:
            return self
        return SparseTensor(self._at.to(values.device), values, self._size, self._coalesced)

    def to_sparse(self, sparse_dim: int | None = None, **options: Any) -> SparseTensor:
        """The tensor itself. ValueError for another number of sparse dims."""
        if check_sparse_dim(self, sparse_dim, **options) not in (None, self.sparse_dim()):
            raise ArgumentError(
                f"to_sparse: the tensor has {self.sparse_dim()} sparse dims; other numbers are not "
                "supported; call to_dense() first"
            )
        return self

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dim."""
        size = self._size
        return size if dim is None else size[normalize_dim("size", dim, size)]

    def dim(self) -> int:
        """Number of dims."""
        return len(self._size)

    def detach(self) -> SparseTensor:
        """The same values without history."""
        return self.with_values(self._data.detach())

    @property  # type: ignore[misc]
    def data(self) -> SparseTensor:  # type: ignore[override]
        """`detach()`."""
        return self.detach()

    def set_(self, source: Any) -> SparseTensor:
        """Take over the indices, values and shape of another sparse tensor."""
        self._at, self._data, self._size = source._at, source._data, source._size
        self._coalesced = source._coalesced
        return self

    def backward(self, *args: Any, **options: Any) -> None:
        """RuntimeError: a sparse tensor is no loss."""
        raise RuntimeError(
            "backward of a sparse tensor is not supported; supported: rl.sparse.sum "
            "or to_dense() first"
        )

    def __len__(self) -> int:
        return int(self._size[0])

    def __bool__(self) -> bool:
        raise TypeError(REFUSED)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __copy__(self) -> SparseTensor:
        return self.with_values(self._data)

    def __deepcopy__(self, memo: dict[Any, Any]) -> SparseTensor:
        indices, data = deepcopy(self._at, memo), deepcopy(self._data, memo)
        return SparseTensor(indices, data, self._size, self._coalesced)

    def __reduce__(self) -> Any:
        return SparseTensor, (self._at, self._data, tuple(self._size), self._coalesced)

    def __repr__(self) -> str:
        parts = [
            f"{name}={text}"
            for name, text in (
                ("indices", _moved(self._at, 15)),
                ("values", _moved(self._data.detach(), 14)),
            )
        ]
        notes = f"size={tuple(self._size)}, nnz={self._nnz()}, layout=torch.sparse_coo"
        if self.grad_fn is not None:
            notes += f", grad_fn={self.grad_fn!r}"
        elif self.requires_grad:
            notes += ", requires_grad=True"
        return "tensor(" + ",\n       ".join([*parts, notes]) + ")"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


def _moved(x: Tensor, columns: int) -> str:
    return repr(x).replace("\n", "\n" + " " * columns)


def _ranges(indices: Tensor, size: Sequence[int]) -> None:
    """IndexError where an index lies outside of the size."""
    if not indices.numel() or indices.device.type == "meta":
        return
    for dim, (low, high) in enumerate(
        zip(indices.amin(1).tolist(), indices.amax(1).tolist(), strict=True)
    ):
        if low < 0 or high >= size[dim]:
            raise IndexError(
                f"sparse_coo_tensor: index {low if low < 0 else high} is out of range "
                f"for dim {dim} of size {size[dim]}"
            )


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: DType | str | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A sparse tensor of `values` (n, ...) at `indices` (sparse dims, n), zero elsewhere.

    size: by default the least that holds the indices. Gradients reach `values`. With a size alone,
    `sparse_coo_tensor((2, 3))`, it holds nothing. ShapeError where sizes do not fit each other,
    IndexError for indices out of range.

    `dtype` and `device` are those of the values; `requires_grad`: they need a gradient;
    `is_coalesced` as `coalesce` would leave it. `check_invariants` and `pin_memory` change nothing.
    """
    if values is None and size is None:  # a size alone
        size = tuple(indices)
        indices = f.zeros(len(size), 0, dtype=int64, device=device)
        values = f.zeros(0, dtype=dtype or get_default_dtype(), device=device)
    values = values if isinstance(values, Tensor) else tensor(values, dtype=dtype, device=device)
    if dtype is not None or device is not None:
        values = values.to(dtype=as_dtype(dtype or values.dtype), device=device)
    places = indices if isinstance(indices, Tensor) else as_tensor(indices)
    places = places.to(dtype=int64, device=values.device)
    places = places.reshape(1, -1) if places.ndim == 1 and values.ndim else places
    values = values.reshape(1) if not values.ndim else values
    if places.ndim != 2 or places.shape[1] != values.shape[0]:
        raise ShapeError(
            f"sparse_coo_tensor: indices {places.shape} are not (sparse dims, n) for "
            f"values {values.shape}"
        )
    if size is None:
        if not places.shape[1]:
            raise ShapeError("sparse_coo_tensor: without indices a size is needed")
        size = (*(n + 1 for n in places.amax(1).tolist()), *values.shape[1:])
    size = tuple(int(n) for n in size)
    if (
        len(size) != places.shape[0] + values.ndim - 1
        or size[places.shape[0] :] != values.shape[1:]
    ):
        raise ShapeError(
            f"sparse_coo_tensor: size {size} does not fit indices {places.shape} and "
            f"values {values.shape}"
        )
    _ranges(places, size)
    sparse = SparseTensor(places, values, size, bool(is_coalesced))
    return sparse.requires_grad_() if requires_grad else sparse


def check_sparse_dim(
    x: Tensor,
    sparse_dim: int | None,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> int | None:
    """How many dims `to_sparse` is asked to give indices, None where it is not.

    Its arguments: `x`, `sparse_dim`, `layout`, `blocksize`, `dense_dim`, and what it raises.
    """
    if layout is not None and "coo" not in str(layout):
        raise NotImplementedError(f"to_sparse: {layout} is not supported; supported: sparse_coo")
    if blocksize is not None:
        raise NotImplementedError("to_sparse: blocksize is not supported; sparse_coo has no blocks")
    dims = sparse_dim if dense_dim is None else x.ndim - dense_dim
    both = sparse_dim is not None and dense_dim is not None
    if both or (dims is not None and not min(x.ndim, 1) <= dims <= x.ndim):
        raise ArgumentError(
            f"to_sparse: sparse_dim is {sparse_dim}, dense_dim {dense_dim}, x {x.shape}; give one: "
            f"sparse_dim from 1 to {x.ndim}, or dense_dim from 0 to {x.ndim - 1}"
        )
    return dims


def to_sparse(
    x: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> SparseTensor:
    """The elements that are not zero, or the slices of the last dims that are not.

    `x` is dense; the first `sparse_dim` dims, by default all but the last `dense_dim`, get
    indices. Raises NotImplementedError for another `layout` than that of coordinates and for a
    `blocksize`, ValueError for a number of dims that x has not, and for both numbers.
    """
    dims = check_sparse_dim(x, sparse_dim, layout, blocksize, dense_dim)
    dims = x.ndim if dims is None else dims
    rest = tuple(range(dims, x.ndim))
    indices = ((x != 0).sum(rest) > 0 if rest else x != 0).nonzero().t().contiguous()
    return SparseTensor(indices, x[tuple(indices)], x.shape, True)


def typed(dtype: str) -> Callable[..., SparseTensor]:
    """torch.sparse.FloatTensor and its like: (indices, values, size), or sizes alone."""

    def make(*args: Any, device: Any = None) -> SparseTensor:
        if not args or isinstance(args[0], int):
            return sparse_coo_tensor(args or (0,), dtype=dtype, device=device)
        return sparse_coo_tensor(*args, dtype=dtype, device=device)

    make.__doc__ = f"A sparse tensor of {dtype}: indices, values and a size, or sizes alone."
    return make
