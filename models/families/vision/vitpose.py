"""ViTPose (Xu et al., 2022) and ViTPose+, whose layers have a part for each dataset."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.autograd import no_grad
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.heatmaps import places_of
from rushlight.models.image.own_steps import warped
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.heads import labels_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.outputs.stages import stages_of
from rushlight.models.layers.vision.transformer import Layer, LayerNames, LayerSpec, put_parameter
from rushlight.models.layers.vision.vit import pair

ARCHITECTURES = ("VitPoseForPoseEstimation",)
_WIDE = 256
_MARGIN = 1.25  # of a box, which is seen with some of what is around it


@dataclass
class Backbone:
    """The keys of backbone_config."""

    neutral = {"embedding_size": ()}  # asked for by a check alone

    image_size: Any = field(default_factory=lambda: [256, 192])
    patch_size: Any = field(default_factory=lambda: [16, 16])
    num_channels: int = 3
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    mlp_ratio: float = 4
    num_experts: int = 1
    part_features: int = 256
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    qkv_bias: bool = True
    out_features: list[Any] | None = None
    out_indices: list[Any] | None = None
    model_type: str = "vitpose_backbone"


@dataclass
class Config:
    """The keys of config.json."""

    neutral = {"hidden_size": (), "image_size": (), "patch_size": ()}  # the backbone's count

    backbone_config: dict[str, Any] = field(default_factory=dict)
    backbone: str | None = None  # of backbones that are fetched by name, as what follows
    use_timm_backbone: bool | None = False
    use_pretrained_backbone: bool | None = False
    backbone_kwargs: dict[str, Any] | None = None
    scale_factor: int = 4
    use_simple_decoder: bool = True
    model_type: str = "vitpose"


class _Experts(Layer):
    """A layer whose MLP's last channels are those of a dataset's expert."""

    def __init__(self, spec: LayerSpec, experts: int, part: int) -> None:
        super().__init__(spec)
        put(self, spec.names.down, nn.Linear(spec.inner, spec.width - part))
        for i in range(experts):
            put(self, f"mlp.experts.{i}", nn.Linear(spec.inner, part))
        self.dataset = 0

    def _mlp(self, x: Tensor) -> Tensor:
        of = self.get_submodule
        x = ACTIVATIONS[self.spec.act](of(self.spec.names.up)(x))
        return cat([of(self.spec.names.down)(x), of(f"mlp.experts.{self.dataset}")(x)], -1)


class VitPose(ImageModel):
    """Pixels of a person -> where each key point may be (batch, points, height, width)."""

    def __init__(self, c: Config, seen: Backbone, level: int, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.seen, self.level = c, labels, seen, level
        size, patch = pair(seen.image_size, "image_size"), pair(seen.patch_size, "patch_size")
        self.grid = size[0] // patch[0], size[1] // patch[1]
        self.image_size, self.channels = size, seen.num_channels
        self.processor = replace(KINDS["VitPose"], size=size)
        width, base = seen.hidden_size, "backbone."
        conv = nn.Conv2d(seen.num_channels, width, patch, patch, 2)
        put(self, f"{base}embeddings.patch_embeddings.projection", conv)
        count = self.grid[0] * self.grid[1] + 1
        put_parameter(self, f"{base}embeddings.position_embeddings", 1, count, width)
        spec = LayerSpec(
            width,
            seen.num_attention_heads,
            int(width * seen.mlp_ratio),
            seen.hidden_act,
            seen.layer_norm_eps,
            (seen.qkv_bias,) * 3,
            names=LayerNames(up="mlp.fc1", down="mlp.fc2"),
        )
        for i in range(seen.num_hidden_layers):
            several = seen.num_experts > 1
            layer = _Experts(spec, seen.num_experts, seen.part_features) if several else Layer(spec)
            put(self, f"{base}encoder.layer.{i}", layer)
        put(self, f"{base}layernorm", nn.LayerNorm(width, seen.layer_norm_eps))
        if c.use_simple_decoder:
            put(self, "head.conv", nn.Conv2d(width, len(labels), 3, padding=1))
            return
        for i, inputs in ((1, width), (2, _WIDE)):
            larger = nn.ConvTranspose2d(inputs, _WIDE, 4, 2, 1, bias=False)
            put(self, f"head.deconv{i}", larger)
            put(self, f"head.batchnorm{i}", nn.BatchNorm2d(_WIDE))
        put(self, "head.conv", nn.Conv2d(_WIDE, len(labels), 1))

    def hidden(self, pixels: Tensor) -> Tensor:
        net: Any = self.get_submodule("backbone")
        x = net.embeddings.patch_embeddings.projection(self.checked(pixels, self.channels))
        places = net.embeddings.position_embeddings
        x = x.flatten(2).transpose(1, 2) + places[:, 1:] + places[:, :1]
        for layer in list(net.encoder.layer.children())[: self.level]:
            x = layer(x)
        return net.layernorm(x).transpose(1, 2).reshape(len(x), -1, *self.grid)  # type: ignore

    def forward(self, pixels: Tensor, dataset: int = 0) -> Tensor:
        """dataset: the expert of ViTPose+ that is asked."""
        if not 0 <= dataset < self.seen.num_experts:
            raise ValueError(f"vitpose: dataset {dataset} is none of {self.seen.num_experts}")
        for layer in self.get_submodule("backbone.encoder.layer").children():
            layer.dataset = dataset
        x, head = self.hidden(pixels), self.get_submodule("head")
        if self.config.use_simple_decoder:
            scale = float(self.config.scale_factor)
            x = interpolate(x.relu(), scale_factor=scale, mode="bilinear")
        else:
            for i in (1, 2):
                x = head.get_submodule(f"deconv{i}")(x)
                x = head.get_submodule(f"batchnorm{i}")(x).relu()
        maps: Tensor = head.get_submodule("conv")(x)
        return maps

    def keypoints(self, image: Any, options: Mapping[str, Any]) -> Generator[Any, Any, Any]:
        """A row for each of the options' boxes, or of the whole image."""
        tall, wide = image.shape[:2]
        boxes = options["boxes"] or [[0, 0, wide, tall]]
        rows, target = [], self.processor.size or (1, 1)
        ratio = target[1] / target[0]
        still = replace(self.processor, size=None)
        for x, y, w, h in boxes:
            sides = max(w, h * ratio) * _MARGIN, max(h, w / ratio) * _MARGIN
            middle = x + w / 2, y + h / 2
            with no_grad():
                crop = still([warped(image, middle, sides, target)], self.device)
                maps = self.forward(crop.to(self.dtype), options["dataset"])
            found, scores = places_of(np.asarray((yield maps[0].float().readback())))
            grid = np.array([maps.shape[3], maps.shape[2]]) - 1
            there = found / grid * np.array(sides) + np.array(middle) - np.array(sides) / 2
            points = [
                {"x": round(float(a), 1), "y": round(float(b), 1), "score": float(s), "label": n}
                for (a, b), s, n in zip(there, scores, self.labels, strict=True)
                if options["threshold"] is None or s > options["threshold"]
            ]
            box = {"xmin": float(x), "ymin": float(y), "xmax": float(x + w), "ymax": float(y + h)}
            rows.append({"score": float(scores.mean()), "box": box, "keypoints": points})
        return rows


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> VitPose:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    told = c.backbone_config or {}
    choose("backbone_config.model_type", told.get("model_type"), ("vitpose_backbone",))
    seen = read_config(Backbone, told | {"architectures": None})
    choose("backbone_config.hidden_act", seen.hidden_act, tuple(ACTIVATIONS))
    if seen.num_experts > 1 and not 0 < seen.part_features < seen.hidden_size:
        raise FormatError(f"config.json: part_features is {seen.part_features}")
    level = stages_of(told, seen.num_hidden_layers)[-1]
    return VitPose(c, seen, level, labels_of(config))


FAMILY = Family(
    model_types=("vitpose",),
    tasks=("keypoint-detection",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
