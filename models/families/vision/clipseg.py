"""CLIPSeg (Lüddecke and Ecker, 2021): the places of a picture that a text names, by CLIP."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import clip
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision import towers
from rushlight.models.layers.vision.clip import ClipModel, ImageTower, TextTower
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.transformer import Layer
from rushlight.models.small_files import find_tokenizer

ARCHITECTURES = ("CLIPSegForImageSegmentation",)


@dataclass
class Config(clip.Config):
    """The keys of config.json."""

    neutral = {"decoder_attention_dropout": (), "decoder_hidden_act": ()}  # it is relu

    extract_layers: list[int] = field(default_factory=lambda: [3, 6, 9])
    reduce_dim: int = 64
    decoder_num_attention_heads: int = 4
    decoder_intermediate_size: int = 2048
    conditional_layer: int = 0
    use_complex_transposed_convolution: bool = False
    model_type: str = "clipseg"


@dataclass
class Text(towers.ClipText):
    """The keys of text_config."""

    model_type: str = "clipseg_text_model"


@dataclass
class Vision(towers.ClipVision):
    """The keys of vision_config."""

    model_type: str = "clipseg_vision_model"


class ClipSeg(ImageModel):
    """CLIPSeg in transformers' names. forward(ids, pixels) -> logits (images, texts, h, w)."""

    @nn.layers_on("meta")
    def __init__(self, c: Config, image: ImageTower, text: TextTower) -> None:
        self.config, self.image, self.text, self.channels = c, image, text, image.channels
        self.processor = replace(KINDS["ViT"], size=(352, 352))
        self.clip = ClipModel(c, image, text)
        wide, patch = c.reduce_dim, image.patch[0]
        for name in ("film_mul", "film_add"):
            put(self, f"decoder.{name}", nn.Linear(c.projection_dim, wide))
        if c.use_complex_transposed_convolution:
            step = patch // 4
            large: nn.Module = nn.Sequential(
                nn.Conv2d(wide, wide, 3, padding=1),
                nn.ReLU(),
                nn.ConvTranspose2d(wide, wide // 2, step, step),
                nn.ReLU(),
                nn.ConvTranspose2d(wide // 2, 1, step, step),
            )
        else:
            large = nn.ConvTranspose2d(wide, 1, patch, patch)
        put(self, "decoder.transposed_convolution", large)
        spec = replace(
            image.layer,
            width=wide,
            heads=c.decoder_num_attention_heads,
            inner=c.decoder_intermediate_size,
            act="relu",
        )
        for i in range(len(c.extract_layers)):
            put(self, f"decoder.reduces.{i}", nn.Linear(image.layer.width, wide))
            put(self, f"decoder.layers.{i}", Layer(replace(spec, summed=True)))

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, and what the checkpoint asks of images."""
        super().configure(files)
        self.tokenizer = find_tokenizer(files)

    def encode_image(self, pixels: Tensor) -> Tensor:
        """CLIP's vectors (batch, features) of pixels, not normalized."""
        return self.clip.encode_image(pixels)

    def encode_text(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """CLIP's vectors (batch, features) of token ids (batch, length), not normalized."""
        return self.clip.encode_text(ids, attention_mask)

    def segment(self, pixels: Tensor, texts: Tensor) -> Tensor:
        """Logits (images, texts, height, width) of what vectors (texts, features) name."""
        c, net, states = self.config, self.get_submodule("decoder"), self.clip.states(pixels)
        of = net.get_submodule
        images, count = len(pixels), len(texts)
        grid = [n // p for n, p in zip(pixels.shape[2:], self.image.patch, strict=True)]
        x: Any = 0
        for i, level in enumerate(reversed(c.extract_layers)):
            seen = of(f"reduces.{i}")(states[level + 1]).unsqueeze(1)
            x = x + seen.expand(-1, count, -1, -1).flatten(0, 1)
            if i == c.conditional_layer:
                asked = texts.repeat(images, 1).unsqueeze(1)
                x = of("film_mul")(asked) * x + of("film_add")(asked)
            x = of(f"layers.{i}")(x)
        x = x[:, 1:].transpose(1, 2).reshape(images * count, -1, *grid)
        large: Tensor = of("transposed_convolution")(x)[:, 0]
        return large.reshape(images, count, *large.shape[1:])

    def forward(self, *given: Tensor) -> Tensor:
        ids, pixels = given
        return self.segment(pixels, self.encode_text(ids))


def build(config: dict[str, Any], names: Collection[str]) -> ClipSeg:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    seen = towers.tower(config, "vision_config", Vision)
    said = towers.tower(config, "text_config", Text)
    image = replace(clip.image_tower(seen, c.projection_dim), resized=True)
    most = seen.num_hidden_layers
    if not c.extract_layers or not all(type(n) is int and 0 <= n < most for n in c.extract_layers):
        raise FormatError(f"config.json: extract_layers {c.extract_layers} are no layers of {most}")
    return ClipSeg(c, image, clip.text_tower(said, c.projection_dim))


FAMILY = Family(
    model_types=("clipseg",),
    tasks=("image-segmentation",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
