"""Lengths of token ids: within the context of a model, and after the tokens that a cache holds."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.generation.cache import Cache


def check_length(model: Any, ids: Tensor, held: int, limit: int | None = None) -> None:
    """Raise ValueError where ids (batch, length) do not fit the context after `held` tokens.

    limit: the tokens of the context, where these are not the model's.
    """
    limit = model.context_length if limit is None else limit
    if ids.ndim != 2 or held + ids.shape[1] > limit:
        raise ValueError(
            f"{model.config.model_type}: ids are {ids.shape}, after {held} earlier tokens; they "
            f"must be (batch, length), {limit} tokens in all"
        )


def begin_decoding(
    model: Any, ids: Tensor, cache: Cache | None, mask: Tensor | None
) -> tuple[dict[str, Any], Tensor | int]:
    """The options of a decoder's attention for ids (batch, length), and where the first one stands.

    Makes room in the cache. mask (batch, length), without a cache: false or zero for padding.
    """
    check_length(model, ids, 0 if cache is None else cache.longest)
    if cache is not None:
        cache.reserve(ids.shape[1])
        return {"causal": True, "q_offset": cache.lengths}, cache.lengths
    return {"causal": True, **({} if mask is None else {"mask": (mask != 0)[:, None, None, :]})}, 0
