"""V-JEPA 2 (Assran et al., 2025): a video transformer with rotations by frame, row and column."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.joining import stack
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.checkpoints.classes import ArchitectureError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.places import Rotary, Rotation
from rushlight.models.layers.vision.transformer import (
    CLIP_NAMES,
    Layer,
    LayerNames,
    LayerSpec,
    put_parameter,
)
from rushlight.models.layers.vision.video import VideoModel

ARCHITECTURES = ("VJEPA2ForVideoClassification", "VJEPA2Model")
_NAMES = LayerNames(
    "attention.query",
    "attention.key",
    "attention.value",
    "attention.proj",
    "mlp.fc1",
    "mlp.fc2",
    "norm1",
    "norm2",
)
_PREDICTOR = ("hidden_size", "num_attention_heads", "num_hidden_layers", "num_mask_tokens",
              "zero_init_mask_tokens", "mlp_ratio")  # fmt: skip


@dataclass
class Config:
    """The keys of config.json; the predictor, which only training has, is not read."""

    neutral = {f"pred_{name}": () for name in _PREDICTOR}

    patch_size: int = 16
    crop_size: int = 256
    frames_per_clip: int = 64
    tubelet_size: int = 2
    hidden_size: int = 1024
    in_chans: int = 3
    num_attention_heads: int = 16
    num_hidden_layers: int = 24
    drop_path_rate: float = 0.0
    mlp_ratio: float = 4.0
    layer_norm_eps: float = 1e-6
    qkv_bias: bool = True
    hidden_act: str = "gelu"
    num_pooler_layers: int = 3
    model_type: str = "vjepa2"


class _Places(Rotary):
    """Rotations of three parts of a head; its rest is as it is.

    Neighbours turn together, by angles that are given once for each half, as the authors have it.
    """

    def spread(self, depth: int, side: int, like: Tensor) -> Rotation:
        """Cosines and sines (tokens, head) of the places of a video."""
        part = 2 * (self.head // 3 // 2)
        bands = self.theta ** -(arange(part // 2, device=like.device).float() / (part / 2))
        number = arange(depth * side * side, device=like.device)
        frame = number // (side * side)
        row = (number - frame * side * side) // side
        column = number - frame * side * side - row * side
        angles = [(p.float().unsqueeze(1) * bands).repeat(1, 2) for p in (frame, row, column)]
        joined = cat(angles, 1)
        rest = joined.new_zeros(len(joined), self.head - 3 * part)
        joined = cat([joined, rest], 1)
        return joined.cos().to(like.dtype), joined.sin().to(like.dtype)

    def rotate(self, x: Tensor, tables: Rotation) -> Tensor:
        cosines, sines = tables
        first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
        return x * cosines + stack([-second, first], -1).flatten(-2) * sines


class VJepa2(VideoModel):
    """V-JEPA 2 in transformers' names."""

    def __init__(self, c: Config, base: str, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.base, width = c, labels, base, c.hidden_size
        self.frames, self.channels = c.frames_per_clip, c.in_chans
        self.size, self.tube = (c.crop_size,) * 2, (c.tubelet_size, c.patch_size, c.patch_size)
        wide = int(c.crop_size * 256 / 224)
        self.processor = replace(KINDS["VJEPA2"], shortest=wide, crop=self.size)
        self.make_patches(f"{base}encoder.embeddings.patch_embeddings.proj", width)
        heads, inner, eps = c.num_attention_heads, int(width * c.mlp_ratio), c.layer_norm_eps
        self.places = _Places(width // heads, 10000.0)
        spec = LayerSpec(
            width, heads, inner, c.hidden_act, eps, (c.qkv_bias,) * 3, names=_NAMES,
            rotary=self.places,
        )  # fmt: skip
        for i in range(c.num_hidden_layers):
            put(self, f"{base}encoder.layer.{i}", Layer(spec))
        put(self, f"{base}encoder.layernorm", nn.LayerNorm(width, eps))
        if not labels:
            return
        own = LayerSpec(width, heads, 4 * width, c.hidden_act, eps, names=CLIP_NAMES)
        for i in range(c.num_pooler_layers):
            put(self, f"pooler.self_attention_layers.{i}", Layer(own))
        put_parameter(self, "pooler.query_tokens", 1, 1, width)
        for name in ("q_proj", "k_proj", "v_proj"):
            put(self, f"pooler.cross_attention_layer.cross_attn.{name}", nn.Linear(width, width))
        for i, (inputs, outputs) in ((1, (width, 4 * width)), (2, (4 * width, width))):
            put(self, f"pooler.cross_attention_layer.mlp.fc{i}", nn.Linear(inputs, outputs))
            put(self, f"pooler.cross_attention_layer.layer_norm{i}", nn.LayerNorm(width, eps))
        self.classifier = nn.Linear(width, len(labels))

    def hidden(self, pixels: Tensor) -> Tensor:
        net: Any = self.get_submodule(f"{self.base}encoder")
        x = self.seen(pixels, any_length=True).transpose(1, 2)
        if x.shape[2] < self.tube[0]:
            x = x.repeat(1, 1, self.tube[0], 1, 1)
        x = net.embeddings.patch_embeddings.proj(x)
        depth, side = x.shape[2], x.shape[3]
        x = x.flatten(2).transpose(1, 2)
        tables = self.places.spread(depth, side, x)
        for layer in net.layer.children():
            x = layer(x, tables=tables)
        normed: Tensor = net.layernorm(x)
        return normed

    def encode_image(self, pixels: Tensor) -> Tensor:
        x = self.hidden(pixels)
        if not self.labels:
            return x.mean(1)
        pooler: Any = self.get_submodule("pooler")
        layers = getattr(pooler, "self_attention_layers", None)
        for layer in layers.children() if layers is not None else ():
            x = layer(x)
        cross, asked = pooler.cross_attention_layer, pooler.query_tokens.expand(len(x), -1, -1)
        normed, net = cross.layer_norm1(x), cross.cross_attn
        q, k, v = (
            project(t).unflatten(-1, (self.config.num_attention_heads, -1)).transpose(1, 2)
            for project, t in ((net.q_proj, asked), (net.k_proj, normed), (net.v_proj, normed))
        )
        y = asked + scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        act = ACTIVATIONS[self.config.hidden_act]
        made: Tensor = y + cross.mlp.fc2(act(cross.mlp.fc1(cross.layer_norm2(y))))
        return made[:, 0]


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> VJepa2:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    named = (config.get("architectures") or ARCHITECTURES)[0]
    if named not in ARCHITECTURES:
        raise ArchitectureError([named], ARCHITECTURES)
    labels = labels_of(config) if named == ARCHITECTURES[0] else ()
    prefixed = any(n.startswith("vjepa2.") for n in names)
    model = VJepa2(c, "vjepa2." if prefixed else "", labels)
    model.tasks = ("video-classification",) if labels else ()
    return model


FAMILY = Family(
    model_types=("vjepa2",),
    tasks=("video-classification",),
    config=Config,
    build=build,
    unused=lambda name, config: name.removeprefix("vjepa2.").startswith("predictor."),
)
