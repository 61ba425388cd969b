"""Conformer blocks (Gulati et al., 2020), and wav2vec 2.0's network with them for layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.padding import pad
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.layers.encoder import EncoderContext, EncoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import make_norm
from rushlight.models.layers.speech.wav2vec2 import WaveModel
from rushlight.models.layers.speech.wave_heads import MOST_TAPS


@dataclass(frozen=True)
class ConformerSpec:
    """What a block has beside its width.

    positions: "relative" (angles of distances, Dai et al., 2019), "rotary", "relative_key" (a
    table of distances from -left to right) or "" for none. causal: the convolution sees the past
    alone, and a layer norm follows it in place of a batch norm. masked: padding is zeroed before
    the convolution. eps: of the norms. taps: of the convolution. conv_norm: "batch" or "layer".
    """

    positions: str = "relative"
    taps: int = 31
    eps: float = 1e-5
    causal: bool = False
    conv_norm: str = "batch"
    masked: bool = False
    left: int = 64
    right: int = 8
    theta: float = 10000.0

    def __post_init__(self) -> None:
        if self.taps % 2 == 0 or not 0 < self.taps <= MOST_TAPS:
            raise FormatError(
                f"config.json: conv_depthwise_kernel_size is {self.taps}; it must be odd, up to "
                f"{MOST_TAPS}"
            )
        choose(
            "position_embeddings_type", self.positions, ("relative", "rotary", "relative_key", "")
        )


def distance_angles(length: int, width: int) -> Any:
    """Sines and cosines of distances length - 1 to -(length - 1): (2 length - 1, width)."""
    far = np.arange(length - 1, -length, -1)[:, None]
    # In float32, as checkpoints were trained.
    rates = np.exp(np.arange(0, width, 2, dtype=np.float32) * np.float32(-math.log(10000) / width))
    angles = far.astype(np.float32) * rates
    both = np.stack([np.sin(angles), np.cos(angles)], -1)
    return both.reshape(2 * length - 1, -1)[:, :width].astype(np.float32)


def by_distance(scores: Tensor) -> Tensor:
    """Scores (batch, heads, n, 2 n - 1) of distances n - 1 to -(n - 1) -> (batch, heads, n, n).

    Query i reads key j at distance i - j.
    """
    batch, heads, n, wide = scores.shape
    shifted = pad(scores, (1, 0)).reshape(batch, heads, wide + 1, n)
    return shifted[:, :, 1:].reshape(batch, heads, n, wide)[..., :n]


class Fed(nn.Module):
    """A feed-forward part."""

    def __init__(self, width: int, inner: int, act: str) -> None:
        self.intermediate_dense = nn.Linear(width, inner)
        self.output_dense, self.activation = nn.Linear(inner, width), ACTIVATIONS[act]

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, width) -> the same."""
        out: Tensor = self.output_dense(self.activation(self.intermediate_dense(x)))
        return out


class ConformerConv(nn.Module):
    """A gated convolution of each channel over frames."""

    def __init__(self, width: int, spec: ConformerSpec, act: str) -> None:
        self.spec, self.activation = spec, ACTIVATIONS[act]
        self.layer_norm = nn.LayerNorm(width, eps=spec.eps)
        self.pointwise_conv1 = nn.Conv1d(width, 2 * width, 1, bias=False)
        self.depthwise_conv = nn.Conv1d(width, width, spec.taps, groups=width, bias=False)
        if spec.conv_norm == "batch":
            self.batch_norm = nn.BatchNorm1d(width)
        else:
            self.depthwise_layer_norm = nn.LayerNorm(width, eps=spec.eps)
        self.pointwise_conv2 = nn.Conv1d(width, width, 1, bias=False)

    def forward(self, x: Tensor, seen: Tensor | None) -> Tensor:
        """(batch, frames, width) -> the same; seen (batch, frames, 1): false for padding."""
        x = self.layer_norm(x)
        if seen is not None and self.spec.masked:
            x = ops.where(seen, x, 0.0)
        a, b = self.pointwise_conv1(x.transpose(1, 2)).chunk(2, 1)
        reach = self.spec.taps - 1
        sides = (reach, 0) if self.spec.causal else (reach // 2, reach // 2)
        x = self.depthwise_conv(pad(a * b.sigmoid(), sides))
        if self.spec.conv_norm == "batch":
            x = self.batch_norm(x)
        else:
            x = self.depthwise_layer_norm(x.transpose(1, 2)).transpose(1, 2)
        out: Tensor = self.pointwise_conv2(self.activation(x))
        return out.transpose(1, 2)


class ConformerAttention(nn.Module):
    """Attention of all frames, with positions by `ConformerSpec`."""

    def __init__(self, width: int, heads: int, spec: ConformerSpec) -> None:
        if heads < 1 or width % heads:
            raise FormatError(
                f"config.json: hidden_size {width} is not a multiple of num_attention_heads {heads}"
            )
        self.spec, self.heads, self.size = spec, heads, width // heads
        for name in ("q", "k", "v", "out"):
            setattr(self, f"linear_{name}", nn.Linear(width, width))
        if spec.positions == "relative":
            self.linear_pos = nn.Linear(width, width, bias=False)
            self.pos_bias_u = parameter(heads, self.size)
            self.pos_bias_v = parameter(heads, self.size)
        if spec.positions == "relative_key":
            self.distance_embedding = nn.Embedding(spec.left + spec.right + 1, self.size)

    def forward(self, x: Tensor, mask: Tensor | None, positions: Tensor | None) -> Tensor:
        """(batch, frames, width) -> the same.

        mask: (batch, 1, 1, frames), false for padding. positions: what `positions_of` gives.
        """
        batch, length, _ = x.shape
        turned = self._turned(x, positions) if self.spec.positions == "rotary" else x
        q, k, v = (
            getattr(self, f"linear_{name}")(y)
            .reshape(batch, length, self.heads, self.size)
            .transpose(1, 2)
            for name, y in (("q", turned), ("k", turned), ("v", x))
        )
        bias, scale = None, self.size**-0.5
        if self.spec.positions == "relative":
            keys = self.linear_pos(positions).reshape(-1, self.heads, self.size).permute(1, 2, 0)
            bias = by_distance((q + self.pos_bias_v.unsqueeze(1)) @ keys) * scale
            q = q + self.pos_bias_u.unsqueeze(1)
        elif self.spec.positions == "relative_key":
            assert positions is not None
            keys = self.distance_embedding.weight.t()
            index = positions.expand(batch, self.heads, length, length)
            bias = (q @ keys).gather(-1, index) * scale
        y = ops.attention(q, k, v, mask=mask, bias=bias, scale=scale)
        out: Tensor = self.get_submodule("linear_out")(y.transpose(1, 2).reshape(batch, length, -1))
        return out

    def _turned(self, x: Tensor, positions: Tensor | None) -> Tensor:
        """Each head's features turned by their frame's angles, before projections."""
        assert positions is not None
        heads = x.reshape(*x.shape[:2], self.heads, self.size).transpose(1, 2)
        turned = ops.rope(heads, positions[0], positions[1])
        return turned.transpose(1, 2).reshape(*x.shape)


def positions_of(spec: ConformerSpec, x: Tensor, head: int, stored: Tensor | None = None) -> Any:
    """What attention reads of positions of frames (batch, frames, width): angles of distances,
    cosines and sines, or rows of a table. head: features of a head; stored: the angles' rates.
    """
    length, width, like = x.shape[1], x.shape[2], x
    if spec.positions == "relative":
        return tensor(distance_angles(length, width), device=like.device)
    if spec.positions == "rotary":
        if stored is None:
            rates = spec.theta ** (-np.arange(0, head, 2) / head)
            stored = tensor(rates.astype(np.float32), device=like.device)
        angles = ops.arange(length, device=like.device).to(like.dtype).unsqueeze(1) * stored
        return stack([angles.cos(), angles.sin()])[:, None, None]
    if spec.positions == "relative_key":
        at = ops.arange(length, device=like.device)
        return (at - at.unsqueeze(1)).clamp(-spec.left, spec.right) + spec.left
    return None


class ConformerLayer(nn.Module):
    """Half a feed-forward part, attention, a convolution, and the other half."""

    def __init__(self, spec: EncoderSpec, conformer: ConformerSpec) -> None:
        width = spec.width
        for name in ("ffn1", "ffn2"):
            put(self, f"{name}_layer_norm", nn.LayerNorm(width, eps=conformer.eps))
            put(self, name, Fed(width, spec.inner, spec.activation))
        self.self_attn_layer_norm = nn.LayerNorm(width, eps=conformer.eps)
        self.self_attn = ConformerAttention(width, spec.heads, conformer)
        self.conv_module = ConformerConv(width, conformer, spec.activation)
        self.final_layer_norm = nn.LayerNorm(width, eps=conformer.eps)

    def forward(self, x: Tensor, context: EncoderContext, layer: int) -> Tensor:
        """(batch, frames, width) -> the same; context: the mask, and positions as `bias`."""
        x = x + 0.5 * self._fed("ffn1", x)
        x = x + self.self_attn(self.self_attn_layer_norm(x), context.mask, context.bias)
        seen = None if context.mask is None else context.mask[:, 0, 0, :].unsqueeze(-1)
        x = x + self.conv_module(x, seen)
        x = x + 0.5 * self._fed("ffn2", x)
        out: Tensor = self.final_layer_norm(x)
        return out

    def _fed(self, name: str, x: Tensor) -> Tensor:
        out: Tensor = self.get_submodule(name)(self.get_submodule(f"{name}_layer_norm")(x))
        return out


class ConformerModel(WaveModel):
    """wav2vec 2.0 whose layers are conformers (Wang et al., 2020, in fairseq's S2T)."""

    base = "wav2vec2_conformer"

    def put_encoder(self) -> None:
        """Make the layers and their norm."""
        self.conformer = conformer_of(self.config)
        if self.conformer.positions == "rotary":
            put(self, self.prefix + "encoder.embed_positions", nn.Module())
            owner = self.get_submodule(self.prefix + "encoder.embed_positions")
            owner.inv_freq = parameter((self.spec.head_dim + 1) // 2)
        # Checkpoints hold a convolution of positions that the reference does not call.
        self.put("encoder.layer_norm", make_norm(self.spec.width, self.spec.norm))
        for path in self.spec.paths:
            self.put(path, ConformerLayer(self.spec, self.conformer))

    def encode(self, x: Tensor, seen: Tensor | None) -> list[Tensor]:
        """Frames (batch, frames, width) before the first layer, after each, and at the end."""
        states, context = [x], self.context(x, seen)
        for i, path in enumerate(self.spec.paths):
            x = self.get_submodule(self.prefix + path)(x, context, i)
            states.append(x)
        return [*states, self.part("encoder.layer_norm", x)]

    def context(self, x: Tensor, seen: Tensor | None) -> EncoderContext:
        """What the layers share, for frames (batch, frames, width): positions as the bias."""
        owner: Any = getattr(self.get_submodule(self.prefix + "encoder"), "embed_positions", None)
        stored = None if owner is None else owner.inv_freq
        positions = positions_of(self.conformer, x, self.spec.head_dim, stored)
        return replace(super().context(x, seen), bias=positions)


def conformer_of(c: Any) -> ConformerSpec:
    """The description of a configuration's blocks."""
    return ConformerSpec(
        c.position_embeddings_type or "",
        c.conv_depthwise_kernel_size,
        theta=float(c.rotary_embedding_base),
    )
