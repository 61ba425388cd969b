"""MobileCLIP (Vasu et al., 2023): CLIP whose images are seen by a FastViT, in OpenCLIP's names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.image.processor import Processor
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision import towers
from rushlight.models.layers.vision.attention import open_clip
from rushlight.models.layers.vision.clip import ClipModel, TextTower, layer_of
from rushlight.models.layers.vision.convolutional import fastvit

_TRUNK = "visual.trunk."


@dataclass
class Config:
    """The keys of a config.json. vision_config: FastViT's."""

    vision_config: dict[str, Any] = field(default_factory=dict)
    text_config: dict[str, Any] = field(default_factory=dict)
    projection_dim: int = 512
    image_size: int = 256
    causal: bool = False
    model_type: str = "mobileclip"


class MobileClip(ClipModel):
    """MobileCLIP; `encode_image`, `encode_text` and `forward` as ClipModel has them."""

    @nn.layers_on("meta")
    def __init__(self, c: Config, seen: fastvit.FastViT, text: TextTower) -> None:
        super().__init__(c, None, text)
        put(self, "visual.trunk", seen)
        self.logit_scale = parameter()
        side = c.image_size
        self.processor = Processor(shortest=side, crop=(side, side))

    def hidden(self, pixels: Tensor) -> Tensor:
        """The last picture (batch, channels, height, width) of the FastViT."""
        last_map: Tensor = self.visual.trunk.hidden(pixels)
        return last_map

    def encode_image(self, pixels: Tensor) -> Tensor:
        features: Tensor = self.visual.trunk(pixels)
        return features

    def forward(self, *given: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        ids, pixels = given
        texts = self.encode_text(ids, attention_mask).float()
        texts = texts / texts.square().sum(-1, keepdim=True).sqrt()
        return self.compare(self.encode_image(pixels), texts)


def build(config: dict[str, Any], names: Collection[str]) -> MobileClip:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    said = towers.read(c.text_config, towers.ClipText)
    if not 16 <= c.image_size <= 1 << 14:
        raise FormatError(f"config.json: image_size is {c.image_size}; it must be 16 to 16384")
    text = TextTower(
        layer_of(said),
        said.num_hidden_layers,
        said.vocab_size,
        said.max_position_embeddings,
        causal=c.causal,
        projection=c.projection_dim,
        pad=0,
    )
    return MobileClip(c, fastvit.network(c.vision_config), text)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with one convolution for branches, and those of texts in CLIP's names."""
    seen = {n[len(_TRUNK) :]: t for n, t in tensors.items() if n.startswith(_TRUNK)}
    said = {n: t for n, t in tensors.items() if not n.startswith(_TRUNK)}
    return open_clip.rename_tensors(said) | {
        _TRUNK + n: t for n, t in fastvit.rename_tensors(seen).items()
    }


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of OpenCLIP without a configuration."""
    return _config(tensors, {})


def _config(tensors: Mapping[str, Tensor], told: Mapping[str, Any]) -> dict[str, Any]:
    by_name = rename_tensors(tensors)
    seen = {n[len(_TRUNK) :]: t for n, t in by_name.items() if n.startswith(_TRUNK)}
    vision = told.get("vision_cfg") or {}
    name = str(vision.get("timm_model_name") or "fastvit_mci")
    vision_config = fastvit.sizes(seen, name)
    text = told.get("text_cfg") or {}
    return {
        "model_type": "mobileclip",
        "vision_config": vision_config,
        "projection_dim": vision_config["num_labels"],
        "text_config": open_clip.text_of(by_name, told),
        "image_size": vision.get("image_size") or 256,
        "causal": not text.get("no_causal_mask", not told),
    }


def files_of(tensors: Mapping[str, Tensor], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that open_clip_config.json and the tensors of OpenCLIP make."""
    return open_clip.files_of(tensors, files, _config)


FAMILY = Family(
    model_types=("mobileclip",),
    tasks=("zero-shot-image-classification", "image-feature-extraction"),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=("visual.trunk.final_conv.se.fc1.weight",),
    config_of=config_of,
    files_of=files_of,
)
