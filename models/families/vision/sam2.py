"""SAM 2 (Ravi et al., 2024): masks of what points and boxes in an image point at."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from rushlight.core import nn, ops
from rushlight.core.basis.errors import FormatError
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import sam
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision.attention.hiera import Place
from rushlight.models.layers.vision.masks.decoder import (
    MaskDecoder,
    Places,
    PromptEncoder,
    grid_places,
)
from rushlight.models.layers.vision.masks.pyramid import MAPS, PyramidVision, stages_of

TENSORS = ("image_encoder.trunk.patch_embed.proj.weight",)  # of the authors' files
# Of videos: what is remembered of earlier pictures.
_MEMORY = re.compile(
    r"memory_(?!embedding).*|maskmem_.*|mask_downsample.*|object_pointer_proj.*|obj_ptr_.*"
    r"|temporal_positional_encoding_projection_layer.*|occlusion_spatial_embedding_parameter"
    r"|no_(?:memory_positional_encoding|object_pointer|mem_pos_enc|obj_ptr|obj_embed_spatial)"
)
# Where the published models look at all places, and their windows, by width and layers.
_PUBLISHED: dict[tuple[int, tuple[int, ...]], tuple[list[int], list[int]]] = {
    (96, (1, 2, 7, 2)): ([5, 7, 9], [8, 4, 14, 7]),
    (96, (1, 2, 11, 2)): ([7, 10, 13], [8, 4, 14, 7]),
    (112, (2, 3, 16, 3)): ([12, 16, 20], [8, 4, 14, 7]),
    (144, (2, 6, 36, 4)): ([23, 33, 43], [8, 4, 16, 8]),
}
_BASE = "vision_encoder.backbone."
_RENAMED = {
    "image_encoder.trunk.patch_embed.proj.": f"{_BASE}patch_embed.projection.",
    "image_encoder.trunk.": _BASE,
    "image_encoder.neck.": "vision_encoder.neck.",
    "sam_prompt_encoder.": "prompt_encoder.",
    "sam_mask_decoder.": "mask_decoder.",
}


@dataclass
class Backbone:
    """The keys of vision_config.backbone_config."""

    hidden_size: int = 96
    num_attention_heads: int = 1  # without effect
    num_channels: int = 3
    image_size: Any = 1024
    patch_kernel_size: Any = 7
    patch_stride: Any = 4
    patch_padding: Any = 3
    query_stride: Any = 2
    window_positional_embedding_background_size: Any = 7
    num_query_pool_stages: int = 3
    blocks_per_stage: list[int] = field(default_factory=lambda: [1, 2, 7, 2])
    embed_dim_per_stage: list[int] = field(default_factory=lambda: [96, 192, 384, 768])
    num_attention_heads_per_stage: list[int] = field(default_factory=lambda: [1, 2, 4, 8])
    window_size_per_stage: list[int] = field(default_factory=lambda: [8, 4, 14, 7])
    global_attention_blocks: list[int] = field(default_factory=lambda: [5, 7, 9])
    mlp_ratio: float = 4.0
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    model_type: str = "sam2_hiera_det_model"


@dataclass
class Vision:
    """The keys of vision_config."""

    backbone_config: dict[str, Any] = field(default_factory=dict)
    backbone_channel_list: list[int] | None = None
    backbone_feature_sizes: list[Any] | None = None
    fpn_hidden_size: int = 256
    fpn_kernel_size: int = 1
    fpn_stride: int = 1
    fpn_padding: int = 0
    fpn_top_down_levels: list[int] | None = None
    num_feature_levels: int = MAPS
    hidden_act: str = "gelu"  # without effect
    layer_norm_eps: float = 1e-6
    model_type: str = "sam2_vision_model"
    # Of backbones without a configuration:
    neutral = dict.fromkeys(
        ("backbone", "backbone_kwargs", "use_timm_backbone", "use_pretrained_backbone"), ()
    )

    def __post_init__(self) -> None:
        if self.backbone_channel_list is None:
            self.backbone_channel_list = [768, 384, 192, 96]
        if self.fpn_top_down_levels is None:
            self.fpn_top_down_levels = [2, 3]


@dataclass
class Prompts(sam.Prompts):
    """The keys of prompt_encoder_config."""

    scale: float = 1  # before training
    model_type: str = "sam2_prompt_encoder"


@dataclass
class Masks(sam.Masks):
    """The keys of mask_decoder_config."""

    hidden_act: str = "gelu"  # without effect
    dynamic_multimask_via_stability: bool = True
    dynamic_multimask_stability_delta: float = 0.05
    dynamic_multimask_stability_thresh: float = 0.98
    model_type: str = "sam2_mask_decoder"


@dataclass
class Config(sam.Config):
    """The keys of config.json."""

    model_type: str = "sam2"


@dataclass
class _Seen:
    """The sides in pixels of a picture, and of a patch of the map that is read."""

    image_size: int
    patch_size: int
    num_channels: int


class Sam2(sam.Sam):
    """SAM 2's part for images in transformers' names.

    `maps(pixels)` makes three maps of a picture once; `masks` answers prompts of them.
    """

    def __init__(
        self,
        c: Config,
        seen: Vision,
        backbone: Backbone,
        stages: list[list[Place]],
        asked: Prompts,
        made: Masks,
    ) -> None:
        side = asked.image_size
        self.config, self.made = c, made
        self.seen: Any = _Seen(side, asked.patch_size, backbone.num_channels)
        self.image_size, self.grid = (side, side), side // asked.patch_size
        self.processor = replace(KINDS["Sam2"], size=(side, side))
        self.shared_image_embedding = Places(asked.hidden_size // 2)
        self.vision_encoder = PyramidVision(seen, backbone, stages)
        self.prompt_encoder, self.mask_decoder = PromptEncoder(asked, True), MaskDecoder(made, True)
        self.no_memory_embedding = parameter(1, 1, seen.fpn_hidden_size)

    def maps(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The map that prompts attend to, and two of four times and of twice its sides."""
        pixels, decoder = self.checked(pixels, self.seen.num_channels), self.mask_decoder
        fine, finer, image_map = self.vision_encoder(pixels)
        image_map = image_map + self.no_memory_embedding.reshape(1, -1, 1, 1)
        return image_map, decoder.conv_s0(fine), decoder.conv_s1(finer)

    def hidden(self, pixels: Tensor) -> Tensor:
        """The map (batch, channels, side / patch, side / patch) of pixels."""
        return self.maps(pixels)[0]

    def masks(
        self,
        seen: Any,
        points: Tensor | None = None,
        labels: Tensor | None = None,
        boxes: Tensor | None = None,
        masks: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Mask logits (n, 1 + masks, side / 4, side / 4) and scores (n, 1 + masks) of n prompts.

        seen: a picture's maps; the others are `Sam.masks`'. Where the first mask is not stable the
        best of the others takes its place.

        `points`, `labels`, `boxes` and what it raises are as there.
        """
        image_map, *finer = seen
        embedding = self.prompt_encoder.shared_embedding
        joined = self.asked(embedding, points, labels, boxes, image_map.dtype)
        count = len(joined)
        none = self.prompt_encoder.no_mask_embed.weight.reshape(1, -1, 1, 1)
        image_map = image_map + (none if masks is None else self.prompt_encoder.masks(masks))
        image_map = image_map.expand(count, -1, -1, -1)
        image_places = grid_places(self.shared_image_embedding, self.grid, image_map).expand(
            count, -1, -1, -1
        )
        logits, scores = self.mask_decoder(image_map, image_places, joined, tuple(finer))
        return self._stable(logits, scores)

    def _stable(self, logits: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
        c = self.made
        if not c.dynamic_multimask_via_stability:
            return logits, scores
        delta = c.dynamic_multimask_stability_delta
        sure, inside = ((logits[:, 0] > bound).float().sum((1, 2)) for bound in (delta, -delta))
        share = ops.where(inside > 0, sure / inside.clamp(min=1), inside + 1)
        stable = (share >= c.dynamic_multimask_stability_thresh).unsqueeze(1)
        best = scores[:, 1:].argmax(1).unsqueeze(1)
        places = best.reshape(-1, 1, 1, 1).expand(-1, 1, *logits.shape[2:])
        first = ops.where(stable, scores[:, :1], scores[:, 1:].gather(1, best))
        mask = ops.where(stable[:, :, None, None], logits[:, :1], logits[:, 1:].gather(1, places))
        return cat([mask, logits[:, 1:]], 1), cat([first, scores[:, 1:]], 1)


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Sam2:
    """The model of a checkpoint with these tensor names, on the meta device."""
    if config.get("model_type") == "sam2_video":  # the other keys are of its memory
        known = {"architectures", *(entry.name for entry in fields(Config))}
        config = {n: v for n, v in config.items() if n in known}
    c = read_config(Config, config, ("Sam2Model", "Sam2VideoModel"))
    seen = read_config(Vision, {**c.vision_config, "architectures": None})
    backbone = read_config(Backbone, {**seen.backbone_config, "architectures": None})
    asked = read_config(Prompts, {**c.prompt_encoder_config, "architectures": None})
    decoder = read_config(Masks, {**c.mask_decoder_config, "architectures": None})
    for section in (backbone, asked):
        choose("hidden_act", section.hidden_act, tuple(ACTIVATIONS))
    choose(
        "vision_config.backbone_config.model_type", backbone.model_type, ("sam2_hiera_det_model",)
    )
    choose("vision_config.num_feature_levels", seen.num_feature_levels, (MAPS,))
    if not seen.fpn_hidden_size == asked.hidden_size == decoder.hidden_size or (
        decoder.hidden_size < 8 or decoder.hidden_size % 8 or decoder.attention_downsample_rate < 1
    ):
        raise FormatError(
            f"config.json: the widths {seen.fpn_hidden_size}, {asked.hidden_size} and "
            f"{decoder.hidden_size}, or the decoder's sizes, do not agree"
        )
    return Sam2(c, seen, backbone, stages_of(seen, backbone, asked), asked, decoder)


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether a tensor is of the memory of videos, which images do not need."""
    return _MEMORY.fullmatch(name) is not None


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of the authors' files under transformers' names."""
    if TENSORS[0] not in tensors:
        return dict(tensors)
    named, kinds, by_name = {}, {}, {}
    for name, t in tensors.items():
        for old, new in _RENAMED.items():
            name = new + name.removeprefix(old) if name.startswith(old) else name
        named[name] = t
    for name, t in named.items():
        if name.endswith("positional_encoding_gaussian_matrix"):
            by_name[sam.PLACES] = by_name[
                "prompt_encoder.shared_embedding.positional_embedding"
            ] = t
        elif name.startswith("prompt_encoder.point_embeddings."):
            kinds[int(name.split(".")[2])] = t
        else:
            name = sam.in_parts(name, named).replace(".out_proj.", ".o_proj.")
            name = name.replace("no_mem_embed", "no_memory_embedding")
            by_name[re.sub(r"(neck\.convs\.\d)\.conv\.", r"\1.", name)] = t
    if kinds:
        by_name["prompt_encoder.point_embed.weight"] = cat([kinds[i] for i in sorted(kinds)], 0)
    return by_name


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a published checkpoint of the authors."""
    base, depths, widths = "image_encoder.trunk.", [0], list[int]()
    try:
        for i in range(len(tensors)):
            if f"{base}blocks.{i}.norm1.weight" not in tensors:
                break
            sizes = [tensors[f"{base}blocks.{i}.norm{n}.weight"].shape[0] for n in (1, 2)]
            if sizes[0] != sizes[1]:
                depths.append(0)
            depths[-1] += 1
            widths = widths if widths and widths[-1] == sizes[1] else [*widths, sizes[1]]
        grid = list(tensors[f"{base}pos_embed"].shape[2:])
        width = tensors["no_mem_embed"].shape[-1]
        everywhere, windows = _PUBLISHED[widths[0], tuple(depths)]
    except (KeyError, IndexError):
        raise FormatError(
            f"the checkpoint is no published SAM 2: it has {depths} layers of {widths} channels",
            hint="add the config.json of transformers' Sam2Model",
        ) from None
    heads = 1 if widths[0] == 96 else 2
    backbone = {
        "model_type": "sam2_hiera_det_model",
        "hidden_size": widths[0],
        "blocks_per_stage": depths,
        "embed_dim_per_stage": widths,
        "window_size_per_stage": windows,
        "num_attention_heads_per_stage": [heads << i for i in range(len(depths))],
        "global_attention_blocks": everywhere,
        "window_positional_embedding_background_size": grid,
    }
    vision = {
        "backbone_config": backbone,
        "backbone_channel_list": widths[::-1],
        "fpn_hidden_size": width,
    }
    return {
        "model_type": "sam2",
        "architectures": ["Sam2Model"],
        "vision_config": vision,
        "prompt_encoder_config": {"hidden_size": width},
        "mask_decoder_config": {"hidden_size": width},
    }


FAMILY = Family(
    model_types=("sam2", "sam2_video"),
    tasks=("mask-generation",),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=unused,
    tensors=TENSORS,
    config_of=config_of,
)
