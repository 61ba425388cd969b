"""PoolFormer (Yu et al., 2022): a transformer's layers with means of neighbours for attention."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.pooling import avg_pool2d
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import at_least_one, choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel, classes_of
from rushlight.models.layers.vision.transformer import put_parameter

_LISTS = ("depths", "hidden_sizes", "patch_sizes", "strides", "padding")


def _four(*numbers: int) -> Any:
    return field(default_factory=lambda: list(numbers))


@dataclass
class Config:
    """The keys of config.json."""

    neutral = {"patch_size": (), "stride": (), "hidden_size": ()}

    num_channels: int = 3
    pool_size: int = 3
    mlp_ratio: float = 4.0
    depths: list[int] = _four(2, 2, 6, 2)
    hidden_sizes: list[int] = _four(64, 128, 320, 512)
    patch_sizes: list[int] = _four(7, 3, 3, 3)
    strides: list[int] = _four(4, 2, 2, 2)
    padding: list[int] = _four(2, 1, 1, 1)
    num_encoder_blocks: int = 4
    drop_path_rate: float = 0.0  # of training
    hidden_act: str = "gelu"
    use_layer_scale: bool = True
    layer_scale_init_value: float = 1e-5  # before training
    model_type: str = "poolformer"


class _Layer(nn.Module):
    def __init__(self, c: Config, width: int) -> None:
        self.config, inner = c, int(width * c.mlp_ratio)
        self.before_norm, self.after_norm = nn.GroupNorm(1, width), nn.GroupNorm(1, width)
        put(self, "output.conv1", nn.Conv2d(width, inner, 1))
        put(self, "output.conv2", nn.Conv2d(inner, width, 1))
        for i in (1, 2) if c.use_layer_scale else ():
            put_parameter(self, f"layer_scale_{i}", width)

    def forward(self, x: Tensor) -> Tensor:
        c, of, size = self.config, self.get_submodule, self.config.pool_size
        y = self.before_norm(x)
        near = avg_pool2d(y, size, 1, size // 2, count_include_pad=False)
        x = x + self._scaled(near - y, "layer_scale_1")
        y = of("output.conv2")(ACTIVATIONS[c.hidden_act](of("output.conv1")(self.after_norm(x))))
        return x + self._scaled(y, "layer_scale_2")

    def _scaled(self, x: Tensor, name: str) -> Tensor:
        scale: Tensor | None = getattr(self, name, None)
        return x if scale is None else x * scale.reshape(-1, 1, 1)


class PoolFormer(ImageModel):
    """PoolFormer in transformers' names."""

    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["PoolFormer"]
        before, base = c.num_channels, "poolformer.encoder."
        for i, width in enumerate(c.hidden_sizes):
            conv = nn.Conv2d(before, width, c.patch_sizes[i], c.strides[i], c.padding[i])
            put(self, f"{base}patch_embeddings.{i}.projection", conv)
            layers = [_Layer(c, width) for _ in range(c.depths[i])]
            put(self, f"{base}block.{i}", nn.ModuleList(layers))
            before = width
        if labels:
            self.norm, self.classifier = nn.GroupNorm(1, before), nn.Linear(before, len(labels))

    def hidden(self, pixels: Tensor) -> Tensor:
        net: Any = self.get_submodule("poolformer.encoder")
        x = self.checked(pixels, self.config.num_channels)
        both = zip(net.patch_embeddings.children(), net.block.children(), strict=True)
        for patches, layers in both:
            x = patches.projection(x)
            for layer in layers:
                x = layer(x)
        return x

    def encode_image(self, pixels: Tensor) -> Tensor:
        x = self.hidden(pixels)
        mean: Tensor = (self.norm(x) if self.labels else x).mean((2, 3))
        return mean


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> PoolFormer:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    at_least_one(c, "num_encoder_blocks")
    for key in _LISTS:
        sizes = getattr(c, key)[: c.num_encoder_blocks]
        if len(sizes) != c.num_encoder_blocks or not all(type(n) is int and n >= 0 for n in sizes):
            raise FormatError(f"config.json: {key} does not have {c.num_encoder_blocks} sizes")
        setattr(c, key, sizes)
    return PoolFormer(c, classes_of(config, "PoolFormer", False))


FAMILY = Family(
    model_types=("poolformer",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="poolformer.",
    config=Config,
    build=build,
    unused=lambda name, config: name.startswith(("pooler.", "poolformer.pooler.")),
)
