"""Chinese-CLIP (Yang et al., 2022): CLIP whose texts are read by a BERT."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.families.vision import clip
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.encoder import Encoder
from rushlight.models.layers.encoding import BertConfig, bert_spec
from rushlight.models.layers.vision import towers
from rushlight.models.layers.vision.clip import ClipModel, ImageTower, TextTower
from rushlight.models.layers.vision.transformer import LayerSpec

ARCHITECTURES = ("ChineseCLIPModel",)


@dataclass
class Config(clip.Config):
    """The keys of config.json."""

    neutral = {"embedding_size": ()}

    model_type: str = "chinese_clip"


@dataclass
class Vision(towers.ClipVision):
    """The keys of vision_config."""

    neutral = {"embedding_size": ()}

    model_type: str = "chinese_clip_vision_model"


@dataclass
class Text(BertConfig):
    """The keys of text_config."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    model_type: str = "chinese_clip_text_model"


class ChineseClip(ClipModel):
    """Chinese-CLIP in transformers' names: the vector of a text is BERT's first state."""

    @nn.layers_on("meta")
    def __init__(self, c: Config, image: ImageTower, text: Text) -> None:
        super().__init__(c, image, None)
        self.processor = replace(KINDS["ChineseCLIP"], shortest=min(image.image), crop=image.image)
        width = text.hidden_size
        layer = LayerSpec(width, text.num_attention_heads, text.intermediate_size)
        self.text = TextTower(
            layer,
            text.num_hidden_layers,
            text.vocab_size,
            text.max_position_embeddings,
            causal=False,
            projection=c.projection_dim,
            masked=True,
        )
        self.text_model = Encoder(text, bert_spec(text, pooler=False))
        self.text_projection = nn.Linear(width, c.projection_dim, bias=False)
        self.logit_scale = parameter()

    def encode_text(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(batch, features) of token ids (batch, length), not normalized.

        attention_mask (batch, length): false or zero for padding.
        """
        states = self.text_model(ids, attention_mask)
        features: Tensor = self.text_projection(states[:, 0])
        return features


def build(config: dict[str, Any], names: Collection[str]) -> ChineseClip:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    seen = towers.tower(config, "vision_config", Vision)
    return ChineseClip(
        c, clip.image_tower(seen, c.projection_dim), towers.tower(config, "text_config", Text)
    )


FAMILY = Family(
    model_types=("chinese_clip",),
    tasks=("zero-shot-image-classification", "image-feature-extraction"),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
