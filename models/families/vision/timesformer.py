"""TimeSformer (Bertasius et al., 2021): attention over time, then within each frame."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.classes import ArchitectureError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.transformer import put_parameter
from rushlight.models.layers.vision.video import VideoModel
from rushlight.models.layers.vision.vit import pair

ARCHITECTURES = ("TimesformerForVideoClassification", "TimesformerModel")


@dataclass
class Config:
    """The keys of config.json."""

    image_size: Any = 224
    patch_size: Any = 16
    num_channels: int = 3
    num_frames: int = 8
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    qkv_bias: bool = True
    attention_type: str = "divided_space_time"
    drop_path_rate: float = 0  # of training
    model_type: str = "timesformer"


class _Layer(nn.Module):
    def __init__(self, c: Config) -> None:
        width, self.heads, self.act = (
            c.hidden_size,
            c.num_attention_heads,
            ACTIVATIONS[c.hidden_act],
        )
        self.divided = c.attention_type == "divided_space_time"
        for name in ("attention", *(["temporal_attention"] if self.divided else [])):
            put(self, f"{name}.attention.qkv", nn.Linear(width, 3 * width, c.qkv_bias))
            put(self, f"{name}.output.dense", nn.Linear(width, width))
        norms = ["layernorm_before", "layernorm_after"]
        for name in norms + (["temporal_layernorm"] if self.divided else []):
            put(self, name, nn.LayerNorm(width, c.layer_norm_eps))
        if self.divided:
            self.temporal_dense = nn.Linear(width, width)
        put(self, "intermediate.dense", nn.Linear(width, c.intermediate_size))
        put(self, "output.dense", nn.Linear(c.intermediate_size, width))

    def _attended(self, x: Tensor, name: str) -> Tensor:
        of = self.get_submodule
        q, k, v = of(f"{name}.attention.qkv")(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        seen = scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)))
        made: Tensor = of(f"{name}.output.dense")(seen.transpose(1, 2).flatten(2))
        return made

    def forward(self, x: Tensor, frames: int) -> Tensor:
        """x (batch, 1 + places frames, width): the frames of each place one after another."""
        of = self.get_submodule
        norm = of("layernorm_before")
        if not self.divided:
            x = x + self._attended(norm(x), "attention")
        else:
            batch, _, width = x.shape
            first, rest = x[:, :1], x[:, 1:]
            over_time = of("temporal_layernorm")(rest).reshape(-1, frames, width)
            moved = self._attended(over_time, "temporal_attention").reshape(rest.shape)
            rest = rest + self.temporal_dense(moved)
            by_frame = rest.reshape(batch, -1, frames, width).transpose(1, 2)
            each = first.unsqueeze(1).expand(-1, frames, -1, -1)
            seen = self._attended(norm(cat([each, by_frame], 2).flatten(0, 1)), "attention")
            seen = seen.reshape(batch, frames, -1, width)
            more = seen[:, :, 1:].transpose(1, 2).reshape(rest.shape)
            x = cat([first + seen[:, :, :1].mean(1), rest + more], 1)
        fed: Tensor = of("output.dense")(
            self.act(of("intermediate.dense")(of("layernorm_after")(x)))
        )
        return x + fed


class Timesformer(VideoModel):
    """TimeSformer in transformers' names."""

    def __init__(self, c: Config, base: str, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.base, width = c, labels, base, c.hidden_size
        self.frames, self.channels = c.num_frames, c.num_channels
        self.size, patch = pair(c.image_size, "image_size"), pair(c.patch_size, "patch_size")
        self.processor = replace(KINDS["VideoMAE"], crop=self.size)
        count = (self.size[0] // patch[0]) * (self.size[1] // patch[1])
        table = f"{base}embeddings."
        conv = nn.Conv2d(c.num_channels, width, patch, patch)
        put(self, f"{table}patch_embeddings.projection", conv)
        put_parameter(self, f"{table}cls_token", 1, 1, width)
        put_parameter(self, f"{table}position_embeddings", 1, count + 1, width)
        if c.attention_type != "space_only":
            put_parameter(self, f"{table}time_embeddings", 1, c.num_frames, width)
        layers = [_Layer(c) for _ in range(c.num_hidden_layers)]
        put(self, f"{base}encoder.layer", nn.ModuleList(layers))
        put(self, f"{base}layernorm", nn.LayerNorm(width, c.layer_norm_eps))
        if labels:
            self.classifier = nn.Linear(width, len(labels))

    def hidden(self, pixels: Tensor) -> Tensor:
        net: Any = self.get_submodule(self.base[:-1]) if self.base else self
        pixels, table = (
            self.seen(pixels, any_length=self.config.attention_type != "space_only"),
            net.embeddings,
        )
        batch, frames = pixels.shape[:2]
        x = table.patch_embeddings.projection(pixels.flatten(0, 1)).flatten(2).transpose(1, 2)
        x = cat([table.cls_token.expand(len(x), -1, -1), x], 1) + table.position_embeddings
        if self.config.attention_type != "space_only":
            first = x[:batch, :1]  # those of all frames are alike
            rest = x[:, 1:].reshape(batch, frames, -1, x.shape[2]).transpose(1, 2)
            times = table.time_embeddings
            if frames != times.shape[1]:
                times = interpolate(times.transpose(1, 2), size=frames, mode="nearest")
                times = times.transpose(1, 2)
            x = cat([first, (rest + times.unsqueeze(1)).flatten(1, 2)], 1)
        for layer in net.encoder.layer:
            x = layer(x, frames)
        normed: Tensor = net.layernorm(x)
        return normed


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Timesformer:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    kinds = ("divided_space_time", "joint_space_time", "space_only")
    choose("attention_type", c.attention_type, kinds)
    named = (config.get("architectures") or ARCHITECTURES)[0]
    if named not in ARCHITECTURES:
        raise ArchitectureError([named], ARCHITECTURES)
    labels = labels_of(config) if named == ARCHITECTURES[0] else ()
    prefixed = any(n.startswith("timesformer.") for n in names)
    model = Timesformer(c, "timesformer." if prefixed else "", labels)
    model.tasks = ("video-classification",) if labels else ()
    return model


FAMILY = Family(
    model_types=("timesformer",),
    tasks=("video-classification",),
    config=Config,
    build=build,
)
