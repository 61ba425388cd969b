"""FastVLM (Vasu et al., 2025): FastViT-HD's few rows of a large picture, before Qwen 2."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.generation.pictures import Picture
from rushlight.models.image.files import Pixels
from rushlight.models.image.preprocessor_config import KINDS, processor_of
from rushlight.models.image.processor import Processor
from rushlight.models.layers.building import numbers_of
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.seeing.built import LLAVA_NAMES, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import TwoProducts, vision_of
from rushlight.models.layers.vision.convolutional import fastvit

ARCHITECTURES = ("FastVlmForConditionalGeneration",)
_PLACE = "<image>"
# timm's sizes by architecture: widths, depths and ratios of the MLPs of the stages.
_SIZES = {"fastvit_mci3": ((96, 192, 384, 768, 1536), (2, 12, 24, 4, 2), (4, 4, 4, 4, 4))}
_NEUTRAL = ("inference_mode", "num_classes")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_index: int = 151646
    projector_hidden_act: str = "gelu"
    vision_feature_select_strategy: str = "full"
    vision_feature_layer: Any = -1
    multimodal_projector_bias: bool = True
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "fast_vlm"

    neutral = {"image_seq_length": ()}


@dataclass(frozen=True)
class _Resized:
    """Pixels (1, 3, height, width) by an image model's steps; a row for so many pixels of a side.

    halvings: how many times the tower halves the sides.
    """

    steps: Processor
    halvings: int

    def __call__(self, pixels: Pixels, alone: bool = True) -> Picture:
        """What a model reads of pixels (height, width, 3) uint8."""
        values = self.steps.one(pixels)[None]
        rows, columns = values.shape[2:]
        for _ in range(self.halvings):
            rows, columns = (rows + 1) // 2, (columns + 1) // 2
        return Picture({"pixels": values}, _PLACE * (rows * columns), pixels.shape[:2])


def _tower(config: Mapping[str, Any]) -> fastvit.FastViT:
    """The tower that vision_config describes; FormatError for another of timm's."""
    values = vision_of(config)
    name = str(values.get("architecture", "fastvit_mci3")).partition(".")[0]
    if values.get("model_type", "timm_wrapper") != "timm_wrapper" or name not in _SIZES:
        raise FormatError(
            f"config.json: vision_config: architecture {brief(values.get('architecture'))} is not "
            f"supported in fast_vlm; supported: {', '.join(_SIZES)}"
        )
    told = values.get("model_args") or {}
    keys = ("embed_dims", "layers", "mlp_ratios")
    if not isinstance(told, Mapping) or set(told) - {*keys, *_NEUTRAL}:
        raise FormatError(
            f"config.json: vision_config: model_args is {brief(told)}; supported: "
            f"{', '.join((*keys, *_NEUTRAL))}"
        )
    sizes = [
        tuple(numbers_of(key, list(told.get(key, usual))))
        for key, usual in zip(keys, _SIZES[name], strict=True)
    ]
    widths, depths, ratios = sizes
    good = all(1 <= n <= most for row, most in zip(sizes, (1 << 14, 1 << 9, 64), strict=True)
               for n in row)  # fmt: skip
    if not good or len({len(row) for row in sizes}) != 1 or not 2 <= len(widths) <= 16:
        raise FormatError(f"config.json: vision_config: model_args {brief(told)} do not fit")
    last = len(widths) - 2  # the last two stages attend
    stages = [
        [width, depth, width * ratio, 0, int(i > 0), int(i >= last), int(i >= last)]
        for i, (width, depth, ratio) in enumerate(zip(widths, depths, ratios, strict=True))
    ]
    return fastvit.network(
        {"model_type": "fastvit", "stem": widths[0], "stages": stages, "final": 2 * widths[-1],
         "squeezed": max(2 * widths[-1] // 16, 1), "large_act": True, "layer_norm": True,
         "num_labels": 0}
    )  # fmt: skip


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("vision_feature_select_strategy", c.vision_feature_select_strategy, ("full",))
    choose("vision_feature_layer", c.vision_feature_layer, (-1,))
    tower = _tower(config)

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base = model.model
        states = base.vision_tower.timm_model.hidden(inputs["pixels"]).flatten(2).transpose(1, 2)
        return base.multi_modal_projector(states).flatten(0, 1)  # type: ignore[no-any-return]

    def processor(files: Mapping[str, bytes], _: Any) -> _Resized:
        usual = replace(
            KINDS["CLIP"], shortest=1024, crop=(1024, 1024), mean=(0.0,) * 3, std=(1.0,) * 3
        )
        return _Resized(processor_of(files, usual), len(tower.config.stages) + 1)

    def sight(spec: DecoderSpec) -> Sight:
        parts = {
            "model.vision_tower.timm_model": tower,
            "model.multi_modal_projector": TwoProducts(
                tower.config.final, spec.width, spec.width, c.projector_hidden_act,
                c.multimodal_projector_bias,
            ),
        }  # fmt: skip
        return Sight(c.image_token_index, _PLACE, parts, look, processor)

    return seeing_decoder(config, names, c, sight)


FAMILY = Family(
    model_types=("fast_vlm",),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=lambda tensors: fastvit.rename_tensors(LLAVA_NAMES(tensors)),
)
