"""Depth Anything (Yang et al., 2024), 1 and 2, and by coarse depths (Lin et al., 2025): depths."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.reduce import amax, amin
from rushlight.core.ops.unary import relu, sigmoid
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import dinov2
from rushlight.models.image.preprocessor_config import IMAGENET
from rushlight.models.image.processor import Processor
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.outputs.dense import Neck, NeckSpec
from rushlight.models.layers.vision.outputs.stages import stages_of
from rushlight.models.layers.vision.vit import ViT

ARCHITECTURES = ("DepthAnythingForDepthEstimation", "PromptDepthAnythingForDepthEstimation")


@dataclass
class Config:
    """The keys of config.json."""

    neutral = dict.fromkeys(("backbone_kwargs", "use_timm_backbone", "use_pretrained_backbone"), ())

    backbone_config: Any
    patch_size: int = 14
    reassemble_hidden_size: int = 384
    reassemble_factors: list[Any] = field(default_factory=lambda: [4, 2, 1, 0.5])
    neck_hidden_sizes: list[int] = field(default_factory=lambda: [48, 96, 192, 384])
    fusion_hidden_size: int = 64
    head_in_index: Any = -1
    head_hidden_size: int = 32
    depth_estimation_type: str = "relative"
    max_depth: float | None = 1
    model_type: str = "depth_anything"


class DepthAnything(ImageModel):
    """Pixels -> depths (batch, height, width): inverse and relative, or meters if it is metric."""

    @nn.layers_on("meta")
    def __init__(self, c: Config, names: Collection[str]) -> None:
        self.config = c
        self.processor = Processor(
            size=(518, 518),
            keep_ratio=True,
            multiple=14,
            filter="bicubic",
            mean=IMAGENET[0],
            std=IMAGENET[1],
        )
        backbone = read_config(dinov2.Config, c.backbone_config | {"architectures": None})
        self.backbone = ViT(backbone, dinov2.describe(backbone, "", names), ())
        self.normed = backbone.apply_layernorm
        self.wanted = stages_of(c.backbone_config, backbone.num_hidden_layers)
        widths, factors = c.neck_hidden_sizes, c.reassemble_factors
        if not len(widths) == len(factors) == len(self.wanted):
            raise FormatError(
                f"config.json: neck_hidden_sizes {widths}, reassemble_factors {factors} and the "
                f"backbone's stages {self.wanted} do not agree"
            )
        self.prompted = c.model_type == "prompt_depth_anything"
        self.neck = Neck(
            NeckSpec(
                c.reassemble_hidden_size, widths, factors, c.fusion_hidden_size,
                prompted=self.prompted,
            )
        )  # fmt: skip
        if self.backbone.spec.patch != (c.patch_size, c.patch_size):
            raise FormatError(
                f"config.json: patch_size is {c.patch_size}, but the backbone's is "
                f"{self.backbone.spec.patch}"
            )
        half = c.fusion_hidden_size // 2
        self.head: Any = nn.Module()
        self.head.conv1 = nn.Conv2d(c.fusion_hidden_size, half, 3, padding=1)
        self.head.conv2 = nn.Conv2d(half, c.head_hidden_size, 3, padding=1)
        self.head.conv3 = nn.Conv2d(c.head_hidden_size, 1, 1)

    def hidden(self, pixels: Tensor, depths: Tensor | None = None) -> Tensor:
        """The map (batch, channels, height, width) that the head reads.

        depths: (batch, 1, height, width) from 0 to 1, of any size.
        """
        states = self.backbone.states(pixels)
        tall, wide = (
            n // p for n, p in zip(pixels.shape[2:], self.backbone.spec.patch, strict=True)
        )
        read = [self.backbone.normed(states[i]) if self.normed else states[i] for i in self.wanted]
        maps = self.neck.pictures(read, (tall, wide), 1 + self.backbone.spec.registers)
        # The head of one with coarse depths reads the last, whatever its key says.
        number = -1 if self.prompted else self.config.head_in_index
        fused: Tensor = self.neck(maps, depths)[number]
        return fused

    def forward(self, pixels: Tensor, prompt_depth: Tensor | None = None) -> Tensor:
        """Depths (batch, height, width) of pixels (batch, channels, height, width).

        prompt_depth: (batch, 1, rows, columns), coarse depths in meters, which the result is in
        then. ValueError where the model takes none, or for another shape.
        """
        c = self.config
        if prompt_depth is None:
            return self._depths(self.hidden(pixels), pixels)
        shape = prompt_depth.shape
        if not self.prompted or len(shape) != 4 or shape[:2] != (len(pixels), 1):
            raise ValueError(
                f"{c.model_type}: prompt_depth is {shape}; prompt_depth_anything takes "
                f"({len(pixels)}, 1, rows, columns), other models none"
            )
        least, most = (f(prompt_depth.flatten(1), 1).reshape(-1, 1, 1, 1) for f in (amin, amax))
        share = (prompt_depth - least) / (most - least)
        depths = self._depths(self.hidden(pixels, share), pixels)
        return depths * (most - least)[:, 0] + least[:, 0]

    def _depths(self, fused: Tensor, pixels: Tensor) -> Tensor:
        c, head = self.config, self.head
        x = head.conv1(fused)
        size = tuple(n // c.patch_size * c.patch_size for n in pixels.shape[2:])
        x = interpolate(x, size=size, mode="bilinear", align_corners=True)
        x = head.conv3(relu(head.conv2(x)))[:, 0]
        depth: Tensor = relu(x) if c.depth_estimation_type == "relative" else sigmoid(x)
        return depth if self.prompted else depth * (c.max_depth or 1)


def build(config: dict[str, Any], names: Collection[str]) -> DepthAnything:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("depth_estimation_type", c.depth_estimation_type, ("relative", "metric"))
    if not isinstance(c.backbone_config, dict):
        raise FormatError("config.json: backbone_config is missing; it describes a DINOv2")
    choose(
        "backbone_config: model_type",
        c.backbone_config.get("model_type"),
        tuple(dinov2.FAMILY.model_types),
    )
    count = len(c.neck_hidden_sizes)
    if type(c.head_in_index) is not int or not -count <= c.head_in_index < count:
        raise FormatError(f"config.json: head_in_index is {brief(c.head_in_index)}")
    return DepthAnything(c, names)


FAMILY = Family(
    model_types=("depth_anything", "prompt_depth_anything"),
    tasks=("depth-estimation",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    refused=("backbone",),
)
