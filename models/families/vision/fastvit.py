"""FastViT (Vasu et al., 2023): mixers and convolutions that are fused from branches."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.layers.vision.convolutional import fastvit

Config = fastvit.Config


def build(config: dict[str, Any], names: Collection[str]) -> fastvit.FastViT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    return fastvit.network(config)


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    return fastvit.sizes(tensors, str(config.get("architecture")))


FAMILY = Family(
    model_types=("fastvit",),
    tasks=("image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    rename_tensors=fastvit.rename_tensors,
    timm=("fastvit_",),
    timm_config=timm_config,
)
