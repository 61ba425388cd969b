"""Attention of com.microsoft: with and without input projections, packed, and of one token."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core.basis.dtype import int64
from rushlight.core.functional import declared as rl
from rushlight.core.onnx.operators.microsoft.entering import contrib
from rushlight.core.onnx.operators.microsoft.rotary import joined_heads, rotated, split_heads
from rushlight.core.onnx.registry import Call


def padding_bias(call: Call, mask: Any, batch: int, queries: int, keys: int) -> Any:
    """What a mask of padding adds to scores, as (batch, 1, queries or 1, keys).

    The mask is 1 for visible keys, of shape (batch, keys), (batch, queries, keys) or (batch, 1,
    longest, longest), or says where the keys of each row end (batch,), then where they begin (2
    batch,); of (3 batch + 2,) the first are lengths.
    """
    filled = call.float("mask_filter_value", -10000.0)
    if mask is None:
        return None
    if mask.ndim == 1:
        places = rl.arange(keys, device=mask.device, dtype=mask.dtype).reshape(1, keys)
        visible = places < mask[:batch].reshape(batch, 1)
        if mask.shape[0] == 2 * batch:
            visible = rl.logical_and(visible, places >= mask[batch:].reshape(batch, 1))
        elif mask.shape[0] not in (batch, 3 * batch + 2):
            raise call.fail(f"a mask of {mask.shape[0]} numbers does not fit {batch} rows")
        visible = visible.reshape(batch, 1, 1, keys)
    elif mask.ndim == 2:
        visible = (mask > 0).reshape(*mask.shape[:1], 1, 1, mask.shape[1])
    elif mask.ndim == 3:
        visible = (mask > 0).unsqueeze(1)
    else:
        visible = mask[:, :, keys - queries : keys, :keys] > 0
    if visible.shape[-1] != keys:
        raise call.fail(f"a mask {mask.shape} does not fit {keys} keys")
    return rl.where(visible, 0.0, filled)


def attended(
    call: Call, q: Any, k: Any, v: Any, bias: Any, causal: bool, scale: float, offset: int
) -> Any:
    """(batch, queries, heads * features): attention over what the biases leave.

    offset: how many keys lie before the first query.
    """
    result = rl.attention(q, k, v, scale=scale, causal=causal, bias=bias, q_offset=offset)
    return joined_heads(result)


def added(first: Any, second: Any) -> Any:
    """The sum of two tensors, each of which may be None."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


def scale_of(call: Call, features: int) -> float:
    """The attribute `scale`; one over the root of the features where it is 0 or missing."""
    told: float = call.float("scale", 0.0)
    return told or 1 / math.sqrt(max(features, 1))


def written(buffer: Any, new: Any, start: Any) -> Any:
    """A cache (batch, heads, longest, features) with `new` from position `start` of each row on.

    start: (batch,) or (1,), integers.
    """
    length = new.shape[2]
    steps = rl.arange(length, device=buffer.device, dtype=int64)
    places = start.reshape(-1, 1).to(int64) + steps
    places = places.reshape(places.shape[0], 1, length, 1).expand(*new.shape)
    return rl.scatter(buffer, 2, places, new.to(buffer.dtype))


def _sizes_of(call: Call, width: int) -> list[int]:
    """The hidden sizes of Q, K and V in a merged projection of `width` columns."""
    sizes = call.ints("qkv_hidden_sizes", None)
    return list(sizes) if sizes else [width // 3] * 3


def _projected(call: Call, x: Any, weight: Any, bias: Any) -> list[Any]:
    """Q, K and V, (..., hidden size) each."""
    sizes = _sizes_of(call, weight.shape[1])
    total = rl.matmul(x, weight.to(x.dtype))
    return list(rl.split(added(total, bias), sizes, -1))


@contrib("Attention", host=(6,), stored=(1,))
def attention(
    call: Call,
    x: Any,
    weight: Any,
    bias: Any = None,
    mask: Any = None,
    past: Any = None,
    attention_bias: Any = None,
    past_length: Any = None,
) -> Any:
    """Attention of a sequence to itself, with one matrix that projects Q, K and V."""
    parts = _projected(call, x, weight, bias)
    return merged_attention(call, parts, mask, past, attention_bias, past_length)


def merged_attention(
    call: Call, parts: list[Any], mask: Any, past: Any, attention_bias: Any, past_length: Any
) -> Any:
    """Attention and the new past, of Q, K and V (batch, length, hidden size)."""
    heads, causal = call.int("num_heads"), call.flag("unidirectional")
    q, k, v = (split_heads(p, heads) for p in parts)
    batch, length = q.shape[0], q.shape[2]
    shared, before = call.flag("past_present_share_buffer"), 0
    if past is not None:
        before = int(past_length.reshape(-1)[0]) if shared else past.shape[3]
    call.ignore("rotary_embedding_dim")
    if call.flag("do_rotary"):
        raise call.fail("do_rotary is not supported; RotaryEmbedding is an operator of its own")
    present = None
    if past is not None and not shared:
        k, v = rl.cat([past[0], k], 2), rl.cat([past[1], v], 2)
    if past is not None and shared:
        start = rl.full((1,), before, dtype=int64, device=q.device)
        caches = [written(past[i], p, start) for i, p in enumerate((k, v))]
        present = rl.stack(caches)
        k, v = (c[:, :, : before + length] for c in caches)
    keys = k.shape[2]
    if len(call.wanted) > 1 and call.wanted[1] and present is None:
        present = rl.stack([k, v])
    bias = added(attention_bias, padding_bias(call, mask, batch, length, keys))
    scale = scale_of(call, q.shape[-1])
    result = attended(call, q, k, v, bias, causal, scale, keys - length)
    return [result, present][: len(call.wanted)]


def _with_bias(parts: list[Any], bias: Any) -> list[Any]:
    """Q, K and V (batch, length, hidden size) with their pieces of a bias; None stays None."""
    if bias is None:
        return parts
    width = parts[0].shape[-1]
    pieces = bias[:width], bias[width : 2 * width], bias[2 * width :]
    return [
        p if p is None or p.ndim != 3 else p + piece for p, piece in zip(parts, pieces, strict=True)
    ]


def _unpacked(query: Any, key: Any, value: Any) -> list[Any]:
    """Q, K and V of what may be packed with others, (batch, length, hidden size) each."""
    if query.ndim == 5:  # (batch, length, heads, 3, features)
        return [query[:, :, :, i].reshape(*query.shape[:2], -1) for i in range(3)]
    if key is not None and key.ndim == 5:  # (batch, length, heads, 2, features)
        key, value = (key[:, :, :, i].reshape(*key.shape[:2], -1) for i in range(2))
    return [query, key, value]


@contrib("MultiHeadAttention", host=(8,))
def multi_head_attention(
    call: Call,
    query: Any,
    key: Any = None,
    value: Any = None,
    bias: Any = None,
    mask: Any = None,
    attention_bias: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    past_length: Any = None,
    indirection: Any = None,
) -> Any:
    """Attention of projected queries to projected keys, which may be packed in one tensor."""
    if indirection is not None:
        raise call.fail("the input cache_indirection (search by beams) is not supported")
    parts = _with_bias(_unpacked(query, key, value), bias)
    return heads_attention(call, parts, mask, attention_bias, [past_key, past_value], past_length)


def heads_attention(
    call: Call, parts: list[Any], mask: Any, attention_bias: Any, past: list[Any], past_length: Any
) -> Any:
    """Attention, the new caches and the scores.

    parts: Q (batch, length, hidden size), K and V alike, or (batch, heads, length, features) where
    they are a cache already.
    """
    heads, causal = call.int("num_heads"), call.flag("unidirectional")
    q, k, v = (p if p.ndim == 4 else split_heads(p, heads) for p in parts)
    batch, length = q.shape[0], q.shape[2]
    caches = [k, v]
    if past[0] is not None and past_length is None:
        caches = k, v = [rl.cat([p, n], 2) for p, n in zip(past, (k, v), strict=True)]
    elif past[0] is not None:
        before, new = int(past_length.reshape(-1)[0]), k.shape[2]
        start = rl.full((1,), before, dtype=int64, device=q.device)
        caches = [written(p, n, start) for p, n in zip(past, (k, v), strict=True)]
        k, v = (c[:, :, : before + new] for c in caches)
    keys = k.shape[2]
    bias = added(attention_bias, padding_bias(call, mask, batch, length, keys))
    scale = scale_of(call, q.shape[-1])
    result = attended(call, q, k, v, bias, causal, scale, keys - length)
    scores = None
    if len(call.wanted) > 3 and call.wanted[3]:
        scores = added(rl.matmul(q, k.transpose(2, 3)) * scale, bias)
    return [result, *caches, scores][: len(call.wanted)]


@contrib("DecoderMaskedMultiHeadAttention", host=(7, 8))
def decoder_attention(
    call: Call,
    query: Any,
    key: Any = None,
    value: Any = None,
    mask: Any = None,
    attention_bias: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    past_length: Any = None,
    beams: Any = None,
    indirection: Any = None,
    bias: Any = None,
) -> Any:
    """Attention of one token to a cache and itself; without search by beams."""
    call.ignore("output_qk", "past_present_share_buffer")
    if indirection is not None and (beams is None or int(beams.reshape(-1)[0]) > 1):
        raise call.fail("the input cache_indirection (search by beams) is not supported")
    if key is None:
        width = query.shape[-1] // 3
        query, key, value = (query[..., i * width : (i + 1) * width] for i in range(3))
    parts = _with_bias([query, key, value], bias)
    return heads_attention(call, parts, mask, attention_bias, [past_key, past_value], past_length)


def padded_tokens(x: Any, offsets: Any, batch: int, length: int) -> Any:
    """Tokens (count, features) at their places, (batch, length, features); zeros elsewhere."""
    count, width = x.shape
    spots = offsets.reshape(-1)[:count].to(int64)
    flat = rl.zeros((batch * length, width), dtype=x.dtype, device=x.device)
    spread = rl.scatter(flat, 0, spots.unsqueeze(1).expand(count, width), x)
    return spread.reshape(batch, length, width)


def _packed_attention(call: Call, parts: list[Any], offsets: Any, ends: Any, bias: Any) -> Any:
    """Attention of tokens without padding, by sequences that end at `ends`."""
    heads, (batch, length) = call.int("num_heads"), offsets.shape
    count = parts[0].shape[0]
    q, k, v = (split_heads(padded_tokens(p, offsets, batch, length), heads) for p in parts)
    lengths = (ends[1:] - ends[:-1]).to(int64)
    scale = scale_of(call, q.shape[-1])
    wide = joined_heads(rl.attention(q, k, v, scale=scale, bias=bias, kv_lengths=lengths))
    spots = offsets.reshape(-1)[:count].to(int64)
    return rl.index_select(wide.reshape(batch * length, wide.shape[-1]), 0, spots)


@contrib("PackedAttention", stored=(1,))
def packed_attention(
    call: Call,
    x: Any,
    weight: Any,
    bias: Any,
    offsets: Any,
    ends: Any,
    attention_bias: Any = None,
) -> Any:
    """Attention of sequences whose tokens lie one after another without padding."""
    parts = _projected(call, x, weight, bias)
    return _packed_attention(call, parts, offsets, ends, attention_bias)


@contrib("PackedMultiHeadAttention")
def packed_multi_head_attention(
    call: Call,
    query: Any,
    key: Any,
    value: Any,
    bias: Any,
    offsets: Any,
    ends: Any,
    attention_bias: Any = None,
) -> Any:
    """Attention of projected sequences whose tokens lie one after another without padding."""
    call.ignore("mask_filter_value")
    parts = [query, key, value]
    if query.ndim == 4:  # (tokens, heads, 3, features)
        parts = [query[:, :, i].reshape(query.shape[0], -1) for i in range(3)]
    if bias is not None:
        parts = list(_with_bias([p.unsqueeze(0) for p in parts], bias))
        parts = [p.squeeze(0) for p in parts]
    return _packed_attention(call, parts, offsets, ends, attention_bias)


@contrib("GroupQueryAttention", host=(6,))
def group_query_attention(
    call: Call,
    query: Any,
    key: Any,
    value: Any,
    past_key: Any,
    past_value: Any,
    lengths: Any,
    total: Any,
    *rest: Any,
) -> Any:
    """Attention whose key heads serve groups of query heads, with a cache and rotary positions.

    lengths: of each row, the keys up to the last query less one. total: the most keys of a row.
    rest: angles, positions, a bias, sinks, scales of a quantized cache, weights of norms, counts.
    """
    inputs = [*rest, *[None] * (10 - len(rest))]
    cos, sin, places, bias, sinks, key_scale, value_scale = inputs[:7]
    query_norm, key_norm, query_lengths = inputs[7:]
    if key_scale is not None or value_scale is not None:
        raise call.fail("a quantized cache (k_scale, v_scale) is not supported")
    if query_lengths is not None or call.flag("sliding_window_cache"):
        raise call.fail("query_seqlens and sliding_window_cache are not supported")
    call.ignore("k_quant_type", "v_quant_type", "kv_cache_bit_width")
    heads, kv_heads = call.int("num_heads"), call.int("kv_num_heads")
    batch, length, width = query.shape
    if key is None:
        features = width // (heads + 2 * kv_heads)
        cuts = [heads * features, kv_heads * features, kv_heads * features]
        query, key, value = rl.split(query, cuts, -1)
    q, k, v = split_heads(query, heads), split_heads(key, kv_heads), split_heads(value, kv_heads)
    q, k = _normed(call, q, query_norm), _normed(call, k, key_norm, "k")
    most = int(total.reshape(-1)[0])
    ends = lengths.reshape(-1).to(int64) + 1
    # A first prompt begins at 0 even where rows are padded on the right.
    starts = rl.zeros_like(ends) if most == length else ends - length
    interleaved = call.flag("rotary_interleaved")
    if call.flag("do_rotary"):
        if places is None or places.shape != (batch, length):
            steps = rl.arange(length, device=q.device, dtype=int64)
            places = starts.unsqueeze(1) + steps
        q, k = (rotated(x, places, cos, sin, interleaved) for x in (q, k))
    caches = _grown(k, v, past_key, past_value, starts, most)
    result = _grouped(call, q, caches, bias, sinks, starts, ends, most)
    return [*result[:1], *caches, *result[1:]][: len(call.wanted)]


def _normed(call: Call, x: Any, weight: Any, which: str = "q") -> Any:
    """The root mean square norm of each head, where there are weights for it."""
    common = call.float("qk_norm_epsilon", 1e-6)
    eps = call.float(f"{which}_norm_epsilon", common)
    return x if weight is None else rl.rms_norm(x, weight.shape, weight, eps)


def _grown(k: Any, v: Any, past_key: Any, past_value: Any, starts: Any, most: int) -> list[Any]:
    """The caches with the new keys and values from `starts` on."""
    if past_key is None or past_key.shape[2] == 0:
        if k.shape[2] == most:
            return [k, v]
        past_key, past_value = k[:, :, :0], v[:, :, :0]
    longest = max(past_key.shape[2], most)
    out = []
    for past, new in ((past_key, k), (past_value, v)):
        missing = longest - past.shape[2]
        if missing == new.shape[2] and past.shape[0] == 1:
            # One sequence that grows by what is new: its past is full.
            out.append(rl.cat([past.to(new.dtype), new], 2))
            continue
        if missing:
            tail = rl.zeros(
                (*past.shape[:2], missing, past.shape[3]), dtype=past.dtype, device=past.device
            )
            past = rl.cat([past, tail], 2)
        out.append(written(past, new, starts))
    return out


def _grouped(
    call: Call,
    q: Any,
    caches: list[Any],
    bias: Any,
    sinks: Any,
    starts: Any,
    ends: Any,
    most: int,
) -> list[Any]:
    """The result and, where the node asks for it, the scores."""
    k, v = (c[:, :, :most] for c in caches)
    causal, window = call.flag("causal", True), call.int("local_window_size", -1)
    softcap, kind = call.float("softcap", 0.0), call.int("qk_output", 0)
    if call.flag("smooth_softmax") and sinks is None:
        sinks = rl.zeros((q.shape[1],), dtype=q.dtype, device=q.device)
    scale = scale_of(call, q.shape[-1])
    bias = None if bias is None else bias[..., :most]
    result = rl.attention(
        q,
        k,
        v,
        scale=scale,
        causal=causal,
        window=window if window > 0 else None,
        softcap=softcap or None,
        bias=bias,
        q_offset=starts,
        kv_lengths=ends,
        sinks=sinks,
    )
    if kind and len(call.wanted) > 3:
        raise call.fail("the output of scores (qk_output) is not supported")
    return [joined_heads(result)]


@contrib("GatedRelativePositionBias")
def gated_position_bias(
    call: Call,
    query: Any,
    query_bias: Any,
    places: Any,
    weight: Any,
    bias: Any,
    factor: Any,
    offsets: Any = None,
) -> Any:
    """A bias of positions (1, heads, length, length), each query's row times a gate of its own."""
    heads = call.int("num_heads")
    total = query + query_bias
    if offsets is not None:
        total = padded_tokens(total, offsets, *offsets.shape)
    gates = rl.matmul(split_heads(total, heads), weight) + bias
    halves = gates.reshape(*gates.shape[:-1], 2, gates.shape[-1] // 2)
    opened = rl.sigmoid(rl.sum(halves, -1))
    first, second = opened[..., :1], opened[..., 1:]
    return (first * (second * factor - 1.0) + 2.0) * places
