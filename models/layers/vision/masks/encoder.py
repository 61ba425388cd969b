"""Segment Anything's encoder of images (Kirillov et al., 2023): attention in windows and in all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.windows import filled, joined, parted
from rushlight.models.layers.vision.convnext import ChannelNorm

EPS = 1e-6  # of the norms over channels


@dataclass
class SamKeys:
    """The keys of a vision_config of the encoder, within a model of another kind."""

    hidden_size: int = 768
    output_channels: int = 256
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_channels: int = 3
    image_size: int = 1024
    patch_size: int = 16
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    qkv_bias: bool = True
    mlp_ratio: float = 4.0
    use_abs_pos: bool = True
    use_rel_pos: bool = True
    window_size: int = 14
    global_attn_indexes: Any = (2, 5, 8, 11)
    num_pos_feats: int = 128  # of prompts, which are not read
    mlp_dim: int | None = None
    scale: float | None = None  # before training
    model_type: str = "sam_vision_model"


class Neck(nn.Module):
    """(batch, height, width, n) -> (batch, outputs, height, width)."""

    def __init__(self, width: int, outputs: int) -> None:
        self.conv1 = nn.Conv2d(width, outputs, 1, bias=False)
        self.layer_norm1 = ChannelNorm(outputs, EPS)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.layer_norm2 = ChannelNorm(outputs, EPS)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer_norm1(self.conv1(x.permute(0, 3, 1, 2)))
        out: Tensor = self.layer_norm2(self.conv2(x))
        return out


class _Attention(nn.Module):
    """Attention whose scores have a term for the rows and one for the columns between places.

    The terms are products of the query with learned vectors, so they join the query's channels, and
    keys get a 1 at their row and column: no matrix of all pairs is made of them.
    """

    def __init__(self, c: Any, side: int) -> None:
        width, self.heads = c.hidden_size, c.num_attention_heads
        if self.heads < 1 or width % self.heads:
            raise FormatError(f"config.json: {width} channels do not fit {self.heads} heads")
        self.side, self.relative = side, c.use_rel_pos
        self.qkv = nn.Linear(width, 3 * width, c.qkv_bias)
        self.proj = nn.Linear(width, width)
        if c.use_rel_pos:
            self.rel_pos_h = parameter(2 * side - 1, width // self.heads)
            self.rel_pos_w = parameter(2 * side - 1, width // self.heads)

    def forward(self, x: Tensor) -> Tensor:
        """x (batch, side, side, width)."""
        batch, side, _, width = x.shape
        count, head = side * side, width // self.heads
        qkv = self.qkv(x).reshape(batch, count, 3, self.heads, head).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if self.relative:
            rows, columns = self._terms(q.reshape(-1, side, side, head))
            shape = (batch, self.heads, count, side)
            q = cat([q * head**-0.5, rows.reshape(shape), columns.reshape(shape)], -1)
            place = arange(side, device=x.device)
            identity = (place.unsqueeze(1) == place).to(x.dtype)
            tall = identity.unsqueeze(1).expand(side, side, side).reshape(1, 1, count, side)
            wide = identity.unsqueeze(0).expand(side, side, side).reshape(1, 1, count, side)
            k = cat([k, tall.expand(shape), wide.expand(shape)], -1)
        scale = 1.0 if self.relative else None
        seen = scaled_dot_product_attention(q, k, v, scale=scale)
        projected: Tensor = self.proj(seen.transpose(1, 2).reshape(batch, side, side, width))
        return projected

    def _terms(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """The terms of a query (n, side, side, channels) with each row and each column of keys."""
        side = q.shape[1]
        place = arange(side, device=q.device)
        index = (place.unsqueeze(1) - place + (side - 1)).reshape(-1)
        rows, columns = (
            self._stretched(table, side).index_select(0, index).reshape(side, side, -1)
            .transpose(1, 2)
            for table in (self.rel_pos_h, self.rel_pos_w)
        )  # fmt: skip
        return q @ rows, (q.transpose(1, 2) @ columns).transpose(1, 2)

    def _stretched(self, table: Tensor, side: int) -> Tensor:
        """The vectors of distances for another number of places than the usual."""
        if side == self.side:
            return table
        lines = table.transpose(0, 1).unsqueeze(0)
        return interpolate(lines, size=2 * side - 1, mode="linear")[0].transpose(0, 1)


class _Layer(nn.Module):
    def __init__(self, c: Any, side: int, window: int) -> None:
        self.window, self.act = window, ACTIVATIONS[c.hidden_act]
        inner = c.mlp_dim or int(c.hidden_size * c.mlp_ratio)
        self.layer_norm1 = nn.LayerNorm(c.hidden_size, c.layer_norm_eps)
        self.layer_norm2 = nn.LayerNorm(c.hidden_size, c.layer_norm_eps)
        self.attn = _Attention(c, window or side)
        put(self, "mlp.lin1", nn.Linear(c.hidden_size, inner))
        put(self, "mlp.lin2", nn.Linear(inner, c.hidden_size))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._seen(self.layer_norm1(x))
        mlp: Any = self.get_submodule("mlp")
        mlp_out: Tensor = mlp.lin2(self.act(mlp.lin1(self.layer_norm2(x))))
        return x + mlp_out

    def _seen(self, x: Tensor) -> Tensor:
        n, (tall, wide) = self.window, x.shape[1:3]
        if not n:
            attended: Tensor = self.attn(x)
            return attended
        x = filled(x, n)
        return joined(self.attn(parted(x, n)), (x.shape[1], x.shape[2]))[:, :tall, :wide]


class SamVision(nn.Module):
    """Pixels (batch, channels, side, side) -> (batch, outputs, side / patch, side / patch)."""

    def __init__(self, c: Any) -> None:
        side = c.image_size // c.patch_size
        put(
            self,
            "patch_embed.projection",
            nn.Conv2d(c.num_channels, c.hidden_size, c.patch_size, c.patch_size),
        )
        self.placed = c.use_abs_pos
        if c.use_abs_pos:
            self.pos_embed = parameter(1, side, side, c.hidden_size)
        global_layers = set(c.global_attn_indexes)
        self.layers = nn.ModuleList(
            [
                _Layer(c, side, 0 if i in global_layers else c.window_size)
                for i in range(c.num_hidden_layers)
            ]
        )
        self.neck = Neck(c.hidden_size, c.output_channels)

    def forward(self, pixels: Tensor, kept: dict[int, Tensor] | None = None) -> Tensor:
        """kept: gets the states after each layer that is one of its keys."""
        x = self.get_submodule("patch_embed.projection")(pixels).permute(0, 2, 3, 1)
        x = x + self._places((x.shape[1], x.shape[2])) if self.placed else x
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if kept is not None and i in kept:
                kept[i] = x
        out: Tensor = self.neck(x)
        return out

    def _places(self, grid: tuple[int, int]) -> Tensor:
        """The positions (1, rows, columns, width), resized for pictures of another size."""
        table: Tensor = self.pos_embed
        if grid == (table.shape[1], table.shape[2]):
            return table
        square = table.permute(0, 3, 1, 2).float()
        resized = interpolate(square, size=grid, mode="bicubic", antialias=True)
        return resized.permute(0, 2, 3, 1).to(table.dtype)
