"""OWL-ViT (Minderer et al., 2022) and OWLv2 (Minderer et al., 2023): objects that texts name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.ops.creation import arange
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import clip
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision import towers
from rushlight.models.layers.vision.clip import ClipModel, ImageTower, TextTower, layer_of
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.vit import pair
from rushlight.models.small_files import find_tokenizer

ARCHITECTURES = {"owlvit": "OwlViTForObjectDetection", "owlv2": "Owlv2ForObjectDetection"}
_NEAR = 1e-4  # of the logarithms of places


@dataclass
class Config(clip.Config):
    """The keys of config.json."""

    model_type: str = "owlvit"


@dataclass
class Text(towers.ClipText):
    """The keys of text_config."""

    max_position_embeddings: int = 16
    model_type: str = "owlvit_text_model"


@dataclass
class Vision(towers.ClipVision):
    """The keys of vision_config."""

    image_size: Any = 768
    model_type: str = "owlvit_vision_model"


class OwlViT(ImageModel):
    """OWL-ViT in transformers' names: every patch gives a box, and a score for each text.

    OWLv2's patches also say how likely they are an object at all, which `objectness(pixels)` gives.
    `ground(pixels, texts)` gives both; `forward(ids, pixels)` the scores alone.
    """

    @nn.layers_on("meta")
    def __init__(self, c: Config, image: ImageTower, text: TextTower) -> None:
        self.config, self.image, self.text = c, image, text
        self.image_size, self.biased = image.image, True
        second = c.model_type == "owlv2"
        self.processor = replace(KINDS["Owlv2" if second else "OwlViT"], size=image.image)
        self.towers_at = c.model_type
        put(self, self.towers_at, ClipModel(c, image, text))
        width, out = image.layer.width, text.layer.width
        self.layer_norm = nn.LayerNorm(width, image.layer.eps)
        for name, n in (("dense0", out), ("logit_shift", 1), ("logit_scale", 1)):
            put(self, f"class_head.{name}", nn.Linear(width, n))
        for head, last in (("box_head", 4), *([("objectness_head", 1)] if second else [])):
            for i, n in enumerate((width, width, last)):
                put(self, f"{head}.dense{i}", nn.Linear(width, n))

    def configure(self, files: Mapping[str, bytes]) -> None:
        """Read the tokenizer, and what the checkpoint asks of images."""
        super().configure(files)
        self.tokenizer = find_tokenizer(files)

    def encode_text(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(batch, features) of token ids (batch, length), not normalized."""
        features: Tensor = self._towers.encode_text(ids, attention_mask)
        return features

    @property
    def _towers(self) -> Any:
        return self.get_submodule(self.towers_at)

    def hidden(self, pixels: Tensor) -> Tensor:
        """What the heads read (batch, patches, width): patches times the class token, normed."""
        x = self._towers.hidden(pixels)
        x = self._towers.get_submodule("vision_model.post_layernorm")(x)
        normed: Tensor = self.layer_norm(x[:, 1:] * x[:, :1])
        return normed

    def ground(self, pixels: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (batch, patches, texts) and boxes (batch, patches, 4) of pixels.

        texts: vectors (texts, features). Boxes are center, width and height from 0 to 1.
        """
        x = self.hidden(pixels)
        heads: Any = self.class_head
        seen, asked = (_unit(t) for t in (heads.dense0(x), texts))
        scale = heads.logit_scale(x)
        scale = scale.clamp(min=0) + scale.clamp(max=0).exp()  # elu + 1
        logits = (seen @ asked.T.to(seen.dtype) + heads.logit_shift(x)) * scale
        boxes = _fed(self.box_head, x)
        return logits, (boxes + self._places(boxes)).sigmoid()

    def objectness(self, pixels: Tensor) -> Tensor:
        """Logits (batch, patches) of there being an object; of OWLv2."""
        return _fed(self.get_submodule("objectness_head"), self.hidden(pixels))[..., 0]

    def _places(self, like: Tensor) -> Tensor:
        """The logits of the boxes that patches begin with (patches, 4)."""
        rows, columns = (n // p for n, p in zip(self.image.image, self.image.patch, strict=True))
        tall, wide = (
            (arange(n, device=like.device).to(like.dtype) + 1) / n for n in (rows, columns)
        )
        x = wide.unsqueeze(0).expand(rows, columns).reshape(-1, 1)
        y = tall.unsqueeze(1).expand(rows, columns).reshape(-1, 1)
        boxes = cat([x, y, x * 0 + 1 / columns, y * 0 + 1 / rows], 1)
        return (boxes + _NEAR).log() - (1 - boxes + _NEAR).log()

    def forward(self, *given: Tensor) -> Tensor:
        ids, pixels = given
        return self.ground(pixels, self.encode_text(ids))[0]


def _fed(head: Any, x: Tensor) -> Tensor:
    gelu = ACTIVATIONS["gelu"]
    out: Tensor = head.dense2(gelu(head.dense1(gelu(head.dense0(x)))))
    return out


def _unit(x: Tensor) -> Tensor:
    return x / (x.square().sum(-1, keepdim=True).sqrt() + 1e-6)


def build(config: dict[str, Any], names: Collection[str]) -> OwlViT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    kind = str(config.get("model_type", "owlvit"))
    c = read_config(Config, config, (ARCHITECTURES[kind],))
    if kind == "owlv2" and isinstance(config.get("vision_config"), dict):
        config = config | {"vision_config": {"patch_size": 16} | config["vision_config"]}
    seen, said = (
        towers.tower(config, "vision_config", Vision),
        towers.tower(config, "text_config", Text),
    )
    image = ImageTower(
        layer_of(seen),
        seen.num_hidden_layers,
        pair(seen.image_size, "image_size"),
        pair(seen.patch_size, "patch_size"),
        seen.num_channels,
        projection=c.projection_dim,
        before="pre_layernorm",
    )
    text = TextTower(
        layer_of(said),
        said.num_hidden_layers,
        said.vocab_size,
        said.max_position_embeddings,
        projection=c.projection_dim,
    )
    return OwlViT(c, image, text)


FAMILY = Family(
    model_types=("owlvit", "owlv2"),
    tasks=("zero-shot-object-detection",),
    config=Config,
    build=build,
)
