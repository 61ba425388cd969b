"""The ops as methods of Tensor, one line each."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core import dtype as _d
from rushlight.core import ops
from rushlight.core.op import Meta

if TYPE_CHECKING:
    from rushlight.core.layout import Shape
    from rushlight.core.tensor import Tensor


def _where(x: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor where `condition` (bool) holds and `other` elsewhere."""
    return ops.where(condition, x, other)


def _reversed(x: Tensor) -> Tensor:
    """A view with all dims in reverse order."""
    return ops.permute(x, *range(x.ndim - 1, -1, -1))


def _swapped(x: Tensor) -> Tensor:
    """A view with the last two dims exchanged."""
    return ops.transpose(x, -1, -2)


def _cpu(x: Tensor) -> Tensor:
    """On the cpu device."""
    return x.to("cpu")


def _as(dtype: _d.DType) -> Callable[[Tensor], Tensor]:
    def call(x: Tensor) -> Tensor:
        return x.to(dtype)

    call.__doc__ = f"The elements as {dtype.name}; the tensor itself where they are already."
    return call


class Methods(Meta):
    """Every op with the tensor as its first argument; `x.softmax(0)` is `softmax(x, 0)`."""

    __slots__ = ()

    # Arithmetic and comparison.
    add, sub, mul, div, pow = ops.add, ops.sub, ops.mul, ops.div, ops.pow
    floor_divide, remainder = ops.floor_divide, ops.remainder
    maximum, minimum, clamp = ops.maximum, ops.minimum, ops.clamp
    eq, ne, lt, le, gt, ge = ops.eq, ops.ne, ops.lt, ops.le, ops.gt, ops.ge
    logical_and, logical_or, logical_xor = ops.logical_and, ops.logical_or, ops.logical_xor
    bitwise_and, bitwise_or, bitwise_xor = ops.bitwise_and, ops.bitwise_or, ops.bitwise_xor
    __add__ = __radd__ = ops.add
    __mul__ = __rmul__ = ops.mul
    __sub__, __rsub__ = ops.sub, ops.rsub
    __truediv__, __rtruediv__ = ops.div, ops.rdiv
    __floordiv__, __rfloordiv__ = ops.floor_divide, ops.rfloordiv
    __mod__, __rmod__ = ops.remainder, ops.rmod
    __pow__, __rpow__ = ops.pow, ops.rpow
    __matmul__ = ops.matmul
    __neg__, __abs__, __invert__ = ops.neg, ops.abs, ops.bitwise_not
    __eq__, __ne__, __lt__ = ops.eq, ops.ne, ops.lt  # type: ignore[assignment]
    __le__, __gt__, __ge__ = ops.le, ops.gt, ops.ge
    __and__ = __rand__ = ops.bitwise_and
    __or__ = __ror__ = ops.bitwise_or
    __xor__ = __rxor__ = ops.bitwise_xor

    # Elementwise functions.
    neg, abs, sign, square, reciprocal = ops.neg, ops.abs, ops.sign, ops.square, ops.reciprocal
    floor, ceil, trunc, round = ops.floor, ops.ceil, ops.trunc, ops.round
    exp, expm1, log, log1p, log2, log10 = (
        ops.exp, ops.expm1, ops.log, ops.log1p, ops.log2, ops.log10
    )  # fmt: skip
    sqrt, rsqrt, erf = ops.sqrt, ops.rsqrt, ops.erf
    sin, cos, tan, asin, acos, atan = ops.sin, ops.cos, ops.tan, ops.asin, ops.acos, ops.atan
    sinh, cosh, tanh = ops.sinh, ops.cosh, ops.tanh
    sigmoid, relu, silu, gelu = ops.sigmoid, ops.relu, ops.silu, ops.gelu
    isnan, isinf, isfinite = ops.isnan, ops.isinf, ops.isfinite
    logical_not, bitwise_not = ops.logical_not, ops.bitwise_not
    clone, contiguous, masked_fill = ops.clone, ops.contiguous, ops.masked_fill

    # In place.
    copy_, add_, sub_, mul_, div_ = ops.copy_, ops.add_, ops.sub_, ops.mul_, ops.div_
    zero_, fill_, clamp_ = ops.zero_, ops.fill_, ops.clamp_
    __iadd__, __isub__, __imul__, __itruediv__ = ops.add_, ops.sub_, ops.mul_, ops.div_

    # Reductions.
    sum, mean, var, std, prod, norm = ops.sum, ops.mean, ops.var, ops.std, ops.prod, ops.norm
    amax, amin, argmax, argmin = ops.amax, ops.amin, ops.argmax, ops.argmin
    max, min, any, all = ops.max, ops.min, ops.any, ops.all
    logsumexp, cumsum = ops.logsumexp, ops.cumsum

    # Views and movement.
    view, reshape, flatten, unflatten = ops.view, ops.reshape, ops.flatten, ops.unflatten
    permute, transpose, t, expand = ops.permute, ops.transpose, ops.t, ops.expand
    broadcast_to, squeeze, unsqueeze = ops.broadcast_to, ops.squeeze, ops.unsqueeze
    narrow, split, chunk, unbind, unfold = (
        ops.narrow, ops.split, ops.chunk, ops.unbind, ops.unfold
    )  # fmt: skip
    repeat, repeat_interleave, flip, roll = ops.repeat, ops.repeat_interleave, ops.flip, ops.roll
    tril, triu = ops.tril, ops.triu

    # Indexing and sorting.
    __getitem__ = ops.getitem
    gather, scatter, scatter_add = ops.gather, ops.scatter, ops.scatter_add
    index_select, index_add = ops.index_select, ops.index_add
    masked_select, nonzero = ops.masked_select, ops.nonzero
    masked_select_async, nonzero_async = ops.masked_select_async, ops.nonzero_async
    sort, argsort, topk = ops.sort, ops.argsort, ops.topk

    # Linear algebra and networks.
    matmul, softmax, log_softmax = ops.matmul, ops.softmax, ops.log_softmax

    # Others of the same shape.
    zeros_like, ones_like, full_like = ops.zeros_like, ops.ones_like, ops.full_like
    where, cpu = _where, _cpu
    T, mT = property(_reversed), property(_swapped)

    # In another dtype.
    double, half, bfloat16 = _as(_d.float64), _as(_d.float16), _as(_d.bfloat16)
    long, short = _as(_d.int64), _as(_d.int16)
    float, int, bool = _as(_d.float32), _as(_d.int32), _as(_d.bool_)

    def dim(self) -> builtins.int:
        """Number of dims."""
        return self.ndim

    def size(self, dim: builtins.int | None = None) -> Any:
        """The shape, or the size of one dim."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self) -> Shape:
        """How many elements further on the next element of each dim lies."""
        return self.layout.strides

    def storage_offset(self) -> builtins.int:
        """Where in the storage the first element lies, in elements."""
        return self.layout.offset

    def is_contiguous(self) -> builtins.bool:
        """Whether the elements lie row-major without gaps."""
        return self.layout.is_contiguous
