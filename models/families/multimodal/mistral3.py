"""Mistral Small 3.1 (2025) and LightOnOCR (2025): Pixtral's tower, patches merged by a product."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.families.multimodal.llava import pixtral_processor
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.naming import put
from rushlight.models.layers.seeing.built import LLAVA_NAMES, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import Tower, TwoProducts, each_size, shuffled, tower_of

ARCHITECTURES = ("Mistral3ForConditionalGeneration", "LightOnOcrForConditionalGeneration")
_TOWER = {
    "intermediate_size": 4096, "hidden_size": 1024, "patch_size": 14, "image_size": 1540,
    "num_hidden_layers": 24, "num_attention_heads": 16, "hidden_act": "gelu",
}  # fmt: skip


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_index: int | None = None
    image_token_id: int | None = None
    projector_hidden_act: str = "gelu"
    vision_feature_layer: Any = -1
    multimodal_projector_bias: bool = False
    spatial_merge_size: int = 2
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "mistral3"


class _Projector(TwoProducts):
    """The patches of a row (rows, columns, width) merged, then the two products."""

    def __init__(self, width: int, out: int, c: Config, eps: float) -> None:
        self.merge = c.spatial_merge_size
        light = c.model_type == "lighton_ocr"
        act, bias = c.projector_hidden_act, c.multimodal_projector_bias
        super().__init__(width, out, out, "gelu" if light else act, bias and not light)
        self.norm = nn.RMSNorm(width, eps)
        wide = width * self.merge**2
        put(self, "patch_merger.merging_layer", nn.Linear(wide, width, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        width = x.shape[-1]
        x = shuffled(self.norm(x).unsqueeze(0), self.merge).flatten(0, 2)
        # The checkpoint has all places of a feature side by side.
        x = x.reshape(len(x), self.merge**2, width).transpose(1, 2).flatten(1)
        return super().forward(self.get_submodule("patch_merger.merging_layer")(x))


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    light = c.model_type == "lighton_ocr"
    usual = {**_TOWER, "hidden_act": "silu"} if light else _TOWER
    tower = tower_of(config, "pixtral", **({} if config.get("vision_config") else usual))
    seen, through = ("vision_encoder", "vision_projection") if light else (
        "vision_tower", "multi_modal_projector"
    )  # fmt: skip

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, found = model.model, []
        for picture in each_size(inputs["pixels"], inputs["image_sizes"]):
            rows, columns = (picture.shape[i + 2] // tower.patch[i] for i in range(2))
            states = base.get_submodule(seen).chosen(
                picture, -1 if light else c.vision_feature_layer
            )
            found.append(base.get_submodule(through)(states.reshape(rows, columns, -1)))
        return cat(found)

    def sight(spec: DecoderSpec) -> Sight:
        projector = _Projector(tower.layer.width, spec.width, c, spec.norm.eps)
        parts = {f"model.{seen}": Tower(tower), f"model.{through}": projector}
        token, usual = (c.image_token_id, 151655) if light else (c.image_token_index, 10)
        place = "<|image_pad|>" if light else "[IMG]"
        return Sight(
            usual if token is None else token, place, parts, look,
            lambda files, _: pixtral_processor(
                files, tower.patch[0], c.spatial_merge_size, place, lines=not light
            ),
        )  # fmt: skip

    return seeing_decoder(config, names, c, sight)


FAMILY = Family(
    model_types=("mistral3", "lighton_ocr"),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=LLAVA_NAMES,
)
