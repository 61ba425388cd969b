"""GOT-OCR 2 (Wei et al., 2024) and PP-Chart2Table (2025): SAM's encoder of a page, then Qwen 2."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.tiles import Cut, Steps, TileProcessor, steps_of, stored_settings
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.seeing.built import LLAVA_NAMES, seeing_decoder
from rushlight.models.layers.seeing.decoder import PictureDecoder
from rushlight.models.layers.seeing.sight import Sight
from rushlight.models.layers.seeing.towers import vision_of
from rushlight.models.layers.vision.masks.encoder import SamVision
from rushlight.models.layers.vision.vit import pair

ARCHITECTURES = ("GotOcr2ForConditionalGeneration",)
PLACE = "<imgpad>"
_INLINE = f"<img>{PLACE}</img>\n"
_SYSTEM = "system\nYou should follow the instructions carefully and explain your answers in detail."
_SHRINKS = 4  # how many times fewer rows and columns the projector leaves


@dataclass
class Vision:
    """The keys of vision_config."""

    hidden_size: int = 768
    output_channels: int = 256
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_channels: int = 3
    image_size: Any = 1024
    patch_size: Any = 16
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    qkv_bias: bool = True
    use_abs_pos: bool = True
    use_rel_pos: bool = True
    window_size: int = 14
    global_attn_indexes: list[int] = field(default_factory=lambda: [2, 5, 8, 11])
    mlp_dim: int = 3072
    model_type: str = "got_ocr2_vision"


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    text_config: Any = None
    vision_config: Any = None
    image_token_index: int = 151859
    tie_word_embeddings: bool | None = None
    eos_token_id: Any = None
    model_type: str = "got_ocr2"

    neutral = {"image_seq_length": ()}


class _Projector(nn.Module):
    """Maps (n, channels, rows, columns) -> (n, rows * columns / 16, out)."""

    def __init__(self, channels: int, out: int) -> None:
        self.conv_upsampler1 = nn.Conv2d(channels, channels * 2, 3, 2, 1, bias=False)
        self.conv_upsampler2 = nn.Conv2d(channels * 2, out, 3, 2, 1, bias=False)
        self.multimodal_projector = nn.Linear(out, out)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_upsampler2(self.conv_upsampler1(x))
        out: Tensor = self.multimodal_projector(x.flatten(2).transpose(1, 2))
        return out


def _framed(text: str, count: int) -> str:
    """The question for the text of pages where none is asked, as the reference's processor has it.

    The checkpoint has no chat template.
    """
    if text not in (_INLINE * count, PLACE * count):
        return text
    pages = " across multi pages" if count > 1 else ""
    return (
        f"<|im_start|>{_SYSTEM}<|im_end|><|im_start|>user\n<img>{PLACE * count}</img>\n"
        f" OCR{pages}: <|im_end|><|im_start|>assistant\n"
    )


def _side(seen: Vision, key: str) -> int:
    """The one number of a size of vision_config; FormatError for sides that differ."""
    tall, wide = pair(getattr(seen, key), key)
    choose(f"vision_config: {key}", wide, (tall,))
    return tall


def build(config: dict[str, Any], names: Collection[str]) -> PictureDecoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    kind = f"{c.model_type}_vision"
    seen: Vision = read_config(
        Vision, {**vision_of(config), "model_type": kind, "architectures": None}
    )
    choose("vision_config: hidden_act", seen.hidden_act, tuple(ACTIVATIONS))
    seen.image_size, seen.patch_size = _side(seen, "image_size"), _side(seen, "patch_size")
    side = -(-seen.image_size // seen.patch_size // _SHRINKS)

    def look(model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
        base = model.model
        rows: Tensor = base.multi_modal_projector(base.vision_tower(inputs["pixels"]))
        return rows.flatten(0, 1)

    def processor(files: Mapping[str, bytes], _: Any) -> TileProcessor:
        said = stored_settings(files)
        usual = {"height": seen.image_size, "width": seen.image_size}
        size = said.pair("size", said.values.get("size") or usual)

        def whole(steps: Steps, pixels: Any) -> Cut:
            return Cut([steps.resized(pixels, size)])

        return TileProcessor(steps_of(said, Steps()), whole, lambda _: PLACE * side**2)

    def sight(spec: DecoderSpec) -> Sight:
        parts = {
            "model.vision_tower": SamVision(seen),
            "model.multi_modal_projector": _Projector(seen.output_channels, spec.width),
        }
        return Sight(
            c.image_token_index, PLACE, parts, look, processor, framed=_framed, inline=_INLINE
        )

    return seeing_decoder(config, names, c, sight)


FAMILY = Family(
    model_types=("got_ocr2", "pp_chart2table"),
    tasks=("image-text-to-text", "chat", "text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=LLAVA_NAMES,
)
