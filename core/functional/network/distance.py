"""Distances and angles between vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.creation import of_data, ones_like
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.common import floating, operands
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.join import cat

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
@casts("float32")
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """p-norm distances of the rows of (..., n, k) and (..., m, k): (..., n, m).

    compute_mode: whether those of p = 2 are products, which round |x|^2 where rows are near each
    other: "use_mm_for_euclid_dist" (or "donot_..."), or as it is with more than 25 rows.

    `x1` and `x2` are floating. Raises ShapeError for rows of different lengths, ValueError for
    another mode.
    """
    modes = (
        "use_mm_for_euclid_dist_if_necessary",
        "use_mm_for_euclid_dist",
        "donot_use_mm_for_euclid_dist",
    )
    if compute_mode not in modes:
        raise ValueError(
            f"cdist: compute_mode {compute_mode!r} is not supported; supported: {', '.join(modes)}"
        )
    if min(x1.ndim, x2.ndim) < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(f"cdist: {x1.shape} and {x2.shape} must be rows of one length")
    many = max(x1.shape[-2], x2.shape[-2]) > 25 and compute_mode == modes[0]
    plain = x1.dtype is not x2.dtype or x1.dtype.itemsize < 4
    if p != 2 or plain or not (many or compute_mode == modes[1]):
        return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, -1)
    # |a|^2 + |b|^2 - 2 a b in one product.
    a, b = ((x * x).sum(-1, True) for x in (x1, x2))
    left, right = cat([x1 * -2, a, ones_like(a)], -1), cat([x2, ones_like(b), b], -1)
    square = left @ right.transpose(-1, -2)
    if not square.requires_grad:
        return square.clamp(min=0).sqrt()
    same = square <= 0  # has no slope
    return square.masked_fill(same, 1).sqrt().masked_fill(same, 0)


@public
@network
@casts(accelerator="float32")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`; norms are at least eps.

    `x1` and `x2` are floating. Raises ShapeError for shapes that do not broadcast. IndexError for a
    dim that there is not.
    """
    a, b = operands("cosine_similarity", *(floating("cosine_similarity", x) for x in (x1, x2)))
    na, nb = a.norm(2, dim, True), b.norm(2, dim, True)
    return ((a / na.clamp(min=eps)) * (b / nb.clamp(min=eps))).sum(dim)


@public
@network
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dim.

    `keepdim` leaves the last dim with size 1. Raises ShapeError for shapes that do not broadcast.
    """
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@public
@network
@casts(accelerator="float32")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Distances of all pairs of rows i < j of (n, m): (n (n - 1) / 2,)."""
    if input.ndim != 2 or p < 0:
        raise ShapeError(f"pdist: input {input.shape} must have 2 dims, p {p} not be negative")
    first, second = (
        of_data(places, device=input.device) for places in np.triu_indices(input.shape[0], 1)
    )
    return (input.index_select(0, first) - input.index_select(0, second)).norm(p, -1)
