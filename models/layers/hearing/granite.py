"""Granite Speech's parts (IBM, 2025): conformers within blocks of frames, and their projection.

The middle layer's guess of letters is added to what it gives. Queries read windows of states.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.padding import pad
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.qformer import QFormer, QFormerSpec
from rushlight.models.layers.speech.wave_heads import MOST_TAPS


class _Fed(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        self.pre_norm = nn.LayerNorm(width)
        self.up_proj, self.down_proj = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(ops.silu(self.up_proj(self.pre_norm(x))))
        return out


class _Attention(nn.Module):
    """Attention within blocks of frames, with a table of distances (Shaw et al., 2018)."""

    def __init__(self, c: Any, head: int) -> None:
        self.heads, self.size, self.block = c.num_heads, head, c.context_size
        self.most = c.max_pos_emb
        inside = self.heads * head
        self.pre_norm = nn.LayerNorm(c.hidden_dim)
        self.to_q = nn.Linear(c.hidden_dim, inside, bias=False)
        self.to_kv = nn.Linear(c.hidden_dim, 2 * inside, bias=False)
        self.to_out = nn.Linear(inside, c.hidden_dim)
        self.rel_pos_emb = nn.Embedding(2 * c.max_pos_emb + 1, head)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pre_norm(x)
        batch, length, _ = x.shape
        blocks = -(-length // self.block)
        x = pad(x, (0, 0, 0, blocks * self.block - length))
        q, k, v = (
            y.reshape(batch * blocks, self.block, self.heads, self.size).transpose(1, 2)
            for y in (self.to_q(x), *self.to_kv(x).chunk(2, -1))
        )
        frames = np.arange(self.block)
        far = frames[:, None] - frames[None] + self.most
        table = self.rel_pos_emb(tensor(far.astype(np.int64), device=x.device))
        # (blocks, heads, frames, 1, size) x (frames, size, frames) -> a score for each pair.
        bias = (q.unsqueeze(3) @ table.transpose(1, 2)).squeeze(3) * self.size**-0.5
        real = np.arange(blocks * self.block).reshape(blocks, 1, 1, self.block) < length
        seen = tensor(np.ascontiguousarray(np.tile(real, (batch, 1, 1, 1))), device=x.device)
        y = ops.attention(q, k, v, mask=seen, bias=bias, scale=self.size**-0.5)
        y = y.transpose(1, 2).reshape(batch, blocks * self.block, -1)[:, :length]
        out: Tensor = self.to_out(y)
        return out


class _Convolution(nn.Module):
    def __init__(self, c: Any) -> None:
        inner, taps = c.hidden_dim * c.conv_expansion_factor, c.conv_kernel_size
        self.sides = taps // 2, taps // 2 - (taps + 1) % 2
        self.norm = nn.LayerNorm(c.hidden_dim)
        self.up_conv = nn.Conv1d(c.hidden_dim, 2 * inner, 1)
        put(self, "depth_conv.conv", nn.Conv1d(inner, inner, taps, groups=inner, bias=False))
        self.batch_norm = nn.BatchNorm1d(inner)
        self.down_conv = nn.Conv1d(inner, c.hidden_dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.up_conv(self.norm(x).transpose(1, 2)).chunk(2, 1)
        y = self.get_submodule("depth_conv.conv")(pad(a * b.sigmoid(), self.sides))
        out: Tensor = self.down_conv(ops.silu(self.batch_norm(y)))
        return out.transpose(1, 2)


class _Block(nn.Module):
    def __init__(self, c: Any, head: int) -> None:
        inner = c.hidden_dim * c.feedforward_mult
        self.ff1, self.ff2 = _Fed(c.hidden_dim, inner), _Fed(c.hidden_dim, inner)
        self.attn, self.conv = _Attention(c, head), _Convolution(c)
        self.post_norm = nn.LayerNorm(c.hidden_dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.ff1(x)
        x = x + self.attn(x)
        x = x + self.conv(x)
        out: Tensor = self.post_norm(x + 0.5 * self.ff2(x))
        return out


class GraniteTower(nn.Module):
    """Pairs of frames (1, pairs, features) -> states (1, pairs, width). c: the encoder's keys."""

    def __init__(self, c: Any) -> None:
        if c.num_heads < 1 or not 0 < c.context_size <= min(c.max_pos_emb, 1 << 14):
            raise FormatError(
                f"config.json: encoder_config: num_heads {c.num_heads}, context_size "
                f"{c.context_size}: there must be one head or more, and at most max_pos_emb "
                f"{c.max_pos_emb} frames in a block"
            )
        if not 0 < c.conv_kernel_size <= MOST_TAPS:
            raise FormatError(
                f"config.json: encoder_config: conv_kernel_size is {c.conv_kernel_size}; "
                f"supported: 1 to {MOST_TAPS}"
            )
        head = c.dim_head or c.hidden_dim // c.num_heads
        self.input_linear = nn.Linear(c.input_dim, c.hidden_dim)
        self.layers = nn.ModuleList([_Block(c, head) for _ in range(c.num_layers)])
        self.out = nn.Linear(c.hidden_dim, c.output_dim)
        self.out_mid = nn.Linear(c.output_dim, c.hidden_dim)

    def forward(self, pairs: Tensor) -> Tensor:
        """See the class."""
        x: Tensor = self.input_linear(pairs.to(self.input_linear.weight.dtype))
        for number, layer in enumerate(self.layers, 1):
            x = layer(x)
            if number == len(self.layers) // 2:
                x = x + self.out_mid(ops.softmax(self.out(x), -1))
        return x


class WindowQueries(nn.Module):
    """States (1, n, seen) -> rows (windows * queries, out): queries read each window of states.

    The last window is filled up with zeros.
    """

    def __init__(self, spec: QFormerSpec, window: int, queries: int, out: int) -> None:
        self.window = window
        self.query = parameter(1, queries, spec.width)
        self.qformer = QFormer(spec)
        self.linear = nn.Linear(spec.width, out)

    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        x = pad(x, (0, 0, 0, -x.shape[1] % self.window))
        x = x.reshape(-1, self.window, x.shape[2])
        out: Tensor = self.linear(self.qformer(self.query, x))
        return out.flatten(0, 1)
