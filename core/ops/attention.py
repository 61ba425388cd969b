"""Scaled dot-product attention with masks, windows, soft caps, and the cache's write."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import bool_, uint8
from rushlight.core.basis.errors import ShapeError, TypeMismatch
from rushlight.core.basis.layout import MOST_ELEMENTS
from rushlight.core.basis.packed import features_of, packed_bytes
from rushlight.core.ops.binary import where
from rushlight.core.ops.creation import arange
from rushlight.core.ops.declare import public
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import is_grad_enabled
from rushlight.core.tensor.op import Context, Meta, Op, rule

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer(
    q: Meta,
    k: Meta,
    v: Meta,
    bias: Meta | None,
    mask: Meta | None,
    q_offset: Meta | None,
    kv_lengths: Meta | None,
    sinks: Meta | None,
    *,
    scale: float,
    causal: bool,
    window: int | None,
    softcap: float | None,
) -> Meta:
    return q.fresh((*q.shape[:-1], _features(v)))


def _features(x: Meta | Tensor) -> int:
    """Features of k or v, whose rows may be packed."""
    return features_of(x.shape[-1]) if x.dtype is uint8 else x.shape[-1]


def _visible(
    q: Tensor,
    keys: int,
    mask: Tensor | None,
    q_offset: Tensor | None,
    kv_lengths: Tensor | None,
    causal: bool,
    window: int | None,
) -> Tensor | None:
    """The mask of visible keys, broadcastable to (batch, heads, queries, keys); None: all."""
    at_k = arange(keys, device=q.device)
    at_q = arange(q.shape[2], device=q.device).unsqueeze(1)
    if q_offset is not None:
        at_q = at_q + q_offset.to("int64").reshape(-1, 1, 1, 1)
    seen = mask
    if causal:
        seen = _both(seen, at_k <= at_q)
    if window is not None:
        near = at_q - at_k < window
        seen = _both(seen, near if causal else near & (at_k - at_q < window))
    if kv_lengths is not None:
        seen = _both(seen, at_k < kv_lengths.to("int64").reshape(-1, 1, 1, 1))
    return seen


def _both(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a & b


def _grad(
    c: Context,
    g: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    q_offset: Tensor | None,
    kv_lengths: Tensor | None,
    sinks: Tensor | None,
) -> tuple[Tensor | None, ...]:
    a = c.attrs
    scale, softcap = a["scale"], a["softcap"]
    batch, heads, length, _ = q.shape
    groups = heads // k.shape[1]
    k, v = k.to(q.dtype), v.to(q.dtype)

    def per_query_head(x: Tensor) -> Tensor:
        shape = (batch, k.shape[1], groups, *x.shape[2:])
        return x.unsqueeze(2).expand(*shape).reshape(batch, heads, *x.shape[2:])

    def per_key_head(x: Tensor) -> Tensor:
        return x.reshape(batch, k.shape[1], groups, *x.shape[2:]).sum(2)

    keys, values = per_query_head(k), per_query_head(v)
    scores = (q @ keys.transpose(-1, -2)) * scale
    turned = scores if softcap is None else (scores / softcap).tanh()
    logits = turned if softcap is None else turned * softcap
    logits = logits if bias is None else logits + bias
    seen = _visible(q, k.shape[2], mask, q_offset, kv_lengths, a["causal"], a["window"])
    if bias is not None:  # -inf hides a key as a mask does
        seen = _both(seen, bias > -math.inf)
    hidden = None if seen is None else seen.expand(*logits.shape).logical_not()
    if hidden is not None:
        logits = logits.masked_fill(hidden, -1e30)
    if sinks is not None:  # a key more, without a value
        logits = cat((logits, sinks.expand(*logits.shape[:3], 1)), -1)
    p = all_ = logits.softmax(-1)
    if sinks is not None:
        p = all_[..., :-1]
    if hidden is not None:
        p = p.masked_fill(hidden, 0)
    gp = g @ values.transpose(-1, -2)
    mean = (gp * p).sum(-1, keepdim=True)
    gs = p * (gp - mean)
    gsinks = None
    if sinks is not None and c.needs[7]:
        gsinks = -(all_[..., -1:] * mean).sum((0, 2), keepdim=True)
    gbias = None
    if bias is not None and c.needs[3]:
        dims = tuple(d for d in range(4) if bias.shape[d] == 1 and gs.shape[d] != 1)
        gbias = gs.sum(dims, keepdim=True) if dims else gs
    if softcap is not None:
        gs = gs * (1 - turned * turned)
    gs = gs * scale
    return (
        gs @ keys if c.needs[0] else None,
        per_key_head(gs.transpose(-1, -2) @ q) if c.needs[1] else None,
        per_key_head(p.transpose(-1, -2) @ g) if c.needs[2] else None,
        gbias,
        None,
        None,
        None,
        gsinks,
    )


ATTENTION = Op("attention", infer=_infer, joint=rule(_grad, 0, 1, 2, 3, 4, 5, 6, 7))


@public
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    q_offset: Tensor | int = 0,
    kv_lengths: Tensor | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """softmax(q k^T * scale) v (Vaswani et al., 2017): (batch, heads, queries, v's features).

    q: (batch, heads, queries, features); k, v: (batch, kv_heads, keys, features). kv_heads divides
    heads; heads / kv_heads query heads share a key head. k and v may be of a narrower dtype than q,
    as in a cache, or rows of bytes made by `pack_rows`; these pass no gradients on. scale: defaults
    to 1/sqrt(features). softcap c: scores become c * tanh(scores / c). bias: added to the scores.
    mask: bool, true for visible keys. Both are 4-d and broadcastable to (batch, heads, queries,
    keys). causal: query i sees keys up to i + q_offset. window w: a query sees only keys less than
    w before it (and, if not causal, after it). q_offset: an int, or one per row of the batch.
    kv_lengths: (batch,), the number of valid keys. sinks: (heads,), for each head the score of a
    further key without a value (Agarwal et al., 2025). A query that sees no key gives zeros.

    Raises ValueError naming the shapes that do not fit, RuntimeError for packed rows where a
    gradient is needed.
    """
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ShapeError(f"attention: {name} is {x.shape}; it must have 4 dims")
    fits = k.shape[:3] == v.shape[:3] and q.shape[0] == k.shape[0] and q.shape[3] == _features(k)
    if not fits or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ShapeError(f"attention: q {q.shape}, k {k.shape} and v {v.shape} do not fit")
    if window is not None and window < 1:
        raise ValueError(f"attention: window is {window}; it must be positive")
    full = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    for name, operand in (("bias", bias), ("mask", mask)):
        if operand is not None and (
            operand.ndim != 4
            or any(n not in (1, m) for n, m in zip(operand.shape, full, strict=True))
        ):
            raise ShapeError(f"attention: {name} is {operand.shape}; it must expand to {full}")
    if mask is not None and mask.dtype is not bool_:
        raise TypeMismatch(f"attention: mask is {mask.dtype.name}; use bool, or bias for numbers")
    if sinks is not None:
        if sinks.shape != q.shape[1:2]:
            raise ShapeError(f"attention: sinks are {sinks.shape}; they must be {q.shape[1:2]}")
        sinks = sinks.to(q.dtype).reshape(1, -1, 1, 1)
        if bias is not None and mask is not None:  # more operands than kernels can bind
            bias, mask = where(mask, bias, -math.inf), None
    offset = _rows("q_offset", q, q_offset)
    lengths = None if kv_lengths is None else _rows("kv_lengths", q, kv_lengths)
    stored, bias = _stored(q, k), None if bias is None else bias.to(q.dtype)
    factor = 1 / math.sqrt(max(q.shape[3], 1)) if scale is None else float(scale)
    within = _within(window)

    def weighed(values: Tensor) -> Tensor:
        return ATTENTION(
            q, stored, values, bias, mask, offset, lengths, sinks,
            scale=factor, causal=causal, window=within, softcap=softcap,
        )  # fmt: skip

    recorded = _recorded.get()
    if recorded is not None:  # the weighted sum of unit vectors is the weights
        keys = arange(k.shape[2], device=q.device)
        units = (keys.unsqueeze(1) == keys).to(q.dtype)
        recorded.append(weighed(units.expand(*k.shape[:3], k.shape[2])))
    return weighed(_stored(q, v))


_recorded: ContextVar[list[Tensor] | None] = ContextVar("attention_weights", default=None)


@contextmanager
def attention_weights() -> Iterator[list[Tensor]]:
    """Within it, `attention` also gives its weights: a list that grows by one tensor a call.

    They are (batch, heads, queries, keys), softmax's of `attention` with mask, window, soft cap and
    sinks; a query that sees no key has zeros. A captured call records nothing. It raises nothing.
    """
    weights: list[Tensor] = []
    token = _recorded.set(weights)
    try:
        yield weights
    finally:
        _recorded.reset(token)


def _stored(q: Tensor, x: Tensor) -> Tensor:
    """Keys or values as the kernels read them: in q's dtype, or in the narrower one of a cache."""
    if x.dtype is uint8:
        if q.requires_grad and is_grad_enabled():
            raise RuntimeError("attention: packed rows pass no gradients on; use no_grad()")
        return x
    narrow = x.dtype.kind == "f" and x.dtype.itemsize < q.dtype.itemsize
    return x if narrow and not x.requires_grad else x.to(q.dtype)


def _within(window: int | None) -> int | None:
    # A larger window hides nothing, as no tensor has so many keys.
    return None if window is not None and window > MOST_ELEMENTS else window


def _rows(name: str, q: Tensor, value: Tensor | int) -> Tensor | None:
    if isinstance(value, int):
        return None if value == 0 else arange(value, value + 1, device=q.device).expand(q.shape[0])
    if value.shape not in ((), (1,), (q.shape[0],)):
        raise ShapeError(f"attention: {name} is {value.shape}; it must be ({q.shape[0]},)")
    return value.reshape(-1).expand(q.shape[0])


def _infer_write(cache: Meta, values: Meta, offsets: Meta) -> Meta:
    return cache.fresh()


# Used in place: new keys and values are written into a cache with earlier ones.
CACHE_WRITE = Op("cache_write", infer=_infer_write, differentiable=False)


def cache_write_(cache: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
    """Write `values` (batch, heads, n, features) into `cache` (batch, heads, capacity, features).

    Row b of the batch goes to positions offsets[b] to offsets[b] + n; offsets: (batch,) integers.
    Returns `cache`. IndexError if a row would end past the capacity. RuntimeError for values that
    need a gradient, as a cache passes none on.
    """
    same = cache.ndim == values.ndim == 4 and (
        (*cache.shape[:2], cache.shape[3]) == (*values.shape[:2], values.shape[3])
    )
    if not same or offsets.shape != cache.shape[:1]:
        raise ShapeError(
            f"cache_write_: values {values.shape} at offsets {offsets.shape} do not fit the "
            f"cache {cache.shape}"
        )
    if values.requires_grad and is_grad_enabled():
        raise RuntimeError("cache_write_: a cache keeps no gradients; run the model in no_grad()")
    return CACHE_WRITE.inplace(cache, values.to(cache.dtype), offsets)


def _infer_pack(x: Meta) -> Meta:
    return x.fresh((*x.shape[:-1], packed_bytes(x.shape[-1])), uint8)


PACK_ROWS = Op("pack_rows", infer=_infer_pack, differentiable=False)


def pack_rows(x: Tensor) -> Tensor:
    """Rows of floats (..., n) as rows of bytes (..., n + n / 16 or 2 more), uint8, for a cache.

    A value becomes a signed byte, and 32 of them share a float16 scale, as in q8_0; the layout is
    in basis/packed.py. ValueError if n is not a multiple of 32.
    """
    return PACK_ROWS(x)
