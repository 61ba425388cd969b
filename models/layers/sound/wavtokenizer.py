"""WavTokenizer's model: SEANet to a code a frame, and Vocos from codes to a spectrogram."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.sound.codec import CodecModel, Coding, Gathered
from rushlight.models.layers.sound.seanet import SeaEncoder, SeaSpec, nearest
from rushlight.models.layers.speech.harmonics import overlapped

_LOUDEST = 100.0  # magnitude of a bin


class _AdaNorm(nn.Module):
    """A norm whose scale and shift are of one of several bandwidths; the first is taken."""

    def __init__(self, c: Any) -> None:
        count, self.width = c.adanorm_num_embeddings, c.decoder_hidden_size
        self.scale, self.shift = (nn.Embedding(count, self.width) for _ in range(2))
        self.eps = c.norm_eps

    def forward(self, x: Tensor) -> Tensor:
        return ops.layer_norm(
            x, (self.width,), self.scale.weight[0], self.shift.weight[0], self.eps
        )


class _Wide(nn.Module):
    """x + a convolution of each channel, a norm, and an MLP (Liu et al., 2022)."""

    def __init__(self, c: Any) -> None:
        width, inner = c.decoder_hidden_size, c.decoder_intermediate_size
        self.dwconv = nn.Conv1d(width, width, 7, padding=3, groups=width)
        self.norm, self.gamma = _AdaNorm(c), parameter(width)
        self.pwconv1, self.pwconv2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dwconv(x).transpose(1, 2))
        y = self.gamma * self.pwconv2(ops.gelu(self.pwconv1(y)))
        summed: Tensor = x + y.transpose(1, 2)
        return summed


class _Near(nn.Module):
    """x + two convolutions of x, each after a norm and SiLU."""

    def __init__(self, c: Any) -> None:
        width = c.decoder_hidden_size
        self.norm1, self.norm2 = (
            nn.GroupNorm(c.decoder_attention_num_groups, width, c.norm_eps) for _ in range(2)
        )
        self.conv1, self.conv2 = (nn.Conv1d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(ops.silu(self.norm1(x)))
        summed: Tensor = x + self.conv2(ops.silu(self.norm2(y)))
        return summed


class _Far(nn.Module):
    """x + attention of one head over all frames, after a norm."""

    def __init__(self, c: Any) -> None:
        width = c.decoder_hidden_size
        self.norm = nn.GroupNorm(c.decoder_attention_num_groups, width, c.norm_eps)
        self.q, self.k, self.v, self.proj_out = (nn.Conv1d(width, width, 1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = (layer(y).transpose(1, 2).unsqueeze(1) for layer in (self.q, self.k, self.v))
        seen = scaled_dot_product_attention(q, k, v)[:, 0].transpose(1, 2)
        summed: Tensor = x + self.proj_out(seen)
        return summed


class WavTokenizerModel(CodecModel):
    """Sound (batch, 1, n) -> codes (batch, 1, frames), and back. Both see the whole sequence."""

    in_parts = False

    @nn.layers_on("meta")
    def __init__(self, config: Any, spec: SeaSpec) -> None:
        c = self.config = config
        self.rate, self.channels, self.hop = (
            c.sampling_rate,
            c.audio_channels,
            math.prod(spec.ratios),
        )
        self.codebooks, self.bits = 1, math.log2(c.codebook_size)
        put(self, "encoder_model.encoder", SeaEncoder(spec))
        put(self, "encoder_model.quantizer.codebook", nn.Module())
        self.encoder_model.quantizer.codebook.embed = parameter(c.codebook_size, c.codebook_dim)
        width, groups = c.decoder_hidden_size, c.decoder_attention_num_groups
        put(self, "backbone.embed", nn.Conv1d(c.hidden_size, width, 7, padding=3))
        last = nn.GroupNorm(groups, width, c.norm_eps)
        net = [_Near(c), _Near(c), _Far(c), _Near(c), _Near(c), last]
        put(self, "backbone.pos_net", nn.ModuleList(net))
        put(self, "backbone.norm", _AdaNorm(c))
        blocks = [_Wide(c) for _ in range(c.decoder_num_layers)]
        put(self, "backbone.convnext", nn.ModuleList(blocks))
        put(self, "backbone.final_layer_norm", nn.LayerNorm(width, c.norm_eps))
        put(self, "head.linear", nn.Linear(width, 4 * self.hop + 2))

    def encoding(self, codebooks: int | None = None) -> Coding:
        self.checked_count(codebooks)
        return Gathered(self._codes, tensor([[[]]], device=self.device).long())

    def decoding(self) -> Coding:
        empty = self.head.linear.weight.new_zeros(1, self.channels, 0)
        return Gathered(self._sound, empty)

    def _codes(self, x: Tensor) -> Tensor:
        part: Any = self.encoder_model
        table = part.quantizer.codebook.embed
        return nearest(part.encoder(x).transpose(1, 2), table).unsqueeze(1)

    def _sound(self, codes: Tensor) -> Tensor:
        self.checked_codes(codes)
        part: Any = self.backbone
        table: Any = self.encoder_model.quantizer.codebook.embed
        x = part.embed(table[codes[:, 0]].transpose(1, 2))
        for layer in part.pos_net:
            x = layer(x)
        x = part.norm(x.transpose(1, 2)).transpose(1, 2)
        for layer in part.convnext:
            x = layer(x)
        loud, phase = self.head.linear(part.final_layer_norm(x.transpose(1, 2))).chunk(2, -1)
        loud, phase = loud.exp().clamp(max=_LOUDEST).transpose(1, 2), phase.transpose(1, 2)
        size = 4 * self.hop
        return overlapped(loud, phase, size, self.hop, (size - self.hop) // 2).unsqueeze(1)
