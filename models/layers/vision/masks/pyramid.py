"""SAM 2's encoder of images (Ravi et al., 2024): Hiera in windows, and maps of several sizes."""

from __future__ import annotations

from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.pooling import max_pool2d
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.hiera import Place, PooledAttention, windowed_places
from rushlight.models.layers.vision.attention.windows import filled, joined, parted
from rushlight.models.layers.vision.masks.decoder import Feed
from rushlight.models.layers.vision.vit import pair

MAPS = 3  # that the decoder of masks reads


class Block(nn.Module):
    """Attention within windows or to all places, and an MLP; place.stride: of a pooled side."""

    def __init__(self, c: Any, place: Place) -> None:
        self.place = place
        self.layer_norm1 = nn.LayerNorm(place.inputs, c.layer_norm_eps)
        self.attn = PooledAttention(place.inputs, place.outputs, place.heads)
        self.layer_norm2 = nn.LayerNorm(place.outputs, c.layer_norm_eps)
        inner = int(place.outputs * c.mlp_ratio)
        self.mlp = Feed(place.outputs, inner, place.outputs, 2, c.hidden_act)
        if place.inputs != place.outputs:
            self.proj = nn.Linear(place.inputs, place.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """x (batch, height, width, channels)."""
        n, normed = self.place.window, self.layer_norm1(x)
        if self.place.inputs != self.place.outputs:
            x = self._pooled(self.proj(normed))
        padded = filled(normed, n) if n else normed
        windows = parted(padded, n) if n else padded
        sides = windows.shape[1:3]
        pooled = tuple(side // self.place.stride for side in sides)
        seen = self.attn(
            windows.flatten(1, 2), lambda q: self._pooled(q.unflatten(1, sides)).flatten(1, 2)
        ).unflatten(1, pooled)
        if n:
            grid = padded.shape[1] // n * pooled[0], padded.shape[2] // n * pooled[1]
            seen = joined(seen, grid)[:, : x.shape[1], : x.shape[2]]
        x = x + seen
        mlp_out: Tensor = self.mlp(self.layer_norm2(x))
        return x + mlp_out

    def _pooled(self, x: Tensor) -> Tensor:
        if self.place.stride == 1:
            return x
        pooled: Tensor = max_pool2d(x.permute(0, 3, 1, 2), self.place.stride, self.place.stride)
        return pooled.permute(0, 2, 3, 1)


class Backbone(nn.Module):
    """Pixels -> the maps (batch, height, width, channels) after each stage, the largest first."""

    def __init__(self, c: Any, stages: list[list[Place]]) -> None:
        put(
            self,
            "patch_embed.projection",
            nn.Conv2d(
                c.num_channels,
                c.hidden_size,
                pair(c.patch_kernel_size, "patch_kernel_size"),
                pair(c.patch_stride, "patch_stride"),
                pair(c.patch_padding, "patch_padding", 0),
            ),
        )
        background_size = pair(
            c.window_positional_embedding_background_size, "window_positional_embedding"
        )
        self.pos_embed = parameter(1, c.hidden_size, *background_size)
        self.pos_embed_window = parameter(1, c.hidden_size, *[c.window_size_per_stage[0]] * 2)
        self.blocks = nn.ModuleList([Block(c, place) for places in stages for place in places])
        self.depths = [len(places) for places in stages]

    def forward(self, pixels: Tensor) -> list[Tensor]:
        x = self.get_submodule("patch_embed.projection")(pixels).permute(0, 2, 3, 1)
        grid = x.shape[1], x.shape[2]
        x = x + windowed_places(self.pos_embed, self.pos_embed_window, grid)
        blocks, levels = iter(self.blocks), []
        for depth in self.depths:
            for _ in range(depth):
                x = next(blocks)(x)
            levels.append(x)
        return levels


class Neck(nn.Module):
    """The maps (batch, width, h, w) of all stages at one width; some get the smaller one's too."""

    def __init__(self, c: Any) -> None:
        self.down = c.fpn_top_down_levels
        self.convs = nn.ModuleList(
            [
                nn.Conv2d(n, c.fpn_hidden_size, c.fpn_kernel_size, c.fpn_stride, c.fpn_padding)
                for n in c.backbone_channel_list
            ]
        )

    def forward(self, levels: list[Tensor]) -> list[Tensor]:
        merged: list[Tensor] = []
        for i, conv in zip(range(len(levels) - 1, -1, -1), self.convs, strict=True):
            x = conv(levels[i].permute(0, 3, 1, 2))
            if merged and i in self.down:
                x = x + interpolate(merged[0], scale_factor=2.0, mode="nearest")
            merged.insert(0, x)
        return merged


class PyramidVision(nn.Module):
    """Pixels (batch, channels, side, side) -> the three largest maps, the largest first."""

    def __init__(self, c: Any, backbone: Any, stages: list[list[Place]]) -> None:
        self.backbone, self.neck = Backbone(backbone, stages), Neck(c)

    def forward(self, pixels: Tensor) -> list[Tensor]:
        levels: list[Tensor] = self.neck(self.backbone(pixels))
        return levels[:MAPS]


def stages_of(seen: Any, c: Any, asked: Any) -> list[list[Place]]:
    """Each stage's layers; seen, c, asked: of vision_config, its backbone and the prompts.

    FormatError where the sizes do not agree.
    """
    lists = (
        c.blocks_per_stage,
        c.embed_dim_per_stage,
        c.num_attention_heads_per_stage,
        c.window_size_per_stage,
    )
    sizes = all(type(n) is int and 1 <= n <= 1 << 16 for per_stage in lists for n in per_stage)
    sizes = sizes and all(
        isinstance(value, list) for value in (c.global_attention_blocks, seen.fpn_top_down_levels)
    )
    if (
        not sizes
        or {len(values) for values in lists} != {len(seen.backbone_channel_list)}
        or (
            seen.backbone_channel_list != c.embed_dim_per_stage[::-1]
            or len(lists[0]) < MAPS
            or c.hidden_size != c.embed_dim_per_stage[0]
            or sum(lists[0]) > 1024
            or not 0 <= c.num_query_pool_stages < len(lists[0])
        )
    ):
        raise FormatError(
            f"config.json: the stages' lists {lists} and backbone_channel_list "
            f"{seen.backbone_channel_list} do not agree"
        )
    side, kernel, step, stride = (
        pair(value, name)
        for value, name in (
            (c.image_size, "image_size"),
            (c.patch_kernel_size, "patch_kernel_size"),
            (c.patch_stride, "patch_stride"),
            (c.query_stride, "query_stride"),
        )
    )
    padding = pair(c.patch_padding, "patch_padding", 0)
    grids = [
        [(n + 2 * p - k) // s + 1 for n, p, k, s in zip(side, padding, kernel, step, strict=True)]
    ]
    stages: list[list[Place]] = []
    window, before = c.window_size_per_stage[0], c.hidden_size
    for i, (depth, width, heads, stage_window) in enumerate(zip(*lists, strict=True)):
        pools = 1 <= i <= c.num_query_pool_stages
        stages.append([])
        for j in range(depth):
            is_global = sum(c.blocks_per_stage[:i]) + j in c.global_attention_blocks
            near = 0 if is_global else stage_window if j else window
            stages[-1].append(
                Place(before, width, heads, stride[0] if pools and not j else 1, near)
            )
            before = width
        window = stage_window
        if i:
            grids.append([n // stride[0] if pools else n for n in grids[-1]])
    read, first = grids[MAPS - 1][0], c.window_size_per_stage[0]
    wanted = [[read << n] * 2 for n in range(MAPS - 1, -1, -1)]
    doubled = all(
        grids[i] == [2 * n for n in grids[i + 1]]
        for i in seen.fpn_top_down_levels
        if i in range(len(grids) - 1)
    )
    fpn_keeps_size = seen.fpn_stride == 1 and seen.fpn_kernel_size == 2 * seen.fpn_padding + 1
    pooled = all(a.stride == 1 or a.inputs != a.outputs for places in stages for a in places)
    if (
        grids[:MAPS] != wanted
        or side != (asked.image_size,) * 2
        or not (
            doubled
            and fpn_keeps_size
            and pooled
            and stride[0] == stride[1]
            and grids[0][0] % first == 0
            and 1 <= asked.patch_size
            and asked.image_size // asked.patch_size == read >= 1
            and (seen.backbone_feature_sizes or wanted) == wanted
        )
    ):
        raise FormatError(
            f"config.json: an image_size {c.image_size} gives maps of {grids}, which do not fit "
            f"backbone_feature_sizes {seen.backbone_feature_sizes}, window_size_per_stage "
            f"{c.window_size_per_stage}, image_size {asked.image_size} or patch_size "
            f"{asked.patch_size} of prompts, or the neck's levels"
        )
    return stages
