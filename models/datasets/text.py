"""Texts as blocks of tokens, for language models."""

from __future__ import annotations

from typing import Any

from rushlight.core.basis.dtype import int64
from rushlight.core.tensor.convert import tensor
from rushlight.core.utils.data import TensorDataset


def text_blocks(ids: Any, length: int) -> TensorDataset:
    """Blocks of `length` tokens, each with its targets: the tokens that follow.

    ids: a list, an array or a tensor (n,) of token ids. Samples: (ids (length,), targets
    (length,)), int64; what does not fill a block is left out. ValueError for too few.
    """
    every = tensor(ids, dtype=int64).reshape(-1)
    count = (every.numel() - 1) // length if length > 0 else 0
    if count < 1:
        raise ValueError(
            f"text_blocks: {every.numel()} tokens make no block of {length} and the "
            "token that follows"
        )
    used = every[: count * length + 1]
    return TensorDataset(used[:-1].reshape(count, length), used[1:].reshape(count, length))
