"""AltCLIP (Chen et al., 2022): CLIP whose texts are read by an XLM-RoBERTa."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.families.encoder import roberta
from rushlight.models.families.family import Family
from rushlight.models.families.vision import clip
from rushlight.models.layers.encoder import Encoder
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision import towers
from rushlight.models.layers.vision.clip import ClipModel, ImageTower, TextTower
from rushlight.models.layers.vision.transformer import LayerSpec

ARCHITECTURES = ("AltCLIPModel",)


@dataclass
class Config(clip.Config):
    """The keys of config.json."""

    neutral = {"embedding_size": ()}  # asked for by a check alone

    projection_dim: int = 768
    model_type: str = "altclip"


@dataclass
class Vision(towers.ClipVision):
    """The keys of vision_config."""

    neutral = {"embedding_size": ()}  # asked for by a check alone

    model_type: str = "altclip_vision_model"


@dataclass
class Text(roberta.Config):
    """The keys of text_config."""

    vocab_size: int = 250002
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    project_dim: int = 768
    model_type: str = "altclip_text_model"


class AltClip(ClipModel):
    """AltCLIP in transformers' names: the vector of a text is a projection of the first state."""

    @nn.layers_on("meta")
    def __init__(self, c: Config, image: ImageTower, text: Text) -> None:
        super().__init__(c, image, None)
        width = text.hidden_size
        self.text = TextTower(
            LayerSpec(width, text.num_attention_heads, text.intermediate_size),
            text.num_hidden_layers,
            text.vocab_size,
            text.max_position_embeddings,
            causal=False,
            projection=c.projection_dim,
            masked=True,
        )
        put(self, "text_model.roberta", Encoder(text, roberta.describe(text, False)))
        put(self, "text_model.pre_LN", nn.LayerNorm(width, text.layer_norm_eps))
        put(self, "text_model.transformation", nn.Linear(width, text.project_dim))
        self.text_projection = nn.Linear(text.project_dim, c.projection_dim, bias=False)
        self.logit_scale = parameter()

    def encode_text(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(batch, features) of token ids (batch, length), not normalized.

        attention_mask (batch, length): false or zero for padding.
        """
        base: Any = self.get_submodule("text_model")
        first = base.pre_LN(base.roberta(ids, attention_mask)[:, 0])
        features: Tensor = self.text_projection(base.transformation(first))
        return features


def build(config: dict[str, Any], names: Collection[str]) -> AltClip:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    seen = towers.tower(config, "vision_config", Vision)
    said = towers.tower(config, "text_config", Text)
    return AltClip(c, clip.image_tower(seen, c.projection_dim), said)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of newer files under the names of the published ones."""
    own, old = "vision_model.encoder.layer.", "vision_model.encoder.layers."
    return {n.replace(own, old): t for n, t in tensors.items()}


FAMILY = Family(
    model_types=("altclip",),
    tasks=("zero-shot-image-classification", "image-feature-extraction"),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
)
