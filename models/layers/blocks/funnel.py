"""Funnel-Transformer (Dai et al., 2020): blocks of layers, each over half of the places before it.

A place of the shorter text is the mean (or maximum) of two; the first token stays apart. Scores are
of content, of the sines of distances, and of segments. The decoder repeats the last block's states,
adds those of the first, and passes layers of the full length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rushlight.core import nn, ops
from rushlight.core.nn import init
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.encoder import EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm

_FIRST_TYPE = 2  # of the first token, which is of both segments
_WORDS, _NORM = "embeddings.word_embeddings", "embeddings.layer_norm"


class Places(NamedTuple):
    """The places of a text of some length: where each stands in the first one, the segments of
    each (batch, places), and which are real (batch, places), as numbers.
    """

    at: Sequence[int]
    types: Tensor | None
    seen: Tensor | None


class FunnelAttention(nn.Module):
    """Attention of places of one length over those of the same or of twice the length."""

    def __init__(self, spec: EncoderSpec, separate: bool) -> None:
        self.spec, self.separate = spec, separate
        heads, head, width = spec.heads, spec.head_dim, spec.width
        self.q_head = nn.Linear(width, heads * head, bias=False)
        self.k_head = nn.Linear(width, heads * head)
        self.v_head = nn.Linear(width, heads * head)
        for name in ("r_w_bias", "r_r_bias", "r_s_bias"):
            setattr(self, name, parameter(heads, head))
        self.r_kernel = parameter(width, heads, head)
        self.seg_embed = parameter(2, heads, head)
        self.post_proj = nn.Linear(heads * head, width)
        self.layer_norm = make_norm(width, spec.norm)
        self.dropout = nn.Dropout(spec.dropout)
        self._fill()

    def reset_parameters(self) -> None:
        """Small uniform numbers."""
        for value in self.parameters(recurse=False):
            init.uniform_(value, 0.0, 0.1)

    def forward(self, x: Tensor, over: Tensor, places: Places, others: Places) -> Tensor:
        """x (batch, places, width) -> the same, over (batch, other places, width)."""
        spec = self.spec
        scale = spec.head_dim**-0.5

        def heads(name: str, y: Tensor) -> Tensor:
            product: Tensor = getattr(self, name)(y)
            return product.reshape(*y.shape[:2], spec.heads, -1).transpose(1, 2)

        def with_bias(name: str) -> Tensor:
            bias: Any = getattr(self, name)
            biased: Tensor = q + bias.unsqueeze(1)
            return biased

        q, k, v = heads("q_head", x), heads("k_head", over), heads("v_head", over)
        bias = self._distances(with_bias("r_r_bias"), places.at, others.at)
        if places.types is not None and others.types is not None:
            own, other = places.types.unsqueeze(2), others.types.unsqueeze(1)
            same = (own == other) | (own == _FIRST_TYPE) | (other == _FIRST_TYPE)
            segments: Any = self.seg_embed
            # (batch, heads, places, 2): of another segment, of the same.
            both = with_bias("r_s_bias") @ segments.permute(1, 2, 0)
            bias = bias + ops.where(same.unsqueeze(1), both[..., 1:], both[..., :1])
        else:
            segments = self.seg_embed
            bias = bias + with_bias("r_s_bias") @ segments[1].unsqueeze(-1)
        if self.separate:
            inner = np.ones((len(places.at), len(others.at)), np.float32)
            inner[0], inner[:, 0] = 0, 0
            bias = bias * tensor(inner, dtype=bias.dtype, device=bias.device)
        mask = None if others.seen is None else (others.seen != 0)[:, None, None, :]
        y = ops.attention(with_bias("r_w_bias"), k, v, mask=mask, bias=bias * scale, scale=scale)
        y = self.post_proj(y.transpose(1, 2).reshape(*x.shape[:2], -1))
        out: Tensor = self.layer_norm(x + self.dropout(y))
        return out

    def _distances(self, q: Tensor, at: Sequence[int], others: Sequence[int]) -> Tensor:
        """The scores (batch, heads, places, others) of the distances between places."""
        apart = np.subtract.outer(np.asarray(at), np.asarray(others))
        kinds, rows = np.unique(apart, return_inverse=True)
        half = self.spec.width // 2
        angles = kinds[:, None] / 10000 ** (np.arange(half) / half)
        waves = np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)
        kernel: Any = self.r_kernel
        turned = tensor(waves, dtype=q.dtype, device=q.device) @ kernel.reshape(2 * half, -1)
        scores = q @ turned.reshape(len(kinds), self.spec.heads, -1).permute(1, 2, 0)
        index = tensor(rows.reshape(apart.shape).astype(np.int64), device=q.device)
        near: Tensor = scores.gather(-1, index.expand(*q.shape[:2], *apart.shape))
        return near


class FunnelFeedForward(nn.Module):
    """Two projections, and a norm of the sum with the input."""

    def __init__(self, spec: EncoderSpec) -> None:
        self.linear_1 = nn.Linear(spec.width, spec.inner)
        self.linear_2 = nn.Linear(spec.inner, spec.width)
        self.layer_norm = make_norm(spec.width, spec.norm)
        self.act, self.dropout = ACTIVATIONS[spec.activation], nn.Dropout(spec.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) -> the same."""
        y = self.linear_2(self.act(self.linear_1(x)))
        out: Tensor = self.layer_norm(x + self.dropout(y))
        return out


class FunnelLayer(nn.Module):
    """Attention and a feed-forward part."""

    def __init__(self, spec: EncoderSpec, separate: bool) -> None:
        self.attention = FunnelAttention(spec, separate)
        self.ffn = FunnelFeedForward(spec)

    def forward(self, x: Tensor, over: Tensor, places: Places, others: Places) -> Tensor:
        """x (batch, places, width) -> the same; see `FunnelAttention`."""
        out: Tensor = self.ffn(self.attention(x, over, places, others))
        return out


@dataclass(frozen=True)
class Funnel:
    """The blocks by their number of layers, each run `repeats` times, and the decoder's layers.

    mean: of two places, not their maximum. separate: the first token stays apart; cut: the last
    place is left out then, so that lengths stay even. queries_only: the first layer of a block
    reads all places of the block before. decoder: its layers; None: there is no decoder, and the
    states are those of the last block.
    """

    blocks: tuple[int, ...]
    repeats: tuple[int, ...]
    decoder: int | None
    mean: bool = True
    separate: bool = True
    cut: bool = True
    queries_only: bool = True

    def put(self, model: nn.Module, spec: EncoderSpec) -> None:
        """Make the modules of `model`."""
        put(model, _WORDS, nn.Embedding(spec.vocab, spec.width))
        put(model, _NORM, make_norm(spec.width, spec.norm))
        for i, count in enumerate(self.blocks):
            for j in range(count):
                put(model, f"encoder.blocks.{i}.{j}", FunnelLayer(spec, self.separate))
        for i in range(self.decoder or 0):
            put(model, f"decoder.layers.{i}", FunnelLayer(spec, self.separate))

    def run(
        self, model: Any, ids: Tensor, types: Tensor | None, seen: Tensor | None, **more: Tensor
    ) -> Tensor:
        """Hidden states, of every token if there is a decoder; see `Body`."""
        x, first, places = self._encoded(model, ids, types, seen, more)
        if self.decoder is None:
            return x
        stride, length = 2 ** (len(self.blocks) - 1), ids.shape[1]
        x = self._repeated(x, stride, length) + first
        for i in range(self.decoder):
            x = model.get_submodule(f"decoder.layers.{i}")(x, x, places, places)
        return x

    def texts(
        self, model: Any, ids: Tensor, types: Tensor | None, seen: Tensor | None, **more: Tensor
    ) -> Tensor:
        """The states of the last block; see `Body`."""
        return self._encoded(model, ids, types, seen, more)[0]

    def _encoded(
        self,
        model: Any,
        ids: Tensor,
        types: Tensor | None,
        seen: Tensor | None,
        more: dict[str, Tensor],
    ) -> tuple[Tensor, Tensor, Places]:
        """The states of the last block and of the first, and the places of the text."""
        if more:
            raise TypeError(f"funnel: {', '.join(more)} is not an input of its embeddings")
        x: Tensor = model.get_submodule(_NORM)(model.get_submodule(_WORDS)(ids))
        x = model.dropout(x)
        real = None if seen is None else seen.to(ids.dtype)
        text = places = Places(range(ids.shape[1]), types, real)
        first = x
        for block, count in enumerate(self.blocks):
            query, over, others = x, x, places
            if block and x.shape[1] > 1 + self.separate:
                query = self._halved(x)
                places = self._shorter(places, block)
                if not self.queries_only:
                    over, others = query, places
            for layer in range(count):
                run = model.get_submodule(f"encoder.blocks.{block}.{layer}")
                for _ in range(self.repeats[block]):
                    x = run(query, over, places, others)
                    query, over, others = x, x, places
            first = x if block == 0 else first
        return x, first, text

    def _paired(self, x: Tensor) -> Tensor:
        """x (batch, places, ...) with the first place once more: what is then taken in pairs."""
        if not self.separate:
            return x
        return ops.cat([x[:, :1], x[:, :-1] if self.cut else x], 1)

    def _halved(self, x: Tensor) -> Tensor:
        """(batch, places, width) -> half of the places."""
        pairs = self._paired(x)
        even, odd = pairs[:, ::2], pairs[:, 1::2]
        last = even[:, odd.shape[1] :]  # without a partner, if there is one
        even = even[:, : odd.shape[1]]
        both = (even + odd) * 0.5 if self.mean else ops.maximum(even, odd)
        return ops.cat([both, last], 1) if last.shape[1] else both

    def _shorter(self, places: Places, block: int) -> Places:
        at = list(places.at)
        if self.separate:  # the first token stands where a pair before the others would
            at = [1 - 2**block, *(at[1:-1] if self.cut else at[1:])[::2]]
        else:
            at = at[::2]
        types, seen = places.types, places.seen
        types = None if types is None else self._paired(types)[:, ::2]
        if seen is not None:
            pairs = self._paired(seen)
            even, odd = pairs[:, ::2], pairs[:, 1::2]
            both = even[:, : odd.shape[1]] * odd
            last = even[:, odd.shape[1] :]
            seen = ops.cat([both, last], 1) if last.shape[1] else both
        return Places(at, types, seen)

    def _repeated(self, x: Tensor, stride: int, length: int) -> Tensor:
        """The states (batch, places, width) at each of `length` places."""
        if stride == 1:
            return x
        if not self.separate:
            return x.repeat_interleave(stride, 1)[:, :length]
        spread = x[:, 1:].repeat_interleave(stride, 1)
        missing = length - 1 - spread.shape[1]
        if missing > 0:  # what was cut
            nothing = ops.zeros(x.shape[0], missing, x.shape[2], dtype=x.dtype, device=x.device)
            spread = ops.cat([spread, nothing], 1)
        return ops.cat([x[:, :1], spread[:, : length - 1]], 1)
