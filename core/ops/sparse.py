"""Row-sparse gradients: the rows of a table that were used, of `embedding(sparse=True)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.basis.errors import ShapeError
from rushlight.core.jit import capture
from rushlight.core.ops import indexing
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import is_grad_enabled, no_grad
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.backends import Device
    from rushlight.core.basis.dtype import DType
    from rushlight.core.tensor.tensor import Tensor


class RowSparse:
    """A gradient (rows, width) that is zero but in some rows: what torch has as a sparse tensor.

    Row indices (n,) may occur several times; their values (n, width) then add up. It has what
    optimizers ask of a gradient; for anything else take `to_dense()`.
    """

    is_sparse, requires_grad, needs_grad, node = True, False, False, None

    def __init__(
        self, rows: Tensor, values: Tensor, shape: tuple[int, ...], coalesced: bool = False
    ) -> None:
        self.rows, self._data, self.shape, self._coalesced = rows, values, shape, coalesced

    @property
    def dtype(self) -> DType:
        """That of the values."""
        return self._data.dtype

    @property
    def device(self) -> Device:
        """Where they are."""
        return self._data.device

    def numel(self) -> int:
        """Elements of the dense gradient."""
        return self.shape[0] * self.shape[1]

    def is_coalesced(self) -> bool:
        """Whether every row occurs once, in order."""
        return self._coalesced

    def coalesce(self) -> RowSparse:
        """With every row once, in order. The indices are read."""
        if self._coalesced:
            return self
        rows, where = self.rows.unique(return_inverse=True)
        values = self._data.new_zeros(rows.shape[0], self.shape[1]).index_add(0, where, self._data)
        return RowSparse(rows, values, self.shape, True)

    def _indices(self) -> Tensor:
        return self.rows.unsqueeze(0)

    def _values(self) -> Tensor:
        return self._data

    def _nnz(self) -> int:
        return self.rows.shape[0]

    def indices(self) -> Tensor:
        """(1, n), as in torch. RuntimeError unless it is coalesced."""
        if not self._coalesced:
            raise RuntimeError(
                "Cannot get indices on an uncoalesced tensor, please call .coalesce() first"
            )
        return self._indices()

    def values(self) -> Tensor:
        """(n, width). RuntimeError unless it is coalesced."""
        self.indices()
        return self._data

    def with_values(self, values: Tensor) -> RowSparse:
        """The coalesced gradient with these values."""
        return RowSparse(self.coalesce().rows, values, self.shape, True)

    def to_dense(self) -> Tensor:
        """The tensor."""
        zeros = self._data.new_zeros(*self.shape)
        return zeros.index_add(0, self.rows, self._data)

    def clone(self) -> RowSparse:
        """With memory of its own."""
        return RowSparse(self.rows, self._data.clone(), self.shape, self._coalesced)

    def detach(self) -> RowSparse:
        """Over the same memory."""
        return RowSparse(self.rows, self._data.detach(), self.shape, self._coalesced)

    def zero_(self) -> RowSparse:
        """Drop all rows."""
        self.rows, self._data, self._coalesced = self.rows[:0], self._data[:0], True
        return self

    def add_(self, other: RowSparse) -> RowSparse:
        """Add another one."""
        total = self + other
        self.rows, self._data, self._coalesced = total.rows, total._data, False
        return self

    def __add__(self, other: Any) -> Any:
        """The sum with another one, or with a dense tensor, which is dense."""
        if other.shape != self.shape:
            raise ShapeError(f"add: {self.shape} and {other.shape}")
        if not other.is_sparse:
            return other.index_add(0, self.rows, self._data.to(other.dtype))
        return RowSparse(cat([self.rows, other.rows]), cat([self._data, other._data]), self.shape)

    def __mul__(self, by: Any) -> RowSparse:
        return RowSparse(self.rows, self._data * by, self.shape, self._coalesced)

    def __neg__(self) -> RowSparse:
        return self * -1

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a sparse gradient has no {name!r}; take grad.to_dense(), or "
            "sparse=False in the embedding"
        )

    def __repr__(self) -> str:
        return f"RowSparse(shape={self.shape}, nnz={self._nnz()}, dtype={self.dtype.name})"


def _infer(weight: Meta, index: Meta, *, padding: int | None) -> Meta:
    return weight.fresh((*index.shape, weight.shape[1]))


def _grad(c: Context, g: Tensor, index: Tensor) -> RowSparse:
    if is_grad_enabled():
        raise RuntimeError("embedding: a sparse gradient is not differentiated; use sparse=False")
    capture.refuse("how many rows a sparse gradient has depends on values")
    weight = c.inputs[0]
    assert weight is not None
    rows, values = index.reshape(-1), g.reshape(index.numel(), weight.shape[1])
    if c.attrs["padding"] is not None:
        counted = (rows != c.attrs["padding"]).nonzero().reshape(-1)
        rows, values = rows[counted], values[counted]
    return RowSparse(rows.to("int64"), values, weight.shape)


# No backend runs this op: it is recorded by hand.
EMBEDDING_ROWS = Op("embedding_sparse", infer=_infer, grads=(rule(_grad, 1),), register=False)


def embedding_rows(
    name: str, weight: Tensor, index: Tensor, padding: int | None, by_use: bool
) -> Tensor:
    """Rows of a leaf, whose gradient is row-sparse and without row `padding`."""
    if by_use:
        raise RuntimeError(f"{name}: scale_grad_by_freq is not supported with sparse gradients")
    if weight.node is not None:
        raise RuntimeError(
            f"{name}: sparse=True is for a leaf; this weight is computed from "
            "others, so use sparse=False"
        )
    with no_grad():
        out = indexing.embedding(weight, index)
    if is_grad_enabled():
        EMBEDDING_ROWS.record(out, (weight, index), {"padding": padding})
    return out
