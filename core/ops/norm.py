"""Softmax and its logarithm; layer and root-mean-square normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import normalize_dim
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.common import floating
from rushlight.core.ops.declare import method, network, public
from rushlight.core.ops.movement import owned
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer_softmax(x: Meta, *, dim: int) -> Meta:
    return x.fresh()


def _softmax_grad(c: Context, g: Tensor, out: Tensor) -> Tensor:
    # The Jacobian is diag(s) - s s^T, so its product with g is s * (g - <g, s>).
    return out * (g - (g * out).sum(c.attrs["dim"], keepdim=True))


def _log_softmax_grad(c: Context, g: Tensor, out: Tensor) -> Tensor:
    return g - out.exp() * g.sum(c.attrs["dim"], keepdim=True)


SOFTMAX = Op("softmax", infer=_infer_softmax, grads=(rule(_softmax_grad, "out"),), batch="dim")
LOG_SOFTMAX = Op(
    "log_softmax", infer=_infer_softmax, grads=(rule(_log_softmax_grad, "out"),), batch="dim"
)


def _implicit(dim: int | None, x: Tensor) -> int:
    return dim if dim is not None else 0 if x.ndim in (0, 1, 3) else 1


@public
@network
@method()
@casts(accelerator="float32")
def softmax(x: Tensor, dim: int | None = None, dtype: DType | str | None = None) -> Tensor:
    """exp(x) along `dim`, scaled to sum to one; same shape and dtype as `x`.

    Without a dim, as in torch's functional module: 0 for 0, 1 or 3 dims, else 1.

    Subtracts the row maximum first, so large inputs do not overflow. A row that is all -inf gives
    nan, as in PyTorch. Raises IndexError if `dim` is not a dim of `x`.
    """
    d = normalize_dim("softmax", _implicit(dim, x), x.shape)
    x = floating("softmax", x if dtype is None else x.to(as_dtype(dtype)))
    return x.reshape(1).softmax(0).reshape() if x.ndim == 0 else SOFTMAX(x, dim=d)


@public
@network
@method()
@casts(accelerator="float32")
def log_softmax(x: Tensor, dim: int | None = None, dtype: DType | str | None = None) -> Tensor:
    """log(softmax(x)) along `dim`, more exact than in two steps; same shape.

    `x` is converted to `dtype` first. Raises IndexError for a dim that there is not.
    """
    d = normalize_dim("log_softmax", _implicit(dim, x), x.shape)
    x = floating("log_softmax", x if dtype is None else x.to(as_dtype(dtype)))
    return x.reshape(1).log_softmax(0).reshape() if x.ndim == 0 else LOG_SOFTMAX(x, dim=d)


def _infer_norm(x: Meta, weight: Meta | None, bias: Meta | None, *, eps: float) -> Meta:
    return x.fresh()


def _sum_rows(g: Tensor) -> Tensor:
    return g.sum(tuple(range(g.ndim - 1))) if g.ndim > 1 else g


def _layer_norm_grad(
    c: Context, g: Tensor, x: Tensor, weight: Tensor | None
) -> tuple[Tensor | None, ...]:
    centred = x - x.mean(-1, keepdim=True)
    inverse = ((centred * centred).mean(-1, keepdim=True) + c.attrs["eps"]).rsqrt()
    normal = centred * inverse
    gx = None
    if c.needs[0]:
        gn = g if weight is None else g * weight
        along = normal * (gn * normal).mean(-1, keepdim=True)
        gx = inverse * (gn - gn.mean(-1, keepdim=True) - along)
    return (
        gx,
        _sum_rows(g * normal) if c.needs[1] else None,
        _sum_rows(g) if c.needs[2] else None,
    )


def _rms_norm_grad(
    c: Context, g: Tensor, x: Tensor, weight: Tensor | None
) -> tuple[Tensor | None, ...]:
    inverse = ((x * x).mean(-1, keepdim=True) + c.attrs["eps"]).rsqrt()
    normal = x * inverse
    gx = None
    if c.needs[0]:
        gn = g if weight is None else g * weight
        gx = inverse * (gn - normal * (gn * normal).mean(-1, keepdim=True))
    return gx, _sum_rows(g * normal) if c.needs[1] else None


def _infer_rms(x: Meta, weight: Meta | None, *, eps: float) -> Meta:
    return x.fresh()


LAYER_NORM = Op("layer_norm", infer=_infer_norm, joint=rule(_layer_norm_grad, 0, 1))
RMS_NORM = Op("rms_norm", infer=_infer_rms, joint=rule(_rms_norm_grad, 0, 1))


def _last(name: str, x: Tensor, shape: Sequence[int] | int, *parts: Tensor | None) -> int:
    """The number of elements of the normalised dims; checks the dims, weight and bias."""
    want = (shape,) if isinstance(shape, int) else tuple(shape)
    if not x.dtype.is_floating_point and (x.dtype.kind != "c" or name != "rms_norm"):
        raise TypeMismatch(f"{name}: x is {x.dtype.name}; it must be a floating dtype")
    if not want or x.shape[-len(want) :] != want:
        raise ShapeError(f"{name}: x is {x.shape}, whose last dims are not {want}")
    for operand in parts:
        if operand is not None and operand.shape != want:
            raise ShapeError(f"{name}: weight or bias is {operand.shape}; it must be {want}")
    count = 1
    for n in want:
        count *= n
    return count


@public
@network
@casts(accelerator="float32")
def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int] | int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dims (Ba et al., 2016).

    normalized_shape: the sizes of those dims; weight and bias have that shape or are None. Same
    shape as x.

    Raises ShapeError for an x that does not end in that shape.
    """
    n = _last("layer_norm", x, normalized_shape, weight, bias)
    rows = x.reshape(*x.shape[: x.ndim - _rank(normalized_shape)], n)
    parts = [None if p is None else p.reshape(n).to(x.dtype) for p in (weight, bias)]
    return owned(LAYER_NORM(rows, *parts, eps=eps).reshape(*x.shape))


@public
@network
@casts(accelerator="float32")
def rms_norm(
    x: Tensor,
    normalized_shape: Sequence[int] | int,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dims (Zhang and Sennrich, 2019).

    eps=None is the machine epsilon of the dtype of x, as in torch.

    `normalized_shape` has the sizes of those dims. Raises ShapeError for an x that does not end in
    them.
    """
    eps = _STEP.get(x.dtype.name, 2.0**-23) if eps is None else eps
    n = _last("rms_norm", x, normalized_shape, weight)
    rows = x.reshape(*x.shape[: x.ndim - _rank(normalized_shape)], n)
    scale = None if weight is None else weight.reshape(n).to(x.dtype)
    if x.dtype.kind == "c":  # by the square, not by the absolute value, as in torch
        normal = rows * (rows.square().mean(-1, keepdim=True) + eps).rsqrt()
        return (normal if scale is None else normal * scale).reshape(*x.shape)
    return owned(RMS_NORM(rows, scale, eps=eps).reshape(*x.shape))


_STEP = {"float64": 2.0**-52, "complex128": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def _rank(shape: Sequence[int] | int) -> int:
    return 1 if isinstance(shape, int) else len(shape)
