"""Linear layers of a mixture of experts: each row selects one expert."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.ops.binary import where
from rushlight.core.ops.creation import arange
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.join import cat
from rushlight.core.ops.matmul import check_float, matmul
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer(x: Meta, weight: Meta, index: Meta, bias: Meta | None) -> Meta:
    return x.fresh((*x.shape[:-1], weight.shape[1]))


def _infer_t(grad: Meta, weight: Meta, index: Meta) -> Meta:
    return grad.fresh((*grad.shape[:-1], weight.shape[2]))


def _meta(c: Context, index: int) -> Meta:
    meta = c.inputs[index]
    assert meta is not None
    return meta


def _weight_grad(c: Context, left: Tensor, right: Tensor, index: Tensor) -> Tensor:
    """For each expert the sum of left^T right over its rows; memory is that of the rows."""
    weight = _meta(c, 1)
    rows = index.numel()
    left, right = left.reshape(rows, left.shape[-1]), right.reshape(rows, right.shape[-1])
    flat = index.reshape(rows, 1)
    each = []
    for expert in range(weight.shape[0]):
        mine = flat == expert
        # Both are masked, as other rows may hold infinities.
        each.append(matmul(where(mine, left, 0.0).t(), where(mine, right, 0.0)))
    return cat([product.unsqueeze(0) for product in each]).to(weight.dtype)


def _bias_grad(c: Context, g: Tensor, index: Tensor) -> Tensor:
    bias, rows = _meta(c, 3), index.numel()
    g, flat = g.reshape(rows, g.shape[-1]), index.reshape(1, rows)
    experts = arange(bias.shape[0], device=g.device, dtype=index.dtype).reshape(bias.shape[0], 1)
    return matmul((experts == flat).to(g.dtype), g).to(bias.dtype)


LINEAR_EXPERTS: Op = Op(
    "linear_experts",
    infer=_infer,
    grads=(
        rule(lambda c, g, weight, index: LINEAR_EXPERTS_T(g, weight, index), 1, 2),
        rule(lambda c, g, x, index: _weight_grad(c, g, x, index), 0, 2),
        None,
        rule(_bias_grad, 2),
    ),
    blocks=(1,),
)
LINEAR_EXPERTS_T: Op = Op(
    "linear_experts_t",
    infer=_infer_t,
    grads=(
        rule(lambda c, g, weight, index: LINEAR_EXPERTS(g, weight, index, None), 1, 2),
        rule(lambda c, g, grad, index: _weight_grad(c, grad, g, index), 0, 2),
        None,
    ),
    blocks=(1,),
)


@public
@network
def linear_experts(x: Tensor, weight: Tensor, index: Tensor, bias: Tensor | None = None) -> Tensor:
    """Each row times its expert's weight: x[r] @ weight[index[r]].T + bias[index[r]].

    x (..., k), weight (experts, n, k), index (...) of integers, bias (experts, n) -> (..., n), in
    the dtype of x. The weight may be of any storage dtype and is used as stored. Only the
    selected experts' weights are read. For several experts per row, expand x by a dim of index.
    Raises ValueError naming the shapes that do not fit, IndexError for an index that is negative
    or not below the number of experts. Mixtures of experts: Shazeer et al., 2017.
    """
    check_float("linear_experts", x=x, weight=weight, bias=bias)
    if index.dtype.kind not in "ui":
        raise TypeMismatch(
            f"linear_experts: index is {index.dtype.name}; it must be an integer dtype"
        )
    if weight.ndim != 3 or x.ndim == 0 or x.shape[-1] != weight.shape[2]:
        have = x.shape[-1] if x.ndim else "no"
        takes = weight.shape[2] if weight.ndim == 3 else "(experts, out, in) features"
        raise ShapeError(
            f"linear_experts: x has {have} features in its last dim, weight {weight.shape} takes "
            f"{takes}; x is {x.shape}"
        )
    if index.shape != x.shape[:-1]:
        raise ShapeError(
            f"linear_experts: index is {index.shape}; it must be {x.shape[:-1]}, one expert per "
            f"row of x {x.shape}"
        )
    if bias is not None and bias.shape != weight.shape[:2]:
        raise ShapeError(
            f"linear_experts: bias is {bias.shape}; weight {weight.shape} wants {weight.shape[:2]}"
        )
    return LINEAR_EXPERTS(x, weight, index, bias)
