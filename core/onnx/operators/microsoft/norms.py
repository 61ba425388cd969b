"""Norms of com.microsoft: of sums with a residual, of embeddings, and of groups of channels."""

from __future__ import annotations

from typing import Any

from rushlight.core.basis.dtype import int32
from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.element_types import INT32
from rushlight.core.onnx.operators.microsoft.entering import DOMAIN, contrib
from rushlight.core.onnx.registry import Call, operator


def _statistics(x: Any, dims: list[int], eps: float, centred: bool) -> list[Any]:
    """The mean and one over the deviation, over `dims`, which stay with size one."""
    mean = rl.mean(x, dims, keepdim=True)
    less = x - mean if centred else x
    return [mean, rl.rsqrt(rl.mean(less * less, dims, keepdim=True) + eps)]


@operator("SimplifiedLayerNormalization")
@operator("SimplifiedLayerNormalization", domain=DOMAIN)
def simplified_layer_norm(call: Call, x: Any, scale: Any, *rest: Any) -> Any:
    """The input over its root mean square over the dims from `axis` on, times a scale."""
    call.ignore("stash_type")
    axis, eps = call.int("axis", -1), call.float("epsilon", 1e-5)
    sizes = x.shape[axis % max(x.ndim, 1) :]
    result = F.rms_norm(x, sizes, scale.expand(*sizes), eps)
    if len(call.wanted) < 2:
        return result
    dims = list(range(-len(sizes), 0))
    return [result, _statistics(x, dims, eps, False)[1]]


def _skipped(call: Call, x: Any, skip: Any, bias: Any) -> Any:
    total = x + skip
    return total if bias is None else total + bias


def _norm_results(call: Call, total: Any, result: Any, eps: float, centred: bool) -> Any:
    """The norm, its statistics and the sum, as far as outputs are named."""
    if len(call.wanted) == 1:
        return result
    stats: list[Any] = [None, None]
    if any(call.wanted[1:3]):
        stats = _statistics(total, [-1], eps, centred)
    return [result, *stats, total][: len(call.wanted)]


@contrib("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_norm(call: Call, x: Any, skip: Any, gamma: Any, bias: Any = None) -> Any:
    """The root mean square norm of the sum with a residual and a bias; the sum too."""
    eps = call.float("epsilon", 1e-12)
    total = _skipped(call, x, skip, bias)
    result = F.rms_norm(total, total.shape[-1:], gamma, eps)
    return _norm_results(call, total, result, eps, False)


@contrib("SkipLayerNormalization")
def skip_layer_norm(
    call: Call, x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None
) -> Any:
    """The layer norm of the sum with a residual and a bias; the sum too."""
    eps = call.float("epsilon", 1e-12)
    total = _skipped(call, x, skip, bias)
    result = F.layer_norm(total, total.shape[-1:], gamma, beta, eps)
    return _norm_results(call, total, result, eps, True)


@contrib("EmbedLayerNormalization", stored=(2, 3, 4))
def embed_layer_norm(
    call: Call,
    ids: Any,
    segments: Any,
    words: Any,
    positions: Any,
    segment_table: Any = None,
    gamma: Any = None,
    beta: Any = None,
    mask: Any = None,
    position_ids: Any = None,
) -> Any:
    """The layer norm of the sum of embeddings of words, positions and segments.

    The second output counts the ones of each row of the mask, the third is the sum.
    """
    call.ignore("mask_index_type")
    places = rl.arange(ids.shape[1], device=ids.device) if position_ids is None else position_ids
    where = F.embedding(places, positions)
    total = F.embedding(ids, words).to(gamma.dtype) + where.to(gamma.dtype)
    if segments is not None and segment_table is not None:
        total = total + F.embedding(segments, segment_table).to(gamma.dtype)
    result = F.layer_norm(total, total.shape[-1:], gamma, beta, call.float("epsilon", 1e-12))
    counts = mask_index(ids, mask)
    kind = call.kinds[2]
    call.result_kinds = [kind, INT32, kind][: len(call.wanted)]
    return [result, counts, total][: len(call.wanted)]


def mask_index(ids: Any, mask: Any) -> Any:
    """How many ones each row of the mask has, int32; zeros without a mask."""
    if mask is None:
        return rl.zeros((ids.shape[0],), dtype=int32, device=ids.device)
    return rl.sum((mask == 1).to(int32), 1).to(int32)


def _group_norm(call: Call, x: Any, gamma: Any, beta: Any) -> Any:
    last = call.flag("channels_last", True)
    groups, activation = call.int("groups"), call.int("activation")
    if activation not in (0, 1):
        raise call.fail(f"activation={activation} is not supported; supported: 0 (none), 1 (SiLU)")
    first = rl.movedim(x, -1, 1) if last else x
    result = F.group_norm(first, groups, gamma, beta, call.float("epsilon", 1e-5))
    result = F.silu(result) if activation else result
    return rl.movedim(result, 1, -1) if last else result


@contrib("GroupNorm")
def group_norm(call: Call, x: Any, gamma: Any, beta: Any) -> Any:
    """The norm over groups of channels, which lie last unless channels_last is 0."""
    return _group_norm(call, x, gamma, beta)


@contrib("SkipGroupNorm")
def skip_group_norm(call: Call, x: Any, gamma: Any, beta: Any, skip: Any, bias: Any = None) -> Any:
    """The norm over groups of channels of the sum with a residual and a bias; the sum too."""
    last = call.flag("channels_last", True)
    if skip.ndim == 2:
        skip = skip.unsqueeze(1).unsqueeze(1) if last else skip.unsqueeze(-1).unsqueeze(-1)
    total = x + skip
    if bias is not None:
        total = total + (bias if last else bias.unsqueeze(-1).unsqueeze(-1))
    result = _group_norm(call, total, gamma, beta)
    return [result, total] if len(call.wanted) > 1 else result
