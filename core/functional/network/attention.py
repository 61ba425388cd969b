"""Attention, also with several heads and their projections (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core.basis.dtype import bool_
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.functional.network.dropout import dropout
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.creation import full, zeros
from rushlight.core.ops.declare import network
from rushlight.core.ops.join import cat
from rushlight.core.ops.matmul import linear
from rushlight.core.ops.norm import softmax

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


# Scores of attention that are in memory at once: 64 MB of float32.
MOST_SCORES = 1 << 24


@network
@casts("low")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T * scale + mask) v over (..., length, features); scale is 1 / sqrt(features).

    attn_mask: bool (True is seen) or added numbers, broadcast to (..., queries, keys). Rows that
    see nothing, all False or all -inf, are zeros and have no gradient. enable_gqa: heads (dim -3)
    of q may be a multiple of those of k and v.

    `query`, `key` and `value` are q, k and v. `dropout_p`: the share of weights that are dropped.
    `is_causal`: a query sees keys up to its own place. Raises ValueError for both this and a mask,
    ShapeError for shapes that do not fit, TypeMismatch for a mask of integers (Vaswani et al.,
    2017).
    """
    if is_causal and attn_mask is not None:
        raise ValueError("scaled_dot_product_attention: give attn_mask or is_causal, not both")
    if (
        min(query.ndim, key.ndim, value.ndim) < 2
        or query.shape[-1] != key.shape[-1]
        or key.shape[-2] != value.shape[-2]
        or (enable_gqa and query.ndim > 2 and query.shape[-3] % max(key.shape[-3], 1))
    ):
        raise ShapeError(
            f"scaled_dot_product_attention: query is {query.shape}, key {key.shape}, value "
            f"{value.shape}; they must be (..., queries, features), (..., keys, features) and "
            "(..., keys, width)" + ", heads of query a multiple of key's" * enable_gqa
        )
    if enable_gqa and query.ndim > 2 and key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    factor = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    query, rows, keys = query * factor, query.shape[-2], key.shape[-2]
    if attn_mask is not None:
        _check("scaled_dot_product_attention", attn_mask, (*query.shape[:-1], keys))
    each = math.prod(query.shape[:-2]) * keys
    step = max(1, MOST_SCORES // max(each, 1))
    blocks = []
    for start in range(0, max(rows, 1), step):  # many scores are made and used in parts
        rows_of_query = query if step >= rows else query[..., start : start + step, :]
        mask = attn_mask
        if mask is not None and step < rows and mask.ndim > 1 and mask.shape[-2] != 1:
            mask = mask[..., start : start + step, :]
        blocks.append(
            _attended(rows_of_query, key, value, mask, dropout_p, start if is_causal else None)
        )
    return blocks[0] if len(blocks) == 1 else cat(blocks, -2)


def _check(name: str, mask: Tensor, scores: tuple[int, ...]) -> None:
    """ShapeError for a mask that does not broadcast to scores, TypeMismatch for integers."""
    _check_dtype(name, "attn_mask", mask)
    paired = zip(reversed(mask.shape), reversed(scores), strict=False)
    if not all(m in (1, n) or (n == 1 and i > 1) for i, (m, n) in enumerate(paired)):
        raise ShapeError(
            f"{name}: attn_mask is {mask.shape}; it must broadcast to "
            f"(..., queries, keys), here {scores}"
        )


def _check_dtype(name: str, which: str, mask: Tensor) -> None:
    if mask.dtype is not bool_ and not mask.dtype.is_floating_point:
        raise TypeMismatch(
            f"{name}: {which} is {mask.dtype.name}; it must be bool or numbers to add, "
            f"such as {which}.bool()"
        )


def _attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    causal: int | None,
) -> Tensor:
    """Attention of scaled queries; causal: the number of the first of them."""
    scores, unseeing = query @ key.transpose(-2, -1), None
    if causal is not None:  # every query sees the first key
        rows, keys = scores.shape[-2:]
        hidden = full((rows, keys), -math.inf, dtype=scores.dtype, device=scores.device)
        scores = scores + hidden.triu(causal + 1)
    elif attn_mask is not None:
        attn_mask, unseeing = opened(attn_mask)
        if attn_mask.dtype is bool_:
            scores = scores.masked_fill(~attn_mask, -math.inf)
        else:
            scores = scores + attn_mask
    weights = softmax(scores, -1)
    out = (dropout(weights, dropout_p) if dropout_p else weights) @ value
    return out if unseeing is None else out.masked_fill(unseeing, 0.0)


def opened(mask: Tensor) -> tuple[Tensor, Tensor]:
    """A mask whose rows that hide every key hide none, and which rows these are (..., 1).

    What attention gives for them is to be replaced: the softmax of a row of -inf is nan.
    """
    if mask.dtype is bool_:
        unseeing = ~mask.any(-1, True)
        return mask | unseeing, unseeing
    unseeing = (mask == -math.inf).all(-1, True)
    return mask.masked_fill(unseeing, 0.0), unseeing


@network
@casts("inside")
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """(output, weights) for inputs (length, n, features) or (length, features).

    Masks: bool (True is hidden) or added numbers; attn_mask (queries, keys) or (n * heads, queries,
    keys), key_padding_mask (n, keys). static_k and static_v (n * heads, keys, head) replace the
    projected keys and values. weights: (n, queries, keys), per head unless averaged, or None. A
    query that sees no key, as in a sample of padding, gets zeros before the last projection.

    `value` goes with key; `num_heads` divides `embed_dim_to_check`. `in_proj_weight` (3 e, e) and
    `in_proj_bias` project all three, or with `use_separate_proj_weight` the three `q_proj_weight`,
    `k_proj_weight`, `v_proj_weight` do; `out_proj_weight` and `out_proj_bias` the result. `bias_k`,
    `bias_v` and, with `add_zero_attn`, zeros are appended. `dropout_p` of weights in `training`.
    `need_weights`, `average_attn_weights`: of the second result; `is_causal` says that attn_mask
    hides what comes later. Raises ShapeError for shapes that do not fit, TypeMismatch for a mask of
    integers.
    """
    e, heads = embed_dim_to_check, num_heads
    if query.shape[-1] != e or heads < 1 or e % heads:
        raise ShapeError(
            f"multi_head_attention_forward: query is {query.shape}; its last dim must be {e}, "
            f"which {heads} heads must divide"
        )
    if key.shape[:-1] != value.shape[:-1] or key.shape[1:-1] != query.shape[1:-1]:
        raise ShapeError(
            f"multi_head_attention_forward: query is {query.shape}, key {key.shape}, value "
            f"{value.shape}; key and value must be as long as each other, for as many samples as "
            "query"
        )
    if is_causal and attn_mask is None:
        raise ValueError(
            "multi_head_attention_forward: is_causal says of attn_mask that it is causal; pass one,"
            " such as nn.Transformer.generate_square_subsequent_mask(length)"
        )
    single = query.ndim == 2
    q, k, v = ((x.unsqueeze(0) if single else x.transpose(0, 1)) for x in (query, key, value))
    if use_separate_proj_weight:
        weights: Any = (q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        weights = in_proj_weight.chunk(3, 0)  # type: ignore[union-attr]
    biases: Any = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3, 0)
    q, k, v = (linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True))
    n, length = q.shape[:2]
    keys = k.shape[1] if static_k is None else static_k.shape[1]
    if bias_k is not None and bias_v is not None:
        k, v = (
            cat([x, b.reshape(1, 1, e).expand(n, 1, e)], 1) for x, b in ((k, bias_k), (v, bias_v))
        )
    q, k, v = (x.reshape(n, x.shape[1], heads, -1).transpose(1, 2) for x in (q, k, v))
    k, v = (
        x if s is None else s.reshape(n, heads, *s.shape[1:])
        for x, s in ((k, static_k), (v, static_v))
    )
    if add_zero_attn:
        k, v = (cat([x, x.new_zeros(n, heads, 1, x.shape[-1])], 2) for x in (k, v))
    mask = _mask(q, k, keys, attn_mask, key_padding_mask, single)
    p = dropout_p if training else 0.0
    if need_weights:
        scores = (q * (1 / math.sqrt(e // heads))) @ k.transpose(-2, -1)
        if mask is None:
            shown = softmax(scores, -1)
        else:  # a query that sees no key has weights of zero
            mask, unseeing = opened(mask)
            shown = softmax(scores + mask, -1).masked_fill(unseeing, 0.0)
        shown = dropout(shown, p) if p else shown
        out, seen = shown @ v, shown.mean(1) if average_attn_weights else shown
    else:
        out, seen = scaled_dot_product_attention(q, k, v, mask, p), None
    out = linear(out.transpose(1, 2).reshape(n, length, e), out_proj_weight, out_proj_bias)
    if single:
        return out.squeeze(0), None if seen is None else seen.squeeze(0)
    return out.transpose(0, 1), seen


def _mask(
    q: Tensor, k: Tensor, given: int, attn: Tensor | None, padding: Tensor | None, single: bool
) -> Tensor | None:
    """Both masks as added numbers, (n or 1, heads or 1, queries, keys).

    given: keys that masks speak of; those that the function added itself are seen.
    """
    result = None
    n, heads, queries = q.shape[:3]
    extra = k.shape[2] - given
    pairs = {2: (queries, given), 3: (n * heads, queries, given)}
    hidden = {1: (given,)} if single else {2: (n, given)}
    for name, mask, fitting, says in (
        ("attn_mask", attn, pairs, "(queries, keys) or (n * heads, queries, keys)"),
        ("key_padding_mask", padding, hidden, "(keys,)" if single else "(n, keys)"),
    ):
        if mask is None:
            continue
        _check_dtype("multi_head_attention_forward", name, mask)
        if mask.shape != fitting.get(mask.ndim):
            raise ShapeError(
                f"multi_head_attention_forward: {name} is {mask.shape}; it must be "
                f"{says}, here {' or '.join(str(shape) for shape in fitting.values())}"
            )
        if mask.dtype is bool_:
            mask = zeros(*mask.shape, dtype=q.dtype, device=q.device).masked_fill(mask, -math.inf)
        if extra:
            mask = cat([mask, mask.new_zeros(*mask.shape[:-1], extra)], -1)
        if name == "attn_mask":
            shape = (n, heads, queries, -1) if mask.ndim == 3 else (1, 1, queries, -1)
        else:
            shape = (n, 1, 1, -1)
        mask = mask.reshape(*shape).to(q.dtype)
        result = mask if result is None else result + mask
    return result
