"""VideoMAE (Tong et al., 2022) and ViViT (Arnab et al., 2021): ViT over tubes of frames."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.ops.join import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.classes import ArchitectureError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.transformer import put_parameter
from rushlight.models.layers.vision.video import VideoModel, vit_layer
from rushlight.models.layers.vision.vit import pair

BASES = {"videomae": "VideoMAE", "vivit": "Vivit"}
_DECODER = (
    "decoder_num_attention_heads",
    "decoder_hidden_size",
    "decoder_num_hidden_layers",
    "decoder_intermediate_size",
    "norm_pix_loss",
)


@dataclass
class Config:
    """The keys of config.json."""

    neutral = dict.fromkeys((*_DECODER, "embedding_size"), ())

    image_size: Any = 224
    patch_size: Any = 16
    num_channels: int = 3
    num_frames: int = 16
    tubelet_size: Any = 2
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    qv_bias: bool = True
    qkv_bias: bool | None = None
    use_mean_pooling: bool = True
    model_type: str = "videomae"


@dataclass
class Vivit(Config):
    """The keys of ViViT's config.json."""

    num_frames: int = 32
    tubelet_size: Any = field(default_factory=lambda: [2, 16, 16])
    hidden_act: str = "gelu_fast"
    qkv_bias: bool | None = True
    pooler_output_size: int | None = None
    pooler_act: str = "tanh"
    model_type: str = "vivit"


class VideoTransformer(VideoModel):
    """VideoMAE and ViViT in transformers' names."""

    def __init__(self, c: Config, tube: tuple[int, int, int], base: str, labels: Any) -> None:
        self.config, self.labels, self.base = c, labels, base
        self.vivit, width, eps = c.model_type == "vivit", c.hidden_size, c.layer_norm_eps
        self.frames, self.tube, self.channels = c.num_frames, tube, c.num_channels
        self.size = pair(c.image_size, "image_size")
        usual = KINDS["Vivit" if self.vivit else "VideoMAE"]
        self.processor = replace(usual, crop=self.size)
        count = self.make_patches(f"{base}embeddings.patch_embeddings.projection", width)
        biased = bool(c.qv_bias if c.qkv_bias is None else c.qkv_bias)
        if self.vivit:
            put_parameter(self, f"{base}embeddings.cls_token", 1, 1, width)
            put_parameter(self, f"{base}embeddings.position_embeddings", 1, count + 1, width)
        for i in range(c.num_hidden_layers):
            layer = vit_layer(c, (biased, biased and self.vivit, biased))
            put(self, f"{base}encoder.layer.{i}", layer)
        self.mean = not self.vivit and c.use_mean_pooling
        if not self.mean:
            put(self, f"{base}layernorm", nn.LayerNorm(width, eps))
        elif labels:
            self.fc_norm = nn.LayerNorm(width)
        if isinstance(c, Vivit) and not labels:
            put(self, f"{base}pooler.dense", nn.Linear(width, c.pooler_output_size or width))
        if labels:
            self.classifier = nn.Linear(width, len(labels))

    def hidden(self, pixels: Tensor) -> Tensor:
        net: Any = self.get_submodule(self.base[:-1]) if self.base else self
        x = net.embeddings.patch_embeddings.projection(self.seen(pixels).transpose(1, 2))
        x = x.flatten(2).transpose(1, 2)
        if self.vivit:
            first = net.embeddings.cls_token.expand(len(x), -1, -1)
            x = cat([first, x], 1) + net.embeddings.position_embeddings
        else:
            table = tensor(_sines(x.shape[1], x.shape[2]), device=x.device)
            x = x + table.to(x.dtype)
        for layer in net.encoder.layer.children():
            x = layer(x)
        last: Tensor = x if self.mean else net.layernorm(x)
        return last

    def encode_image(self, pixels: Tensor) -> Tensor:
        x = self.hidden(pixels)
        if not self.mean:
            if self.vivit and not self.labels:
                c: Any = self.config
                pooled: Tensor = self.get_submodule(f"{self.base}pooler.dense")(x[:, 0])
                return ACTIVATIONS[c.pooler_act](pooled)
            return x[:, 0]
        return self.fc_norm(x.mean(1)) if self.labels else x.mean(1)


def _sines(count: int, width: int) -> Any:
    """Sines and cosines in turn (1, count, width) of the places' numbers, from float64."""
    bands = 10000.0 ** (-2 * (np.arange(width) // 2) / width)
    angles = np.arange(count)[:, None] * bands
    even = np.arange(width) % 2 == 0
    return np.where(even, np.sin(angles), np.cos(angles)).astype(np.float32)[None]


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> VideoTransformer:
    """The model of a checkpoint with these tensor names, on the meta device."""
    kind = Vivit if config.get("model_type") == "vivit" else Config
    c = read_config(kind, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("pooler_act", getattr(c, "pooler_act", "tanh"), tuple(ACTIVATIONS))
    base = BASES[c.model_type]
    classes = (f"{base}ForVideoClassification", f"{base}Model", f"{base}ForPreTraining")
    named = (config.get("architectures") or classes)[0]
    if named not in classes:
        raise ArchitectureError([named], classes)
    labels = labels_of(config) if named == classes[0] else ()
    if kind is Vivit:
        tall = c.tubelet_size if isinstance(c.tubelet_size, list) else [c.tubelet_size]
        choose("len(tubelet_size)", len(tall), (3,))
        tube = (tall[0], *pair(tall[1:], "tubelet_size"))
    else:
        tube = (int(c.tubelet_size), *pair(c.patch_size, "patch_size"))
    prefixed = any(n.startswith(f"{c.model_type}.") for n in names)
    model = VideoTransformer(c, tube, f"{c.model_type}." if prefixed else "", labels)
    model.tasks = ("video-classification",) if labels else ()
    return model


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with the biases of queries and values where those of products are."""
    parts = {
        ".attention.q_bias": ".attention.query.bias",
        ".attention.v_bias": ".attention.value.bias",
    }
    by_name = {}
    for name, t in tensors.items():
        for old, new in parts.items():
            name = name.replace(old, new)
        by_name[name] = t
    return by_name


FAMILY = Family(
    model_types=tuple(BASES),
    tasks=("video-classification",),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=lambda name, config: name.startswith(
        ("decoder.", "encoder_to_decoder.", "mask_token", "position_embeddings")
    ),
)
