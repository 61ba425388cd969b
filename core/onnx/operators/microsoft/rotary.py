"""Rotary positions of com.microsoft."""

from __future__ import annotations

from typing import Any

from rushlight.core.basis.dtype import int64
from rushlight.core.functional import declared as rl
from rushlight.core.nn import functional as F
from rushlight.core.onnx.operators.microsoft.entering import contrib
from rushlight.core.onnx.registry import Call


def rotated(x: Any, places: Any, cos: Any, sin: Any, interleaved: bool) -> Any:
    """x (batch, heads, length, features), rotated by the angles of its positions.

    places: (batch, length), rows of the tables cos and sin (rows, half the rotated features).
    """
    angles = (F.embedding(places, table).unsqueeze(1) for table in (cos, sin))
    return rl.rope(x, *angles, interleaved=interleaved)


def split_heads(x: Any, heads: int) -> Any:
    """(batch, length, heads * features) as (batch, heads, length, features)."""
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(1, 2)


def joined_heads(x: Any) -> Any:
    """(batch, heads, length, features) as (batch, length, heads * features)."""
    batch, heads, length, features = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * features)


@contrib("RotaryEmbedding")
def rotary_embedding(call: Call, x: Any, places: Any, cos: Any, sin: Any) -> Any:
    """Pairs of features, each rotated by the angle of its position.

    Positions are those of each token, or the first one of every sequence.
    """
    call.ignore("is_packed_batching")
    heads, rotary = call.int("num_heads", 0), call.int("rotary_embedding_dim", 0)
    interleaved, scale = call.flag("interleaved"), call.float("scale", 1.0)
    if x.ndim == 3:
        heads = heads or x.shape[-1] // (rotary or 2 * cos.shape[-1])
        split = split_heads(x, heads)
    else:
        split = x
    batch, length = split.shape[0], split.shape[2]
    if places.ndim < 2:
        steps = rl.arange(length, device=x.device, dtype=int64)
        places = (places.reshape(1).to(int64) + steps).unsqueeze(0).expand(batch, length)
    if rotary and 2 * cos.shape[-1] > rotary:
        cos, sin = cos[:, : rotary // 2], sin[:, : rotary // 2]
    result = rotated(split, places, cos, sin, interleaved)
    result = result if scale == 1.0 else result * scale
    return joined_heads(result) if x.ndim == 3 else result
