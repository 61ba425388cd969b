"""SwiftFormer (Shaker et al., 2023): convolutions, and an attention that adds one global query."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.reductions import normalize
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel, classes_of
from rushlight.models.layers.vision.transformer import put_parameter
from rushlight.models.layers.vision.vit import pair


@dataclass
class Config:
    """The keys of config.json."""

    neutral = {"image_size": (), "drop_mlp_rate": (), "drop_conv_encoder_rate": ()}

    num_channels: int = 3
    depths: list[int] = field(default_factory=lambda: [3, 3, 6, 4])
    embed_dims: list[int] = field(default_factory=lambda: [48, 56, 112, 220])
    mlp_ratio: float = 4
    downsamples: list[bool] = field(default_factory=lambda: [True] * 4)
    hidden_act: str = "gelu"
    down_patch_size: Any = 3
    down_stride: Any = 2
    down_pad: Any = 1
    drop_path_rate: float = 0.0  # of training
    use_layer_scale: bool = True
    layer_scale_init_value: float = 1e-5  # before training
    batch_norm_eps: float = 1e-5
    model_type: str = "swiftformer"


class _Conv(nn.Module):
    """x + scale * a convolution of each channel and two of single places."""

    def __init__(self, width: int, inner: int, eps: float) -> None:
        self.depth_wise_conv = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.BatchNorm2d(width, eps)
        self.point_wise_conv1 = nn.Conv2d(width, inner, 1)
        self.point_wise_conv2 = nn.Conv2d(inner, width, 1)
        put_parameter(self, "layer_scale", width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        of: Any = self
        y = of.point_wise_conv1(of.norm(of.depth_wise_conv(x)))
        y = of.point_wise_conv2(ACTIVATIONS["gelu"](y))
        out: Tensor = x + of.layer_scale * y
        return out


class _Block(nn.Module):
    """A convolution, the additive attention and an MLP."""

    def __init__(self, c: Config, width: int) -> None:
        self.act, self.width, inner = ACTIVATIONS[c.hidden_act], width, int(width * c.mlp_ratio)
        self.local_representation = _Conv(width, width, c.batch_norm_eps)
        for name in ("to_query", "to_key", "proj", "final"):
            put(self, f"attn.{name}", nn.Linear(width, width))
        put_parameter(self, "attn.w_g", width, 1)
        put(self, "linear.norm1", nn.BatchNorm2d(width, c.batch_norm_eps))
        put(self, "linear.fc1", nn.Conv2d(width, inner, 1))
        put(self, "linear.fc2", nn.Conv2d(inner, width, 1))
        for i in (1, 2) if c.use_layer_scale else ():
            put_parameter(self, f"layer_scale_{i}", width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        of: Any = self
        x = of.local_representation(x)
        net, tokens = of.attn, x.flatten(2).transpose(1, 2)
        q, k = (normalize(layer(tokens), dim=-1) for layer in (net.to_query, net.to_key))
        # The published softmax is over one number, and so every place weighs the same.
        weight = (q @ net.w_g * self.width**-0.5).softmax(-1)
        whole = (weight * q).sum(1, keepdim=True)
        seen = net.final(net.proj(whole * k) + q).transpose(1, 2).reshape(x.shape)
        x = x + self._scaled(seen, 1)
        fed = of.linear.fc2(self.act(of.linear.fc1(of.linear.norm1(x))))
        return x + self._scaled(fed, 2)

    def _scaled(self, x: Tensor, number: int) -> Tensor:
        scale: Tensor | None = getattr(self, f"layer_scale_{number}", None)
        return x if scale is None else x * scale


class SwiftFormer(ImageModel):
    """SwiftFormer in transformers' names; logits are the mean of two heads."""

    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels, (first, *_) = c, labels, c.embed_dims
        eps, base = c.batch_norm_eps, "swiftformer."
        stem = [(c.num_channels, first // 2), (first // 2, first)]
        parts: list[nn.Module] = []
        for inputs, outputs in stem:
            parts += [nn.Conv2d(inputs, outputs, 3, 2, 1), nn.BatchNorm2d(outputs, eps), nn.ReLU()]
        put(self, f"{base}patch_embed.patch_embedding", nn.Sequential(*parts))
        number = 0
        for i, width in enumerate(c.embed_dims):
            blocks: list[nn.Module] = [
                _Conv(width, int(c.mlp_ratio * width), eps) for _ in range(c.depths[i] - 1)
            ]
            at = f"{base}encoder.network."
            put(self, f"{at}{number}.blocks", nn.ModuleList([*blocks, _Block(c, width)]))
            number += 1
            if i + 1 < len(c.depths) and (c.downsamples[i] or width != c.embed_dims[i + 1]):
                size, step = (pair(getattr(c, n), n) for n in ("down_patch_size", "down_stride"))
                conv = nn.Conv2d(
                    width, c.embed_dims[i + 1], size, step, pair(c.down_pad, "down_pad", 0)
                )
                put(self, f"{at}{number}.proj", conv)
                put(self, f"{at}{number}.norm", nn.BatchNorm2d(c.embed_dims[i + 1], eps))
                number += 1
        last = c.embed_dims[-1]
        if labels:
            self.norm = nn.BatchNorm2d(last, eps)
            self.head, self.dist_head = (nn.Linear(last, len(labels)) for _ in range(2))

    def hidden(self, pixels: Tensor) -> Tensor:
        net: Any = self.get_submodule("swiftformer")
        x = net.patch_embed.patch_embedding(self.checked(pixels, self.config.num_channels))
        for part in net.encoder.network.children():
            for name, step in part.named_children():
                for layer in step.children() if name == "blocks" else [step]:
                    x = layer(x)
        made: Tensor = x
        return made

    def encode_image(self, pixels: Tensor) -> Tensor:
        x = self.hidden(pixels)
        mean: Tensor = (self.norm(x) if self.labels else x).mean((2, 3))
        return mean

    def forward(self, pixels: Tensor) -> Tensor:
        if not self.labels:
            return self.hidden(pixels)
        vector = self.encode_image(pixels)
        logits: Tensor = (self.head(vector) + self.dist_head(vector)) / 2
        return logits


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> SwiftFormer:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    count = len(c.depths)
    sizes = all(type(n) is int and 1 <= n <= 1 << 14 for n in (*c.depths, *c.embed_dims))
    if not 1 <= count == len(c.embed_dims) <= len(c.downsamples) or not sizes:
        raise FormatError("config.json: depths, embed_dims and downsamples do not agree")
    return SwiftFormer(c, classes_of(config, "SwiftFormer", False))


FAMILY = Family(
    model_types=("swiftformer",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="swiftformer.",
    config=Config,
    build=build,
)
