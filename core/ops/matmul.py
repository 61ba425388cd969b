"""Matrix products: matmul with broadcast batches, linear and its transpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import DType, result_type
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import broadcast_shapes
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.common import beside, check_tensors
from rushlight.core.ops.declare import linalg, method, network, public
from rushlight.core.ops.movement import owned
from rushlight.core.ops.unary import turned
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer_matmul(a: Meta, b: Meta) -> Meta:
    return a.fresh((*a.shape[:-1], b.shape[-1]))


def _left_grad(c: Context, g: Tensor, b: Tensor) -> Tensor:
    return matmul(g, turned(b).transpose(-1, -2))


def _right_grad(c: Context, g: Tensor, a: Tensor) -> Tensor:
    return matmul(turned(a).transpose(-1, -2), g)


MATMUL = Op(
    "matmul", infer=_infer_matmul, grads=(rule(_left_grad, 1), rule(_right_grad, 0)), complex=True
)


@public
@linalg("matmul")
@method("matmul", "__matmul__")
@casts("low")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Matrix product over the last two dims, (..., n, k) @ (..., k, m) = (..., n, m).

    Leading dims broadcast; a 1-d operand is a row on the left and a column on the right, and its
    dim is removed. Raises ValueError with both shapes if the inner sizes differ.
    """
    if not isinstance(a, Meta) or not isinstance(b, Meta):
        a, b = beside("matmul", (a, b))
        check_tensors("matmul", a=a, b=b)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape}; 0-d tensors have no product")
    dtype = result_type((a.dtype, 2), (b.dtype, 2))
    a, b = a.to(dtype), b.to(dtype)
    if a.ndim == 1 or b.ndim == 1:
        out = matmul(a.unsqueeze(0) if a.ndim == 1 else a, b.unsqueeze(1) if b.ndim == 1 else b)
        out = out.squeeze(-2) if a.ndim == 1 else out
        return owned(out.squeeze(-1) if b.ndim == 1 else out)
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"matmul: {a.shape} @ {b.shape}: the last dim of the first is {a.shape[-1]}, the "
            f"one before the last of the second {b.shape[-2]}; they must be equal"
        )
    if b.ndim == 2 and a.ndim > 2:
        # One product of all rows instead of one per batch.
        rows = a.numel() // a.shape[-1] if a.shape[-1] else _rows(a)
        out = MATMUL(a.reshape(rows, a.shape[-1]), b)
        return owned(out.reshape(*a.shape[:-1], b.shape[-1]))
    batch = broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])
    return MATMUL(a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]))


@method("__rmatmul__")
@casts("low")
def reversed_matmul(b: Tensor, a: Tensor) -> Tensor:
    """a @ b, with the operands exchanged."""
    return matmul(a, b)


def _rows(a: Tensor) -> int:
    rows = 1
    for n in a.shape[:-1]:
        rows *= n
    return rows


def _infer_linear(x: Meta, weight: Meta, bias: Meta | None) -> Meta:
    return x.fresh((*x.shape[:-1], weight.shape[0]))


def _infer_linear_t(grad: Meta, weight: Meta) -> Meta:
    return grad.fresh((*grad.shape[:-1], weight.shape[1]))


def _outer(g: Tensor, x: Tensor) -> Tensor:
    """Sum over all rows of g^T x: (*, n), (*, k) -> (n, k)."""
    return matmul(g.reshape(_rows(g), g.shape[-1]).t(), x.reshape(_rows(x), x.shape[-1]))


def _dtype(c: Context, index: int) -> DType:
    meta = c.inputs[index]
    assert meta is not None
    return meta.dtype


def _bias_grad(g: Tensor) -> Tensor:
    return g.sum(tuple(range(g.ndim - 1))) if g.ndim > 1 else g


LINEAR: Op = Op(
    "linear",
    infer=_infer_linear,
    grads=(
        rule(lambda c, g, weight: LINEAR_T(g, weight), 1),
        rule(lambda c, g, x: _outer(g, x).to(_dtype(c, 1)), 0),
        rule(lambda c, g: _bias_grad(g).to(_dtype(c, 2))),
    ),
    blocks=(1,),
)
LINEAR_T: Op = Op(
    "linear_t",
    infer=_infer_linear_t,
    grads=(
        rule(lambda c, g, weight: LINEAR(g, weight, None), 1),
        rule(lambda c, g, grad: _outer(grad, g).to(_dtype(c, 1)), 0),
    ),
    blocks=(1,),
)


def check_float(name: str, **tensors: Any) -> None:
    """Raise TypeError for the first of `tensors` that is not of a floating dtype."""
    for label, t in tensors.items():
        if t is not None and t.dtype.kind not in "fq":
            raise TypeMismatch(f"{name}: {label} is {t.dtype.name}; it must be a floating dtype")


def check_width(name: str, x: Tensor, label: str, t: Tensor) -> None:
    """Raise TypeMismatch for tensors of two dtypes, of which one is float64 or not floating.

    Narrower floating dtypes are how weights are stored, and are computed with as they are.
    """
    a, b = x.dtype, t.dtype
    if a.kind == "q":
        raise TypeError(f"{name}: input is {a.name}, which is quantized; dequantize() it first")
    if a.kind != "f" or b.kind not in "fq" or ("float64" in (a.name, b.name) and b.kind == "f"):
        raise TypeMismatch(
            f"{name}: input is {x.dtype.name}, {label} is {t.dtype.name}; they must have one dtype "
            f"(input.to({t.dtype.name!r}))"
        )


@public
@network
@casts("low")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (..., k), (n, k), (n,) -> (..., n), in the dtype of the input.

    The weight may be of any narrow floating or quantized dtype; it is used as stored. A weight
    (k,) gives (...). float64 and integers go with their own dtype only.

    Raises ShapeError for features that do not fit, TypeError for dtypes that do not.
    """
    x = input
    if not (isinstance(x, Meta) and isinstance(weight, Meta)):
        check_tensors("linear", input=input, weight=weight)
    if x.dtype is not weight.dtype or bias is not None:
        for label, t in (("weight", weight), ("bias", bias)):
            if t is not None and t.dtype is not x.dtype:
                check_width("linear", x, label, t)
    if weight.ndim not in (1, 2) or x.ndim == 0 or x.shape[-1] != weight.shape[-1]:
        have = x.shape[-1] if x.ndim else "no"
        takes = weight.shape[-1] if weight.ndim in (1, 2) else "(out, in) features"
        raise ShapeError(
            f"linear: x has {have} features in its last dim, weight {weight.shape} takes {takes}; "
            f"x is {x.shape}"
        )
    if bias is not None and bias.shape != weight.shape[:-1]:
        raise ShapeError(
            f"linear: bias is {bias.shape}; weight {weight.shape} wants {weight.shape[:-1]}"
        )
    if weight.ndim == 1 or x.dtype.kind != "f":
        out = matmul(x, weight.t())
        return out if bias is None else out + bias
    return LINEAR(x, weight, bias)


def linear_t(grad: Tensor, weight: Tensor) -> Tensor:
    """grad @ weight: (..., n), (n, k) -> (..., k); the gradient of `linear` to its input."""
    check_float("linear_t", grad=grad, weight=weight)
    if weight.ndim != 2 or grad.ndim == 0 or grad.shape[-1] != weight.shape[0]:
        raise ShapeError(f"linear_t: {grad.shape} @ {weight.shape} does not fit")
    return LINEAR_T(grad, weight)
