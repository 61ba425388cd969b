"""Mistral Small 3.1 (Mistral AI, 2025): Pixtral's tower, whose patches are merged by a product."""

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

ARCHITECTURES = ("Mistral3ForConditionalGeneration",)
_TOWER = {
    "intermediate_size": 4096, "hidden_size": 1024, "patch_size": 14, "image_size": 1540,
    "num_hidden_layers": 24, "num_attention_heads": 16, "hidden_act": "gelu",
}  # fmt: skip


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_index: int = 10
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
        super().__init__(width, out, out, c.projector_hidden_act, c.multimodal_projector_bias)
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
    tower = tower_of(config, "pixtral", **({} if config.get("vision_config") else _TOWER))

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base, found = model.model, []
        for picture in each_size(inputs["pixels"], inputs["image_sizes"]):
            rows, columns = (picture.shape[i + 2] // tower.patch[i] for i in range(2))
            states = base.vision_tower.chosen(picture, c.vision_feature_layer)
            found.append(base.multi_modal_projector(states.reshape(rows, columns, -1)))
        return cat(found)

    def sight(spec: DecoderSpec) -> Sight:
        projector = _Projector(tower.layer.width, spec.width, c, spec.norm.eps)
        parts = {"model.vision_tower": Tower(tower), "model.multi_modal_projector": projector}
        return Sight(
            c.image_token_index, "[IMG]", parts, look,
            lambda files, _: pixtral_processor(files, tower.patch[0], c.spatial_merge_size),
        )  # fmt: skip

    return seeing_decoder(config, names, c, sight)


FAMILY = Family(
    model_types=("mistral3",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=LLAVA_NAMES,
)
