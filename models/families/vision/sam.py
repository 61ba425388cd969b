"""Segment Anything (Kirillov et al., 2023): masks of what points and boxes point at."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.vision.masks.decoder import (
    MaskDecoder,
    Places,
    PromptEncoder,
    grid_places,
)
from rushlight.models.layers.vision.masks.encoder import SamVision
from rushlight.models.layers.vision.masks.tiny_vit import TinyViT, adopt_tiny
from rushlight.models.layers.vision.model import ImageModel

# Of the authors' files, and of MobileSAM's (Zhang et al., 2023).
TENSORS = ("image_encoder.blocks.0.norm1.weight", "image_encoder.patch_embed.seq.0.c.weight")
_BLOCK = re.compile(r"image_encoder\.blocks\.(\d{1,3})\.(.+)")
_FEED = re.compile(r"(.+(?:mlps\.\d|\.mlp|_head))\.layers\.(\d)\.(\w+)")
_TOP = {
    "image_encoder.patch_embed.proj": "vision_encoder.patch_embed.projection",
    "image_encoder.neck.0": "vision_encoder.neck.conv1",
    "image_encoder.neck.1": "vision_encoder.neck.layer_norm1",
    "image_encoder.neck.2": "vision_encoder.neck.conv2",
    "image_encoder.neck.3": "vision_encoder.neck.layer_norm2",
    "prompt_encoder.mask_downscaling.0": "prompt_encoder.mask_embed.conv1",
    "prompt_encoder.mask_downscaling.1": "prompt_encoder.mask_embed.layer_norm1",
    "prompt_encoder.mask_downscaling.3": "prompt_encoder.mask_embed.conv2",
    "prompt_encoder.mask_downscaling.4": "prompt_encoder.mask_embed.layer_norm2",
    "prompt_encoder.mask_downscaling.6": "prompt_encoder.mask_embed.conv3",
    "mask_decoder.output_upscaling.0": "mask_decoder.upscale_conv1",
    "mask_decoder.output_upscaling.1": "mask_decoder.upscale_layer_norm",
    "mask_decoder.output_upscaling.3": "mask_decoder.upscale_conv2",
    "mask_decoder.transformer.norm_final_attn": "mask_decoder.transformer.layer_norm_final_attn",
}
PLACES = "shared_image_embedding.positional_embedding"


@dataclass
class Vision:
    """The keys of vision_config."""

    neutral = {"image_embedding_size": ()}

    hidden_size: int = 768
    output_channels: int = 256
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_channels: int = 3
    image_size: int = 1024
    patch_size: int = 16
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    qkv_bias: bool = True
    mlp_ratio: float = 4.0
    use_abs_pos: bool = True
    use_rel_pos: bool = True
    window_size: int = 14
    global_attn_indexes: list[int] = field(default_factory=lambda: [2, 5, 8, 11])
    num_pos_feats: int = 128
    mlp_dim: int | None = None
    projection_dim: int = 512  # old files', without effect
    scale: float | None = None  # before training
    model_type: str = "sam_vision_model"


@dataclass
class Prompts:
    """The keys of prompt_encoder_config."""

    neutral = {"scale": ()}

    hidden_size: int = 256
    image_size: int = 1024
    patch_size: int = 16
    mask_input_channels: int = 16
    num_point_embeddings: int = 4
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    image_embedding_size: int | None = None
    model_type: str = "sam_prompt_encoder"


@dataclass
class Masks:
    """The keys of mask_decoder_config."""

    neutral = {"scale": (), "image_embedding_size": ()}

    hidden_size: int = 256
    hidden_act: str = "relu"
    mlp_dim: int = 2048
    num_hidden_layers: int = 2
    num_attention_heads: int = 8
    attention_downsample_rate: int = 2
    num_multimask_outputs: int = 3
    iou_head_depth: int = 3
    iou_head_hidden_dim: int = 256
    layer_norm_eps: float = 1e-6
    model_type: str = "sam_mask_decoder"


@dataclass
class Config:
    """The keys of config.json."""

    neutral = {"scale": (), "image_embedding_size": ()}

    vision_config: dict[str, Any] = field(default_factory=dict)
    prompt_encoder_config: dict[str, Any] = field(default_factory=dict)
    mask_decoder_config: dict[str, Any] = field(default_factory=dict)
    tie_word_embeddings: bool = True  # of the places, which prompts and pictures share
    model_type: str = "sam"


class Sam(ImageModel):
    """Segment Anything in transformers' names.

    `encode_image(pixels)` makes the map of a picture once; `masks` answers prompts of it.
    """

    def __init__(self, c: Config, seen: Vision, asked: Prompts, made: Masks) -> None:
        self.config, self.seen = c, seen
        side = seen.image_size
        self.image_size, self.grid = (side, side), side // seen.patch_size
        self.processor = replace(KINDS["Sam"], longest=side, pad=(side, side))
        self.shared_image_embedding = Places(seen.num_pos_feats)
        tiny = c.model_type == "mobile_sam"
        self.vision_encoder: nn.Module = TinyViT(seen) if tiny else SamVision(seen)
        self.prompt_encoder, self.mask_decoder = PromptEncoder(asked), MaskDecoder(made)

    def hidden(self, pixels: Tensor) -> Tensor:
        """The map (batch, channels, side / patch, side / patch) of pixels."""
        image_map: Tensor = self.vision_encoder(self.checked(pixels, self.seen.num_channels))
        return image_map

    def encode_image(self, pixels: Tensor) -> Tensor:
        return self.hidden(pixels)

    def maps(self, pixels: Tensor) -> Any:
        """What `masks` takes of a picture."""
        return self.hidden(pixels)

    def asked(
        self,
        places: Places,
        points: Tensor | None,
        labels: Tensor | None,
        boxes: Tensor | None,
        dtype: DType,
    ) -> Tensor:
        """The tokens (n, m, width) of n prompts.

        `points` (n, m, 2), `labels` (n, m) and `boxes` (n, 4) are the prompts, `places` the model's
        table of places, `dtype` the result's. Raises ValueError for no prompt, and points without
        labels.
        """
        side, tokens = self.seen.image_size, []
        if points is None and boxes is None:
            raise ValueError("sam: a prompt is missing; give points with labels, or boxes")
        if points is not None:
            if labels is None or labels.shape != points.shape[:-1]:
                raise ValueError(f"sam: points {points.shape} need labels {points.shape[:-1]}")
            shares = (points.to(dtype) + 0.5) / side
            if boxes is None:  # as in training, where a point that is none takes the box's place
                shares = cat([shares, shares[:, :1] * 0], 1)
                labels = cat([labels, labels[:, :1] * 0 - 1], 1)
            tokens.append(self.prompt_encoder.points(places, shares, labels))
        if boxes is not None:
            tokens.append(self.prompt_encoder.boxes(places, (boxes.to(dtype) + 0.5) / side))
        return cat(tokens, 1)

    def masks(
        self,
        seen: Tensor,
        points: Tensor | None = None,
        labels: Tensor | None = None,
        boxes: Tensor | None = None,
        masks: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Mask logits (n, 1 + masks, side / 4, side / 4) and scores (n, 1 + masks) of n prompts.

        seen (1, channels, height, width): a picture's map. points (n, m, 2): x and y in the pixels
        that were encoded, with labels (n, m): 1 for the object, 0 for what is around it. boxes (n,
        4): left, top, right, bottom. masks (n, 1, side / 4, side / 4): logits of an answer before.
        The first mask is for prompts without doubt, as boxes and several points.

        Raises ValueError for no prompt, and points without labels.
        """
        places = self.shared_image_embedding
        joined = self.asked(places, points, labels, boxes, seen.dtype)
        count = len(joined)
        none = self.prompt_encoder.no_mask_embed.weight.reshape(1, -1, 1, 1)
        seen = seen + (none if masks is None else self.prompt_encoder.masks(masks))
        seen = seen.expand(count, -1, -1, -1)
        image_places = grid_places(places, self.grid, seen).expand(count, -1, -1, -1)
        masks_and_scores: tuple[Tensor, Tensor] = self.mask_decoder(seen, image_places, joined)
        return masks_and_scores


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Sam:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ("SamModel",))
    seen = read_config(Vision, {**c.vision_config, "architectures": None})
    asked = read_config(Prompts, {**c.prompt_encoder_config, "architectures": None})
    decoder = read_config(Masks, {**c.mask_decoder_config, "architectures": None})
    for part_config in (seen, asked, decoder):
        choose("hidden_act", part_config.hidden_act, tuple(ACTIVATIONS))
    choose("tie_word_embeddings", c.tie_word_embeddings, (True,))  # as only one is stored
    sides = seen.image_size, seen.patch_size
    choose("prompt_encoder_config.image_size", asked.image_size, sides[:1])
    choose("prompt_encoder_config.patch_size", asked.patch_size, sides[1:])
    if (
        not 1 <= seen.patch_size <= seen.image_size <= 1 << 14
        or seen.window_size < 1
        or not (
            seen.output_channels
            == asked.hidden_size
            == decoder.hidden_size
            == 2 * seen.num_pos_feats
        )
        or decoder.attention_downsample_rate < 1
    ):
        raise FormatError(
            f"config.json: the sizes {sides} or widths {seen.output_channels}, "
            f"{asked.hidden_size}, {decoder.hidden_size}, {2 * seen.num_pos_feats} do not agree"
        )
    return Sam(c, seen, asked, decoder)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of the authors' files under transformers' names."""
    tiny = TENSORS[1] in tensors
    if TENSORS[0] not in tensors and not tiny:
        again = "prompt_encoder.shared_embedding.positional_embedding"  # the image's, once more
        return {n: t for n, t in tensors.items() if n != again}
    by_name: dict[str, Tensor] = {}
    for name, t in tensors.items():
        if name.endswith("positional_encoding_gaussian_matrix"):
            by_name[PLACES] = t
        elif match := _BLOCK.fullmatch(name):
            rest = re.sub(r"^norm(\d)\.", r"layer_norm\1.", match[2])
            by_name[f"vision_encoder.layers.{match[1]}.{rest}"] = t
        elif tiny and name.startswith("image_encoder.") and name.rpartition(".")[0] not in _TOP:
            by_name |= adopt_tiny(name, t)
        else:
            name = in_parts(name, tensors)
            name = name.replace("prompt_encoder.point_embeddings.", "prompt_encoder.point_embed.")
            by_name[name.replace("image_encoder.pos_embed", "vision_encoder.pos_embed")] = t
    return by_name


def in_parts(name: str, names: Collection[str]) -> str:
    """The name of an author's tensor of the prompts' encoder or the masks' decoder."""
    module, _, kind = name.rpartition(".")
    if module in _TOP:
        return f"{_TOP[module]}.{kind}"
    if match := _FEED.fullmatch(name):
        last = max(int(m[2]) for n in names if (m := _FEED.fullmatch(n)) and m[1] == match[1])
        number = int(match[2])
        layer = {0: "proj_in", last: "proj_out"}.get(number, f"layers.{number - 1}")
        return f"{match[1]}.{layer}.{match[3]}"
    return re.sub(r"\.norm(\d)\.", r".layer_norm\1.", name)


def config_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json of a checkpoint of the authors, or of MobileSAM."""
    if TENSORS[1] in tensors:
        return {"model_type": "mobile_sam", "architectures": ["SamModel"]}
    blocks = {int(m[1]) for n in tensors if (m := _BLOCK.fullmatch(n))}
    base = "image_encoder."
    try:
        patch = tensors[f"{base}patch_embed.proj.weight"].shape
        side = tensors[f"{base}pos_embed"].shape[1]
        rows = [tensors[f"{base}blocks.{i}.attn.rel_pos_h"].shape for i in range(len(blocks))]
        inner = tensors[f"{base}blocks.0.mlp.lin1.weight"].shape[0]
        width, channels, tall, _ = patch
        out = tensors[f"{base}neck.0.weight"].shape[0]
        kinds, fed = (
            tensors["mask_decoder.mask_tokens.weight"].shape[0],
            {
                "mlp_dim": tensors["mask_decoder.transformer.layers.0.mlp.lin1.weight"].shape[0],
                "iou_head_hidden_dim": tensors[
                    "mask_decoder.iou_prediction_head.layers.0.weight"
                ].shape[0],
            },
        )
        global_layers = [i for i, shape in enumerate(rows) if shape[0] == 2 * side - 1]
        windows = [(shape[0] + 1) // 2 for i, shape in enumerate(rows) if i not in global_layers]
    except (KeyError, IndexError, ValueError):
        raise FormatError("the checkpoint is no Segment Anything of its authors") from None
    vision = {
        "hidden_size": width,
        "num_channels": channels,
        "patch_size": tall,
        "mlp_dim": inner,
        "image_size": side * tall,
        "num_hidden_layers": len(blocks),
        "num_attention_heads": width // rows[0][1],
        "global_attn_indexes": global_layers,
        "window_size": windows[0] if windows else 14,
        "output_channels": out,
        "num_pos_feats": out // 2,
    }
    prompts = {
        "image_size": side * tall,
        "patch_size": tall,
        "image_embedding_size": side,
        "hidden_size": out,
    }
    masks = {"hidden_size": out, "num_multimask_outputs": kinds - 1, **fed}
    return {
        "model_type": "sam",
        "architectures": ["SamModel"],
        "vision_config": vision,
        "prompt_encoder_config": prompts,
        "mask_decoder_config": masks,
    }


FAMILY = Family(
    model_types=("sam", "mobile_sam"),
    tasks=("mask-generation",),
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    tensors=TENSORS,
    config_of=config_of,
)
