"""torch.nn.attention.bias: causal masks of queries and keys of two lengths, as bool tensors."""

from __future__ import annotations

from enum import IntEnum

import rushlight.core.functional.declared as f
from rushlight.core.tensor.tensor import Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Which corner the diagonal begins or ends in."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


def CausalBias(variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Tensor:  # noqa: N802
    """The mask (seq_len_q, seq_len_kv), True where a key is seen, for scaled dot product attention.

    torch has a class of that name, whose tensors serve as masks in the same way.
    """
    shift = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
    return f.ones(seq_len_q, seq_len_kv, dtype="bool").tril(shift)


def causal_upper_left(*size: int) -> Tensor:
    """Query i sees keys 0 to i: (queries, keys)."""
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> Tensor:
    """The last query sees all keys, the one before it one less: (queries, keys)."""
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
