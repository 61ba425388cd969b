"""Hiera (Ryali et al., 2023), whose layers pool queries where a stage begins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.image.preprocessor_config import DINOV2
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.outputs.stages import normed_maps, put_norms
from rushlight.models.layers.vision.transformer import put_parameter
from rushlight.models.layers.vision.vit import pair


class PooledAttention(nn.Module):
    """Attention of places, whose queries may be fewer than the keys."""

    def __init__(self, inputs: int, outputs: int, heads: int) -> None:
        if heads < 1 or outputs % heads:
            raise FormatError(f"config.json: {outputs} channels do not fit {heads} num_heads")
        self.heads = heads
        self.qkv, self.proj = nn.Linear(inputs, 3 * outputs), nn.Linear(outputs, outputs)

    def forward(self, x: Tensor, pool: Callable[[Tensor], Tensor] | None) -> Tensor:
        """x (n, places, inputs) -> (n, queries, outputs). pool: what makes the queries fewer."""
        q, k, v = self.qkv(x).chunk(3, -1)
        q = q if pool is None else pool(q)
        q, k, v = (
            vectors.reshape(len(x), vectors.shape[1], self.heads, -1).transpose(1, 2)
            for vectors in (q, k, v)
        )
        seen = scaled_dot_product_attention(q, k, v).transpose(1, 2)
        out: Tensor = self.proj(seen.reshape(len(x), seen.shape[1], -1))
        return out


@dataclass(frozen=True)
class Place:
    """Where a layer stands: its channels, the places pooled to one, and a window's after pooling.

    window: 0 for attention to all places. doubled: instead of a projection the largest and the mean
    of the pooled places make the wider state.
    """

    inputs: int
    outputs: int
    heads: int
    stride: int = 1
    window: int = 0
    doubled: bool = False


class Layer(nn.Module):
    """A layer over places in the order of `unrolled`; scaled: results times a learned vector."""

    def __init__(self, place: Place, inner: int, act: str, eps: float, scaled: bool) -> None:
        self.place, self.act, self.scaled = place, ACTIVATIONS[act], scaled
        self.layernorm_before = nn.LayerNorm(place.inputs, eps)
        self.attn = PooledAttention(place.inputs, place.outputs, place.heads)
        self.layernorm_after = nn.LayerNorm(place.outputs, eps)
        put(self, "mlp.fc1", nn.Linear(place.outputs, inner))
        put(self, "mlp.fc2", nn.Linear(inner, place.outputs))
        if place.inputs != place.outputs and not place.doubled:
            self.proj = nn.Linear(place.inputs, place.outputs)
        for i in (1, 2) if scaled else ():
            put_parameter(self, f"layer_scale{i}.lambda1", place.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """x (batch, places, inputs) -> (batch, places / stride, outputs)."""
        place = self.place
        layer: Any = self
        normed = layer.layernorm_before(x)
        if place.inputs != place.outputs:
            near = self._near(x if place.doubled else layer.proj(normed))
            x = cat([near.amax(1), near.mean(1)], -1) if place.doubled else near.amax(1)
        batch, count, width = normed.shape
        size = place.stride * place.window or count
        # The places of a window lie count / size apart.
        windows = normed.reshape(batch, size, -1, width).transpose(1, 2).reshape(-1, size, width)
        seen = layer.attn(windows, self._pooled if place.stride > 1 else None)
        seen = seen.reshape(batch, -1, *seen.shape[1:]).transpose(1, 2).flatten(1, 2)
        x = x + (seen * layer.layer_scale1.lambda1 if self.scaled else seen)
        mlp_out = layer.mlp.fc2(self.act(layer.mlp.fc1(layer.layernorm_after(x))))
        out: Tensor = x + (mlp_out * layer.layer_scale2.lambda1 if self.scaled else mlp_out)
        return out

    def _near(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), self.place.stride, -1, x.shape[-1])

    def _pooled(self, x: Tensor) -> Tensor:
        pooled: Tensor = self._near(x).amax(1)
        return pooled


class Hiera(ImageModel):
    """Hiera in transformers' names. The last hidden state (batch, places, width) is not normed.

    named: the states of a backbone, which have norms of their own.
    """

    def __init__(
        self,
        c: Any,
        stages: list[list[Place]],
        labels: tuple[str, ...],
        scaled: bool,
        named: Sequence[int] = (),
    ) -> None:
        self.config, self.labels, self.named = c, labels, named
        self.image_size = size = pair(c.image_size, "image_size")
        self.processor = replace(DINOV2, crop=size, shortest=max(size) * 8 // 7)
        self.stride = pair(c.patch_stride, "patch_stride")
        self.pool = pair(c.query_stride, "query_stride")
        width, last = c.embed_dim, stages[-1][-1].outputs
        put(
            self,
            "hiera.embeddings.patch_embeddings.projection",
            nn.Conv2d(
                c.num_channels,
                width,
                pair(c.patch_size, "patch_size"),
                self.stride,
                pair(c.patch_padding, "patch_padding", 0),
            ),
        )
        self.grid = size[0] // self.stride[0], size[1] // self.stride[1]
        base = "hiera.embeddings.position_embeddings"
        if c.background is None:
            put_parameter(self, base, 1, math.prod(self.grid), width)
        else:
            put_parameter(self, base, 1, width, *pair(c.background, "background"))
            unit = pair(c.masked_unit_size, "masked_unit_size")
            put_parameter(self, f"{base}_window", 1, width, *unit)
        for i, places in enumerate(stages):
            layers = [
                Layer(
                    place, int(place.outputs * c.mlp_ratio), c.hidden_act, c.layer_norm_eps, scaled
                )
                for place in places
            ]
            put(self, f"hiera.encoder.stages.{i}.layers", nn.ModuleList(layers))
        put_norms(self, named, [width, *(places[-1].outputs for places in stages)])
        if not named:
            put(self, "hiera.pooler.layernorm", nn.LayerNorm(last, c.layer_norm_eps))
        if labels:
            put(self, "classifier", nn.Linear(last, len(labels)))

    def hidden(self, pixels: Tensor) -> Tensor:
        if self.named:
            return self.feature_maps(pixels)[-1].flatten(2).transpose(1, 2)
        return self._states(pixels)[-1]

    def feature_maps(self, pixels: Tensor) -> list[Tensor]:
        """The maps (batch, channels, height, width) that a backbone names, after their norms."""
        c, maps = self.config, []
        for i, x in enumerate(self._states(pixels)):
            pooled, times = min(max(i - 1, 0), c.num_query_pool), len(c.depths) - 1
            down, across = (n // s**pooled for n, s in zip(self.grid, self.pool, strict=True))
            maps.append(rolled(x, self.pool, times - pooled, (down, across)))
        return normed_maps(self, maps)

    def _states(self, pixels: Tensor) -> list[Tensor]:
        """The places (batch, places, channels) before the stages and after each."""
        c, base = self.config, self.get_submodule("hiera")
        table: Any = base.get_submodule("embeddings")
        x = table.patch_embeddings.projection(self.checked(pixels, c.num_channels))
        x, places = x.permute(0, 2, 3, 1), table.position_embeddings
        if c.background is None:
            places = places.reshape(1, *self.grid, -1)
        else:
            places = windowed_places(places, table.position_embeddings_window, self.grid, True)
        # The places of the published backbone lie by rows, which its layers take for unrolled.
        x = unrolled(x + places, self.pool, 0 if self.named else len(c.depths) - 1)
        states = [x]
        for stage in base.get_submodule("encoder.stages").children():
            for layer in stage.get_submodule("layers").children():
                x = layer(x)
            states.append(x)
        return states

    def encode_image(self, pixels: Tensor) -> Tensor:
        """The norm of the places' mean; without it of a backbone."""
        mean = self.hidden(pixels).mean(1)
        return mean if self.named else self.get_submodule("hiera.pooler.layernorm")(mean)


def unrolled(x: Tensor, stride: tuple[int, int], times: int) -> Tensor:
    """The places (batch, height * width, channels) of x (batch, height, width, channels).

    Those that are pooled together stand first, `times` over: what is pooled is a dim of its own.
    """
    batch, count, (down, across) = len(x), x.shape[1] * x.shape[2], stride
    for _ in range(times):
        _, tall, wide, width = x.shape
        x = x.reshape(-1, tall // down, down, wide // across, across, width)
        x = x.permute(0, 2, 4, 1, 3, 5).flatten(0, 2)
    return x.reshape(batch, count, -1)


def rolled(x: Tensor, stride: tuple[int, int], times: int, grid: tuple[int, int]) -> Tensor:
    """The picture (batch, height, width, channels) of places in the order of `unrolled`."""
    batch, _, width = x.shape
    rows, columns = grid[0] // stride[0] ** times, grid[1] // stride[1] ** times
    x = x.reshape(batch, *(stride * times), rows, columns, width)
    axes = 2 * times
    return x.permute(0, *range(axes + 1, 0, -2), *range(axes + 2, 1, -2), axes + 3).reshape(
        batch, *grid, width
    )


def windowed_places(
    whole: Tensor, window: Tensor, grid: tuple[int, int], antialias: bool = False
) -> Tensor:
    """Positions (1, height, width, channels) of a grid (Bolya et al., 2023).

    whole (1, channels, h, w) is interpolated to the grid; window (1, channels, m, n) is repeated.
    """
    resized = interpolate(whole.float(), size=grid, mode="bicubic", antialias=antialias)
    tiled = window.repeat(1, 1, grid[0] // window.shape[2], grid[1] // window.shape[3])
    return (resized.to(window.dtype) + tiled).permute(0, 2, 3, 1)
