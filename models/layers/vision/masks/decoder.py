"""Segment Anything's prompts, and the decoder that makes masks of them (Kirillov et al., 2023).

`second` makes the parts of SAM 2 (Ravi et al., 2024).
"""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.convnext import ChannelNorm
from rushlight.models.layers.vision.masks.encoder import EPS

_MOST = 64  # masks of a prompt, and layers of a head
_RATE = 2  # of attention between tokens and picture, whatever the configuration says


class Places(nn.Module):
    """Sines and cosines of random directions of a place (Tancik et al., 2020)."""

    def __init__(self, features: int) -> None:
        self.positional_embedding = parameter(2, features)

    def forward(self, at: Tensor) -> Tensor:
        """at (.., 2): x and y as shares of the picture -> (.., 2 * features)."""
        angles = (at * 2 - 1) @ self.positional_embedding * (2 * math.pi)
        return cat([angles.sin(), angles.cos()], -1)


class PromptEncoder(nn.Module):
    """Points, boxes and masks as tokens and as a map."""

    def __init__(self, c: Any, second: bool = False) -> None:
        self.width, self.act, self.second = c.hidden_size, ACTIVATIONS[c.hidden_act], second
        if not 4 <= c.num_point_embeddings <= _MOST:
            raise FormatError(
                f"config.json: num_point_embeddings is {c.num_point_embeddings}; points and boxes "
                f"have 4, and more than {_MOST} have no use"
            )
        narrow, wide = c.mask_input_channels // 4, c.mask_input_channels
        put(self, "mask_embed.conv1", nn.Conv2d(1, narrow, 2, 2))
        put(self, "mask_embed.layer_norm1", ChannelNorm(narrow, c.layer_norm_eps))
        put(self, "mask_embed.conv2", nn.Conv2d(narrow, wide, 2, 2))
        put(self, "mask_embed.layer_norm2", ChannelNorm(wide, c.layer_norm_eps))
        put(self, "mask_embed.conv3", nn.Conv2d(wide, self.width, 1))
        self.no_mask_embed = nn.Embedding(1, self.width)
        self.not_a_point_embed = nn.Embedding(1, self.width)
        if second:
            self.shared_embedding = Places(self.width // 2)
            self.point_embed = nn.Embedding(c.num_point_embeddings, self.width)
        for i in range(0 if second else c.num_point_embeddings):
            put(self, f"point_embed.{i}", nn.Embedding(1, self.width))

    def points(self, places: Places, at: Tensor, labels: Tensor) -> Tensor:
        """Tokens of points (.., n, 2), shares of the picture.

        labels (.., n): 1 for the object, 0 for what is around it, -1 for no point.
        """
        tables = [self.not_a_point_embed.weight[0], self._kind(0), self._kind(1)]
        is_point = (labels != -1).to(at.dtype).unsqueeze(-1)
        tokens: Tensor = places(at) * is_point
        for label, table in zip((-1, 0, 1), tables, strict=True):
            tokens = tokens + (labels == label).to(at.dtype).unsqueeze(-1) * table
        return tokens

    def boxes(self, places: Places, at: Tensor) -> Tensor:
        """Tokens (.., 2, width) of boxes (.., 4): the corners as shares of the picture.

        SAM 2's are three: the last is of no point.
        """
        corners: Tensor = places(at.reshape(*at.shape[:-1], 2, 2))
        corners = corners + stack([self._kind(2), self._kind(3)], 0)
        if not self.second:
            return corners
        none = self.not_a_point_embed.weight.expand(*corners.shape[:-2], 1, -1)
        return cat([corners, none], -2)

    def masks(self, given: Tensor) -> Tensor:
        """The map of masks (batch, 1, height, width), logits of the decoder's size."""
        net: Any = self.get_submodule("mask_embed")
        x = self.act(net.layer_norm1(net.conv1(given)))
        x = self.act(net.layer_norm2(net.conv2(x)))
        mask_map: Tensor = net.conv3(x)
        return mask_map

    def _kind(self, number: int) -> Tensor:
        if self.second:
            return self.point_embed.weight[number]
        table: Any = self.get_submodule(f"point_embed.{number}")
        kind_row: Tensor = table.weight[0]
        return kind_row


class _Attention(nn.Module):
    def __init__(self, c: Any, rate: int, second: bool) -> None:
        inner, self.heads = c.hidden_size // rate, c.num_attention_heads
        self.out = "o_proj" if second else "out_proj"
        if self.heads < 1 or inner % self.heads:
            raise FormatError(f"config.json: {inner} channels do not fit {self.heads} heads")
        for name in ("q_proj", "k_proj", "v_proj"):
            self.register_module(name, nn.Linear(c.hidden_size, inner))
        self.register_module(self.out, nn.Linear(inner, c.hidden_size))

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """(batch, n, width) each."""
        q, k, v = (
            self.get_submodule(name)(x)
            .reshape(x.shape[0], x.shape[1], self.heads, -1)
            .transpose(1, 2)
            for name, x in (("q_proj", query), ("k_proj", key), ("v_proj", value))
        )
        seen = scaled_dot_product_attention(q, k, v).transpose(1, 2)
        seen = seen.reshape(query.shape[0], query.shape[1], -1)
        projected: Tensor = self.get_submodule(self.out)(seen)
        return projected


class _Mlp(nn.Module):
    def __init__(self, c: Any) -> None:
        self.act = ACTIVATIONS[c.hidden_act]
        self.lin1 = nn.Linear(c.hidden_size, c.mlp_dim)
        self.lin2 = nn.Linear(c.mlp_dim, c.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.lin2(self.act(self.lin1(x)))
        return out


class _TwoWay(nn.Module):
    """Tokens attend to each other and to the picture, and the picture to the tokens."""

    def __init__(self, c: Any, first: bool, second: bool) -> None:
        self.first, width = first, c.hidden_size
        rate, eps = (c.attention_downsample_rate, 1e-5) if second else (_RATE, c.layer_norm_eps)
        self.self_attn = _Attention(c, 1, second)
        self.cross_attn_token_to_image = _Attention(c, rate, second)
        self.cross_attn_image_to_token = _Attention(c, rate, second)
        for i in range(1, 5):
            self.register_module(f"layer_norm{i}", nn.LayerNorm(width, eps))
        # SAM 2's has as many layers as the decoder.
        self.mlp = Feed(width, c.mlp_dim, width, c.num_hidden_layers) if second else _Mlp(c)

    def forward(self, x: Tensor, seen: Tensor, asked: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        layer: Any = self
        if self.first:
            x = layer.self_attn(x, x, x)
        else:
            x = x + layer.self_attn(x + asked, x + asked, x)
        x = layer.layer_norm1(x)
        x = layer.layer_norm2(x + layer.cross_attn_token_to_image(x + asked, seen + at, seen))
        x = layer.layer_norm3(x + layer.mlp(x))
        update = layer.cross_attn_image_to_token(seen + at, x + asked, x)
        return x, layer.layer_norm4(seen + update)


class Feed(nn.Module):
    """`layers` linear layers, at least two, with an activation between them."""

    def __init__(
        self, inputs: int, inner: int, outputs: int, layers: int, act: str = "relu"
    ) -> None:
        self.act = ACTIVATIONS[act]
        self.proj_in, self.proj_out = nn.Linear(inputs, inner), nn.Linear(inner, outputs)
        self.layers = nn.ModuleList([nn.Linear(inner, inner) for _ in range(layers - 2)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.proj_in(x))
        for layer in self.layers:
            x = self.act(layer(x))
        out: Tensor = self.proj_out(x)
        return out


class MaskDecoder(nn.Module):
    """Masks and their scores, of a picture's map and the tokens of prompts.

    SAM 2's has a token and a head that say whether the object is there, and finer maps beside.
    """

    def __init__(self, c: Any, second: bool = False) -> None:
        width, self.count, self.second = c.hidden_size, c.num_multimask_outputs + 1, second
        if not 2 <= self.count <= _MOST or not 2 <= c.iou_head_depth <= _MOST:
            raise FormatError(
                f"config.json: num_multimask_outputs {c.num_multimask_outputs} or iou_head_depth "
                f"{c.iou_head_depth} is out of range"
            )
        self.iou_token = nn.Embedding(1, width)
        self.mask_tokens = nn.Embedding(self.count, width)
        layers = [_TwoWay(c, i == 0, second) for i in range(c.num_hidden_layers)]
        put(self, "transformer.layers", nn.ModuleList(layers))
        put(
            self,
            "transformer.final_attn_token_to_image",
            _Attention(c, c.attention_downsample_rate, second),
        )
        put(self, "transformer.layer_norm_final_attn", nn.LayerNorm(width))
        self.upscale_conv1 = nn.ConvTranspose2d(width, width // 4, 2, 2)
        self.upscale_layer_norm = ChannelNorm(width // 4, EPS)
        self.upscale_conv2 = nn.ConvTranspose2d(width // 4, width // 8, 2, 2)
        self.output_hypernetworks_mlps = nn.ModuleList(
            [Feed(width, width, width // 8, 3) for _ in range(self.count)]
        )
        self.iou_prediction_head = Feed(width, c.iou_head_hidden_dim, self.count, c.iou_head_depth)
        if second:
            self.obj_score_token = nn.Embedding(1, width)
            self.pred_obj_score_head = Feed(width, width, 1, 3)
            self.conv_s0 = nn.Conv2d(width, width // 8, 1)
            self.conv_s1 = nn.Conv2d(width, width // 4, 1)

    def forward(
        self, seen: Tensor, at: Tensor, tokens: Tensor, finer: tuple[Tensor, ...] = ()
    ) -> tuple[Tensor, Tensor]:
        """Mask logits (n, masks, 4 * height, 4 * width), and scores (n, masks).

        seen (n, width, height, width): the map with the masks'; at: its places; tokens (n, m,
        width) of prompts; finer: SAM 2's maps of four times and of twice the height and width. The
        first mask is the one for a prompt that leaves no doubt.
        """
        net: Any = self.get_submodule("transformer")
        size, gelu = seen.shape, ACTIVATIONS["gelu"]
        first = [self.obj_score_token.weight] if self.second else []
        mask_tokens = cat([*first, self.iou_token.weight, self.mask_tokens.weight], 0)
        asked = cat([mask_tokens.unsqueeze(0).expand(len(tokens), -1, -1), tokens], 1)
        x, flat, at = asked, seen.flatten(2).transpose(1, 2), at.flatten(2).transpose(1, 2)
        for layer in net.layers:
            x, flat = layer(x, flat, asked, at)
        update = net.final_attn_token_to_image(x + asked, flat + at, flat)
        x = net.layer_norm_final_attn(x + update)[:, len(first) :]
        fine = self.upscale_conv1(flat.transpose(1, 2).reshape(size))
        fine = fine + finer[1] if finer else fine
        fine = self.upscale_conv2(gelu(self.upscale_layer_norm(fine)))
        fine = gelu(fine + finer[0] if finer else fine)
        weights = [mlp(x[:, 1 + i]) for i, mlp in enumerate(self.output_hypernetworks_mlps)]
        masks = stack(weights, 1) @ fine.flatten(2)
        scores: Tensor = self.iou_prediction_head(x[:, 0])
        scores = scores.sigmoid() if self.second else scores
        return masks.reshape(len(x), self.count, *fine.shape[2:]), scores


def grid_places(places: Places, side: int, like: Tensor) -> Tensor:
    """The places of a grid's middles (1, width, side, side)."""
    middle = (arange(side, device=like.device).to(like.dtype) + 0.5) / side
    x = middle.unsqueeze(0).expand(side, side)
    middles = stack([x, x.transpose(0, 1)], -1)
    rows: Tensor = places(middles)
    return rows.permute(2, 0, 1).unsqueeze(0)
