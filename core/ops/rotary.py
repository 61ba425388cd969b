"""Rotary positions: pairs of features rotated by an angle that grows with the position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.basis.errors import ShapeError
from rushlight.core.ops.declare import public
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer_rope(x: Meta, cos: Meta, sin: Meta, *, interleaved: bool) -> Meta:
    return x.fresh()


def _rope_x(c: Context, g: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return ROPE(g, cos, -sin, **c.attrs)


def _halves(x: Tensor, n: int, interleaved: bool) -> tuple[Tensor, Tensor]:
    if interleaved:
        return x[..., 0 : 2 * n : 2], x[..., 1 : 2 * n : 2]
    return x[..., :n], x[..., n : 2 * n]


def _rope_cos(c: Context, g: Tensor, x: Tensor, cos: Tensor) -> Tensor:
    a, b = _halves(x, cos.shape[-1], c.attrs["interleaved"])
    ga, gb = _halves(g, cos.shape[-1], c.attrs["interleaved"])
    return ga * a + gb * b


def _rope_sin(c: Context, g: Tensor, x: Tensor, sin: Tensor) -> Tensor:
    a, b = _halves(x, sin.shape[-1], c.attrs["interleaved"])
    ga, gb = _halves(g, sin.shape[-1], c.attrs["interleaved"])
    return gb * a - ga * b


ROPE = Op(
    "rope",
    infer=_infer_rope,
    grads=(rule(_rope_x, 1, 2), rule(_rope_cos, 0, 1), rule(_rope_sin, 0, 2)),
    batch="same",
)


@public
def rope(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False) -> Tensor:
    """Rotary positions (Su et al., 2021): pairs of the last dim of `x`, each rotated by an angle.

    cos and sin are (..., length, r/2) and broadcast over the leading dims of x (..., length, d);
    the first r of the d features are rotated, the rest is unchanged. A pair is (i, i + r/2), or
    (2i, 2i + 1) if `interleaved`. Same shape and dtype as x.

    Raises ShapeError for angles that do not fit.
    """
    r = 2 * cos.shape[-1]
    if cos.shape != sin.shape or r > x.shape[-1]:
        raise ShapeError(f"rope: cos {cos.shape} and sin {sin.shape} do not fit x {x.shape}")
    shape = (*x.shape[:-1], r // 2)
    parts = [p.to(x.dtype).expand(*shape) for p in (cos, sin)]
    return ROPE(x, *parts, interleaved=interleaved)
