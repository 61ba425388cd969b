"""torch.distributions.utils: conversions between probabilities and logits, and their kin."""

from __future__ import annotations

from typing import Any

import rushlight.core.functional.declared as f
from rushlight.core.basis.limits import finfo
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """All values as tensors of one shape."""
    like = next((v for v in values if isinstance(v, Tensor)), None)
    dtype, device = (None, None) if like is None else (like.dtype, like.device)
    tensors = [
        v if isinstance(v, Tensor) else tensor(v, dtype=dtype, device=device) for v in values
    ]
    return tuple(f.broadcast_tensors(*tensors))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities within eps to 1 - eps."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """sigmoid of logits, or softmax over the last dim."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Their log, or log odds; clamped first."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """(..., m) as the lower triangles of matrices, row by row."""
    n = round(
        (
            -(1 + 2 * diag)
            + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5
        )
        / 2
    )
    rows, cols = f.tril_indices(n, n, diag)
    out = vec.new_zeros((*vec.shape[:-1], n, n))
    out[..., rows, cols] = vec
    return out


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of matrices (..., n, n), row by row."""
    n = mat.shape[-1]
    rows, cols = f.tril_indices(n, n, diag)
    return mat[..., rows, cols]


class lazy_property:
    """A property that is computed at its first use and kept as an attribute."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return self
        value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
