"""Attention, linear attention, rotary positions and the convolution of states before them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import bool_
from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.element_types import DOUBLE, FLOAT, INT64, ElementType, element_type
from rushlight.core.onnx.interpreter import Scope, Value
from rushlight.core.onnx.proto import Attribute, Node
from rushlight.core.onnx.registry import Call, operator


def _heads(call: Call, x: Any, name: str) -> Any:
    """(n, length, heads * features) as (n, heads, length, features)."""
    heads = call.int(name, None)
    if x.ndim == 4:
        return x
    if heads is None or x.ndim != 3 or heads < 1 or x.shape[2] % heads:
        raise call.fail(f"{name}={heads} does not divide the last of {tuple(x.shape)}")
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)


def _mask(q: Any, keys: int, mask: Any) -> tuple[Any, Any]:
    """(bias, mask) of 4 dims for `keys` keys; a shorter mask hides those after it."""
    if mask is None:
        return None, None
    missing = keys - mask.shape[-1]
    is_bool = mask.dtype is bool_
    if missing > 0 and mask.shape[-1] != 1:
        if is_bool:
            rest = rl.zeros(*mask.shape[:-1], missing, dtype=bool_, device=mask.device)
            mask = rl.cat([mask, rest], -1)
        else:
            mask = F.pad(mask, (0, missing), "constant", -math.inf)
    mask = mask.reshape(*[1] * (4 - mask.ndim), *mask.shape)
    return (None, mask) if is_bool else (mask.to(q.dtype), None)


def _bounds(q: Any, keys: int, offset: Any, causal: bool, left: int, right: int) -> Any:
    """The mask of keys within a window around each query; None for all."""
    at_k = rl.arange(keys, device=q.device)
    at_q = rl.arange(q.shape[2], device=q.device).unsqueeze(1) + offset
    seen = None
    for limit in (
        at_k <= at_q if causal else None,
        at_k >= at_q - left if left >= 0 else None,
        at_k <= at_q + right if right >= 0 else None,
    ):
        if limit is not None:
            seen = limit if seen is None else seen & limit
    return seen


@operator("Attention")
def attention(
    call: Call,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    lengths: Any = None,
) -> Any:
    """softmax(q k^T * scale + mask) v over heads, with the keys and values before and after."""
    flat = q.ndim == 3
    q = _heads(call, q, "q_num_heads")
    k, v = _heads(call, k, "kv_num_heads"), _heads(call, v, "kv_num_heads")
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = rl.cat([past_key, k], 2), rl.cat([past_value, v], 2)
    causal, softcap = call.flag("is_causal"), call.float("softcap", 0.0) or None
    scale = call.float("scale", None) or 1 / math.sqrt(q.shape[3])
    left, right = call.int("left_window_size", -1), call.int("right_window_size", -1)
    mode = call.int("qk_matmul_output_mode", 0)
    call.ignore("softmax_precision")
    bias, seen = _mask(q, k.shape[2], mask)
    offset: Any = past
    if lengths is not None:
        lengths = lengths.long()
        offset = lengths - q.shape[2]
    scores = len(call.wanted) > 3 and call.wanted[3]
    if scores or right >= 0:
        rows = offset if lengths is None else offset.reshape(-1, 1, 1, 1)
        within = _bounds(q, k.shape[2], rows, causal, left, right)
        if within is not None:
            within = within.reshape(*[1] * (4 - within.ndim), *within.shape)
            seen = within if seen is None else seen & within
        if lengths is not None:
            held = rl.arange(k.shape[2], device=q.device) < lengths.reshape(-1, 1, 1, 1)
            seen = held if seen is None else seen & held
        y, shown = _with_scores(q, k, v, bias, seen, scale, softcap, _stage(call, mode))
    else:
        shown = None
        # A causal query before the first key sees none; rl.attention gives zeros there.
        y = rl.attention(
            q,
            k,
            v,
            scale=scale,
            causal=causal,
            window=None,
            softcap=softcap,
            bias=bias,
            mask=_near(q, k.shape[2], offset, left, seen),
            q_offset=offset,
            kv_lengths=lengths,
        )
    if flat:
        y = y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)
    call.result_kinds = [call.kinds[0], call.kinds[1], call.kinds[2], call.kinds[0]]
    return [y, k, v, shown]


def _near(q: Any, keys: int, offset: Any, left: int, seen: Any) -> Any:
    """The mask with a window to the left."""
    if left < 0:
        return seen
    rows = offset if isinstance(offset, int) else offset.reshape(-1, 1, 1, 1)
    within = _bounds(q, keys, rows, False, left, -1)
    within = within.reshape(*[1] * (4 - within.ndim), *within.shape)
    return within if seen is None else seen & within


def _stage(call: Call, mode: int) -> str:
    """Which scores the fourth output has."""
    stages = {0: "raw", 1: "capped", 2: "biased", 3: "shares"}
    if mode not in stages:
        raise call.fail(f"qk_matmul_output_mode={mode} is not supported; supported: 0 to 3")
    return stages[mode]


def _with_scores(
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    seen: Any,
    scale: float,
    softcap: float | None,
    stage: str,
) -> tuple[Any, Any]:
    """Attention step by step, and the scores at a stage of it."""
    groups = q.shape[1] // max(k.shape[1], 1)
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = raw = (q * scale) @ k.transpose(-2, -1)
    capped = scores = scores if softcap is None else softcap * rl.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    if seen is not None:
        scores = rl.where(seen, scores, -math.inf)
    hidden = (scores == -math.inf).all(-1, True)
    shares = F.softmax(scores.masked_fill(hidden, 0.0), -1).masked_fill(hidden, 0.0)
    shown = {"raw": raw, "capped": capped, "biased": scores, "shares": shares}[stage]
    return shares @ v, shown


@operator("FlexAttention", domain="ai.onnx.preview", raw=True)
def flex_attention(call: Call, q: Value, k: Value, v: Value) -> Any:
    """Attention whose scores and shares go through graphs of the file."""
    run, scope = call.interpreter, Scope(call.scope)
    if not len(q.shape) == len(k.shape) == len(v.shape) == 4:
        raise call.fail(f"q {q.shape}, k {k.shape} and v {v.shape} must have 4 dims")
    (n, heads, length, size), (kv_heads, keys) = q.shape, k.shape[1:3]
    if kv_heads < 1 or heads % kv_heads:
        raise call.fail(f"{kv_heads} heads of keys do not divide {heads} of queries")
    default = DOUBLE if q.kind is DOUBLE else FLOAT
    kind = element_type(call.int("softmax_precision", default.number), call.title)
    if kind.carried is None:
        raise call.fail(f"softmax_precision={kind.name} is no type of floats")

    def apply(op: str, *values: Value, **attributes: Attribute) -> Value:
        inputs = [f"{op} {i}" for i in range(len(values))]
        scope.names.update(zip(inputs, values, strict=True))
        run.node(Node(op, inputs=inputs, outputs=["result"], attributes=attributes), scope)
        result: Value = scope.names["result"]
        return result

    def shaped(x: Value, *sizes: int) -> Value:
        return apply("Reshape", x, Value(np.array(sizes, np.int64), INT64))

    def modified(name: str, x: Value) -> Value:
        if not call.has(name):
            return x
        with run.deeper(call.title):
            result: Value = run.graph(call.graph(name), Scope(call.scope), [x])[0]
        return result

    def typed(x: Value, wanted: ElementType | None) -> Value:
        if wanted is None or x.kind is wanted:
            return x
        return apply("Cast", x, to=Attribute("to", "int", wanted.number))

    # The queries that share a head of keys are rows of one product.
    scale = call.float("scale", None) or 1 / math.sqrt(max(size, 1))
    keys_last = apply("Transpose", k, perm=Attribute("perm", "ints", [0, 1, 3, 2]))
    groups = heads // kv_heads * length
    product = apply("MatMul", shaped(q, n, kv_heads, groups, size), keys_last)
    scores = typed(shaped(product, n, heads, length, keys), kind)
    factor = Value(np.array(scale, kind.carried.numpy), kind)
    scores = modified("score_mod", apply("Mul", scores, factor))
    shares = apply("Softmax", scores, axis=Attribute("axis", "int", -1))
    shares = shaped(typed(modified("prob_mod", shares), q.kind), n, kv_heads, groups, keys)
    return shaped(apply("MatMul", shares, v), n, heads, length, v.shape[3])


@operator("RotaryEmbedding", stored=(1, 2))
def rotary_embedding(call: Call, x: Any, cos: Any, sin: Any, positions: Any = None) -> Any:
    """Pairs of features turned by angles of their positions (Su et al., 2021)."""
    flat, pairs = x.ndim == 3, call.flag("interleaved")
    y = _heads(call, x, "num_heads")
    size = call.int("rotary_embedding_dim", 0) or y.shape[3]
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    if positions is not None:
        shape = (*positions.shape, cos.shape[-1])
        at = positions.long().reshape(-1)
        cos, sin = (t.index_select(0, at).reshape(*shape) for t in (cos, sin))
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    turned, rest = (y[..., :size], y[..., size:]) if size < y.shape[3] else (y, None)
    a, b = (turned[..., ::2], turned[..., 1::2]) if pairs else turned.chunk(2, -1)
    real, imaginary = a * cos - b * sin, a * sin + b * cos
    if pairs:
        turned = rl.stack([real, imaginary], -1).reshape(*turned.shape)
    else:
        turned = rl.cat([real, imaginary], -1)
    y = turned if rest is None else rl.cat([turned, rest], -1)
    return y.transpose(1, 2).reshape(*x.shape) if flat else y


@operator("LinearAttention")
def linear_attention(
    call: Call,
    q: Any,
    k: Any,
    v: Any,
    state: Any = None,
    decay: Any = None,
    beta: Any = None,
) -> Any:
    """Attention by a state that each step decays and adds k v^T to, and its last state."""
    rules = ("linear", "gated", "delta", "gated_delta")
    rule = call.choice("update_rule", "gated_delta", *rules)
    call.ignore("chunk_size")
    heads, q_heads = call.int("kv_num_heads"), call.int("q_num_heads")
    n, length = q.shape[:2]
    q, k, v = _heads(call, q, "q_num_heads"), *(_heads(call, x, "kv_num_heads") for x in (k, v))
    q = q * (call.float("scale", 0.0) or 1 / math.sqrt(q.shape[3]))
    gated, delta = "gated" in rule, "delta" in rule
    if gated and decay is None or delta and beta is None:
        raise call.fail(f"update_rule={rule} takes {'decay' if gated else 'beta'}")
    if state is None:
        state = rl.zeros(n, heads, k.shape[3], v.shape[3], dtype=q.dtype, device=q.device)
    kept, wide = state.dtype, state.to(q.dtype)
    groups = q_heads // heads
    q = q.reshape(n, heads, groups, length, -1)
    if gated:  # (n, heads, length, features or 1, 1)
        decay = decay.reshape(n, length, heads, -1).transpose(1, 2).exp().unsqueeze(-1)
    if delta:
        beta = beta.reshape(n, length, -1, 1).transpose(1, 2)
    outputs = []
    for t in range(length):
        key, value = k[:, :, t].unsqueeze(-1), v[:, :, t]
        wide = wide * decay[:, :, t] if gated else wide
        if delta:
            value = (value - (wide * key).sum(-2)) * beta[:, :, t]
        wide = wide + key * value.unsqueeze(-2)
        outputs.append(q[:, :, :, t] @ wide)
    # (n, heads, groups, length, features)
    y = rl.stack(outputs, 3) if outputs else q[..., :0].expand(*q.shape[:-1], v.shape[3])
    y = y.reshape(n, q_heads, length, -1).transpose(1, 2).reshape(n, length, -1)
    call.result_kinds = [call.kinds[0], (call.kinds[3:4] or [None])[0] or call.kinds[0]]
    return [y, wide.to(kept)]


@operator("CausalConvWithState", stored=(1, 2))
def causal_conv_with_state(call: Call, x: Any, w: Any, bias: Any = None, state: Any = None) -> Any:
    """A convolution of each channel over the elements up to each place, and the last of them."""
    activation = call.choice("activation", "none", "silu", "swish", "none")
    kernel, channels = w.shape[2], x.shape[1]
    if state is None:
        state = x.new_zeros(x.shape[0], channels, kernel - 1)
    whole = rl.cat([state.to(x.dtype), x], 2)
    bias = None if bias is None else bias.to(x.dtype)
    y = F.conv1d(whole, w.to(x.dtype), bias, groups=channels)
    call.result_kinds = [call.kinds[0]] * 2
    return [y if activation == "none" else F.silu(y), whole[:, :, whole.shape[2] - kernel + 1 :]]
