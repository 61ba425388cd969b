"""Sorting along a dim, and the k largest elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import int64
from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.reduce import ValuesIndices
from rushlight.core.tensor.op import Meta, Op

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer_argsort(x: Meta, *, dim: int, descending: bool) -> Meta:
    return x.fresh(dtype=int64)


def _infer_topk(x: Meta, *, k: int, dim: int, largest: bool) -> Meta:
    return x.fresh((*x.shape[:dim], k, *x.shape[dim + 1 :]), int64)


ARGSORT = Op("argsort", infer=_infer_argsort, differentiable=False, batch="dim")
TOPK = Op("topk", infer=_infer_topk, differentiable=False, batch="dim")


@public
@method()
def argsort(x: Tensor, dim: int = -1, descending: bool = False, **kw: Any) -> Tensor:
    """Indices (int64) that sort `x` along `dim`. Always stable; nan counts as the largest.

    `descending`: the largest first; `kw`: stable alone, or TypeError is raised. Raises IndexError
    for a dim that there is not.
    """
    stable = kw.pop("stable", True)
    if kw or not isinstance(stable, bool):
        raise TypeError(f"argsort: unknown arguments {sorted(kw)}")
    d = normalize_dim("argsort", dim, x.shape)
    if x.ndim == 0:
        return x.zeros_like(dtype=int64)
    return ARGSORT(x, dim=d, descending=descending)


@public
@method()
def topk(
    x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> ValuesIndices:
    """The `k` largest (or smallest) along `dim` in order, (values, indices); ties: lowest index.

    Raises ValueError if `dim` has fewer than `k` elements.

    `x` may not be complex; `sorted` changes nothing. Raises IndexError for a dim that there is not.
    """
    d = normalize_dim("topk", dim, x.shape)
    if x.ndim == 0:
        x = x.reshape(1)
        result = topk(x, k, 0, largest)
        return ValuesIndices(result.values.reshape(()), result.indices.reshape(())) if k else result
    if not 0 <= k <= x.shape[d]:
        raise ShapeError(f"topk: k is {k}, dim {dim} of shape {x.shape} has {x.shape[d]} elements")
    index = TOPK(x, k=k, dim=d, largest=largest)
    return ValuesIndices(x.gather(d, index), index)
