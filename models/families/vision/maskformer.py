"""MaskFormer (Cheng et al., 2021): queries that each give a class and a mask."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.unary import relu
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families import family_of
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.queries import Layer, QuerySpec, sine_places
from rushlight.models.layers.vision.attention.swin import Swin
from rushlight.models.layers.vision.outputs.masks import QueryMasks
from rushlight.models.layers.vision.outputs.stages import stages_of
from rushlight.models.layers.vision.resnet import ResNet, stages

ARCHITECTURES = ("MaskFormerForInstanceSegmentation",)
BACKBONES = {"swin": "swin", "maskformer-swin": "swin", "resnet": "resnet"}
_ENCODER = "model.pixel_level_module.encoder"
_GROUPS = 32  # of norms


@dataclass
class Config:
    """The keys of config.json."""

    backbone_config: dict[str, Any]
    decoder_config: dict[str, Any]
    fpn_feature_size: int = 256
    mask_feature_size: int = 256
    num_attention_heads: int = 8  # the decoder's, as the next one
    num_hidden_layers: int = 6
    # Of training, and of backbones that are fetched by name:
    no_object_weight: float = 0.1
    use_auxiliary_loss: bool = False
    output_auxiliary_logits: bool | None = None
    init_xavier_std: float = 1.0
    dice_weight: float = 1.0
    cross_entropy_weight: float = 1.0
    mask_weight: float = 20.0
    backbone: str | None = None
    use_timm_backbone: bool | None = False
    use_pretrained_backbone: bool | None = False
    backbone_kwargs: dict[str, Any] | None = None
    model_type: str = "maskformer"


class _Joint(nn.Module):
    """A finer map joins what is known of a coarser one."""

    def __init__(self, width: int, inputs: int) -> None:
        self.proj = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.GroupNorm(_GROUPS, width)
        )
        self.block = _convolved(width, width)

    def forward(self, x: Tensor, fine: Tensor) -> Tensor:
        large = interpolate(x, size=fine.shape[2:], mode="nearest")
        out: Tensor = self.block(large + self.proj(fine))
        return out


def _convolved(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.GroupNorm(_GROUPS, outputs),
        nn.ReLU(),
    )


class MaskFormer(QueryMasks):
    """MaskFormer in transformers' names."""

    def __init__(
        self, c: Config, seen: Any, wanted: list[int], d: Any, labels: tuple[str, ...]
    ) -> None:
        self.config, self.decoding, self.labels, self.wanted = c, d, labels, wanted
        self.processor, self.channels = KINDS["MaskFormer"], seen.config.num_channels
        self.swin, width, base = isinstance(seen, Swin), d.d_model, "model.pixel_level_module"
        if self.swin:
            put(self, f"{_ENCODER}.model", seen)
            widths = [stage.width for stage in seen.spec.stages]
            norms = nn.ModuleList([nn.LayerNorm(n) for n in widths])
            put(self, f"{_ENCODER}.hidden_states_norms", norms)
            widths = [widths[0], *widths]
        else:
            put(self, _ENCODER, seen.get_submodule("resnet"))
            widths = [seen.config.embedding_size, *seen.config.hidden_sizes]
        *fine, last = (widths[i] for i in wanted)
        put(self, f"{base}.decoder.fpn.stem", _convolved(last, c.fpn_feature_size))
        for i, inputs in enumerate(reversed(fine)):
            put(self, f"{base}.decoder.fpn.layers.{i}", _Joint(c.fpn_feature_size, inputs))
        put(
            self,
            f"{base}.decoder.mask_projection",
            nn.Conv2d(c.fpn_feature_size, c.mask_feature_size, 3, padding=1),
        )
        path = "model.transformer_module"
        put(self, f"{path}.queries_embedder", nn.Embedding(d.num_queries, width))
        if last != width:
            put(self, f"{path}.input_projection", nn.Conv2d(last, width, 1))
        self.projects = last != width
        spec = QuerySpec(
            width,
            d.decoder_attention_heads,
            d.decoder_ffn_dim,
            d.activation_function,
            decoding=True,
        )
        layers = nn.ModuleList([Layer(spec) for _ in range(d.decoder_layers)])
        put(self, f"{path}.decoder.layers", layers)
        put(self, f"{path}.decoder.layernorm", nn.LayerNorm(width))
        self.class_predictor = nn.Linear(width, len(labels) + 1)
        for i, outputs in enumerate((width, width, c.mask_feature_size)):
            put(self, f"mask_embedder.{i}.0", nn.Linear(width, outputs))

    def maps(self, pixels: Tensor) -> list[Tensor]:
        """What the backbone's stages make, (batch, channels, height, width) each."""
        x, net = self.checked(pixels, self.channels), self.get_submodule(_ENCODER)
        if not self.swin:
            maps = stages(net, x)
            return [maps[i] for i in self.wanted]
        seen: Any = net.get_submodule("model")
        norms, normed_maps = list(net.get_submodule("hidden_states_norms").children()), []
        maps = seen.maps(x, padded=True)
        for i in self.wanted:
            normed_maps.append(norms[i - 1](maps[i - 1]).permute(0, 3, 1, 2))
        return normed_maps

    def hidden(self, pixels: Tensor) -> Tensor:
        """(batch, queries, width) after the decoder's norm."""
        return self._asked(self.maps(pixels)[-1])

    def _asked(self, x: Tensor) -> Tensor:
        module: Any = self.get_submodule("model.transformer_module")
        x = module.input_projection(x) if self.projects else x
        places = sine_places((x.shape[2], x.shape[3]), x.shape[1], x)
        x = x.flatten(2).transpose(1, 2)
        asked = module.queries_embedder.weight.unsqueeze(0)
        hidden = x.new_zeros(len(x), *asked.shape[1:])
        for layer in module.decoder.layers:
            hidden = layer(hidden, asked, x, places)
            if self.decoding.auxiliary_loss:  # whose losses read each layer through the norm
                hidden = module.decoder.layernorm(hidden)
        normed: Tensor = module.decoder.layernorm(hidden)
        return normed

    def seen(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        maps, decoder = self.maps(pixels), self.get_submodule("model.pixel_level_module.decoder")
        fpn = decoder.get_submodule("fpn")
        x = fpn.get_submodule("stem")(maps[-1])
        for layer, fine in zip(fpn.get_submodule("layers").children(), maps[-2::-1], strict=True):
            x = layer(x, fine)
        x = decoder.get_submodule("mask_projection")(x)
        embeddings = asked = self._asked(maps[-1])
        for i in range(3):
            embeddings = self.get_submodule(f"mask_embedder.{i}.0")(
                embeddings if i == 0 else relu(embeddings)
            )
        masks = (embeddings @ x.flatten(2)).reshape(len(x), -1, *x.shape[2:])
        return self.class_predictor(asked), masks


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> MaskFormer:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    for key in ("backbone_config", "decoder_config"):
        if not isinstance(getattr(c, key), dict):
            raise FormatError(f"config.json: {key} must be an object")
    choose("backbone", c.backbone, (None,))
    kind = c.backbone_config.get("model_type")
    choose("decoder_config.model_type", c.decoder_config.get("model_type", "detr"), ("detr",))
    d: Any = read_config(
        family_of("detr", "decoder_config").config, c.decoder_config | {"architectures": None}
    )
    choose("decoder_config.activation_function", d.activation_function, tuple(ACTIVATIONS))
    if d.d_model % 4 or not 1 <= d.num_queries <= 1 << 16 or c.fpn_feature_size % _GROUPS:
        raise FormatError(
            f"config.json: d_model {d.d_model}, num_queries {d.num_queries} or fpn_feature_size "
            f"{c.fpn_feature_size} is out of range; they are multiples of 4, 1 and {_GROUPS}"
        )
    seen, wanted = backbone_of(c.backbone_config, swin_stages=kind != "swin")
    return MaskFormer(c, seen, wanted, d, labels_of(config))


def backbone_of(told: dict[str, Any], swin_stages: bool) -> tuple[Any, list[int]]:
    """A Swin or ResNet of a backbone_config, and the stages that are read of it.

    swin_stages: whether a Swin's are those that it names, not all.
    """
    kind, told = told.get("model_type"), told | {"architectures": None}
    choose("backbone_config.model_type", kind, tuple(BACKBONES))
    family = family_of(BACKBONES[str(kind)], "config.json: backbone_config.model_type")
    if kind == "resnet":
        config: Any = read_config(family.config, told)
        return ResNet(config, ()), _several(stages_of(told, len(config.depths)), 0)
    if told.get("in_channels") == told.get("num_channels", 3):  # older files say it twice
        told = told | {"in_channels": None}
    config = read_config(family.config, told)
    choose("backbone_config.use_absolute_embeddings", config.use_absolute_embeddings, (False,))
    count = len(config.depths)
    wanted = stages_of(told if swin_stages else {}, count, range(1, count + 1))
    from rushlight.models.families.vision.swin import describe

    return Swin(config, describe(config, ""), ()), _several(wanted, 1)


def _several(wanted: list[int], least: int) -> list[int]:
    if len(wanted) < 2 or wanted[0] < least:
        raise FormatError(
            f"config.json: backbone_config names the stages {wanted}; there must be "
            f"two at least, from {least}"
        )
    return wanted


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of newer files under the names of the published ones."""
    by_name = {}
    for name, t in tensors.items():
        if name.startswith("model.transformer_module."):
            name = re.sub(r"\.(self_attn|encoder_attn)\.o_proj\.", r".\1.out_proj.", name)
            name = re.sub(r"\.mlp\.(fc[12])\.", r".\1.", name)
        by_name[name] = t
    return by_name


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether a tensor is computed, or of training."""
    return name.startswith("criterion.") or name.endswith(".relative_position_index")


FAMILY = Family(
    model_types=("maskformer",),
    tasks=("image-segmentation",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=unused,
)
