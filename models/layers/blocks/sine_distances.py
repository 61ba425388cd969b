"""XLNet's layers (Yang et al., 2019): scores of content with the sines of distances (Dai et al.,
2019), and with whether two tokens are of the same segment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core import nn, ops
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderContext, EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.norms import make_norm


class Words(nn.Embedding):
    """The embeddings of words; positions and segments are the layers' part."""

    def forward(
        self, ids: Tensor, types: Tensor | None = None, seen: Tensor | None = None
    ) -> Tensor:
        """(batch, length) -> (batch, length, width)."""
        return super().forward(ids)


def sines(width: int, length: int, farthest: int) -> npt.NDArray[np.float32]:
    """Sines and cosines of the distances from length - 1 down to 1 - length: (distances, width).

    farthest: those beyond are alike; 0: none are.
    """
    distances = np.arange(length - 1, -length, -1).astype(np.float32)
    if farthest > 0:
        distances = np.clip(distances, -farthest, farthest)
    steps = np.arange(0, width, 2).astype(np.float32) / np.float32(width)
    frequencies = 1 / np.power(np.float32(10000), steps)
    angles = distances[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


class SineAttention(nn.Module):
    """Attention with matrices (width, heads, head) of content (q, k, v, o) and of distances (r)."""

    o: Tensor

    def __init__(self, spec: EncoderSpec, farthest: int) -> None:
        self.spec, self.farthest = spec, farthest
        heads, head = spec.heads, spec.head_dim
        for name in "qkvor":
            setattr(self, name, parameter(spec.width, heads, head))
        for name in ("r_r_bias", "r_s_bias", "r_w_bias"):
            setattr(self, name, parameter(heads, head))
        self.seg_embed = parameter(2, heads, head)
        self.layer_norm = make_norm(spec.width, spec.norm)
        self.dropout = nn.Dropout(spec.dropout)
        self._fill()

    def reset_parameters(self) -> None:
        """Normal numbers."""
        for value in self.parameters(recurse=False):
            init.normal_(value)

    def forward(self, x: Tensor, context: EncoderContext) -> Tensor:
        """(batch, length, width) -> the same."""
        spec, (batch, length, width) = self.spec, x.shape
        scale = spec.head_dim**-0.5

        def heads(name: str, y: Tensor) -> Tensor:
            matrix: Any = getattr(self, name)
            product = y @ matrix.reshape(width, -1)
            heads_of: Tensor = product.reshape(*y.shape[:-1], spec.heads, -1).transpose(-3, -2)
            return heads_of

        def with_bias(name: str) -> Tensor:
            bias: Any = getattr(self, name)
            biased: Tensor = q + bias.unsqueeze(1)
            return biased

        q, k, v = (heads(name, x) for name in "qkv")
        waves = tensor(sines(width, length, self.farthest), dtype=x.dtype, device=x.device)
        # (batch, heads, length, distances) -> the score of each query's distance from each key.
        scores = with_bias("r_r_bias") @ heads("r", waves).transpose(-1, -2)
        at = ops.arange(length, device=x.device)
        rows = at.unsqueeze(0) - at.unsqueeze(1) + (length - 1)
        bias = scores.gather(-1, rows.expand(batch, spec.heads, length, length))
        if context.types is not None:
            segments: Any = self.seg_embed
            # (batch, heads, length, 2): of the same segment, of another.
            both = with_bias("r_s_bias") @ segments.permute(1, 2, 0)
            types = context.types
            other = (types.unsqueeze(2) != types.unsqueeze(1)).unsqueeze(1)
            bias = bias + ops.where(other, both[..., 1:], both[..., :1])
        y = ops.attention(
            with_bias("r_w_bias"), k, v, mask=context.mask, bias=bias * scale, scale=scale
        )
        y = ops.linear(y.transpose(1, 2).reshape(batch, length, -1), self.o.reshape(width, -1))
        normed: Tensor = self.layer_norm(self.dropout(y) + x)
        return normed


class FeedForward(nn.Module):
    """Two projections, and a norm of the sum with the input."""

    def __init__(self, spec: EncoderSpec) -> None:
        self.layer_norm = make_norm(spec.width, spec.norm)
        self.layer_1 = nn.Linear(spec.width, spec.inner)
        self.layer_2 = nn.Linear(spec.inner, spec.width)
        self.act, self.dropout = ACTIVATIONS[spec.activation], nn.Dropout(spec.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> the same."""
        y = self.layer_2(self.dropout(self.act(self.layer_1(x))))
        out: Tensor = self.layer_norm(self.dropout(y) + x)
        return out


class SineLayer(nn.Module):
    """Attention by distances, and a feed-forward part."""

    def __init__(self, spec: EncoderSpec, farthest: int) -> None:
        self.rel_attn, self.ff = SineAttention(spec, farthest), FeedForward(spec)

    def forward(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """(batch, length, width) -> the same."""
        out: Tensor = self.ff(self.rel_attn(x, context))
        return out
