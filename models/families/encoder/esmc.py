"""ESM C (EvolutionaryScale, 2024): an encoder of proteins with gated MLPs and norms of queries."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from rushlight.core import nn
from rushlight.models.config_schema import choose
from rushlight.models.families.encoder import eurobert
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.normed_queries import NormedQueriesLayer
from rushlight.models.layers.encoder import BlockOf, Encoder, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, encoder_builder
from rushlight.models.layers.heads import HeadNames
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec, make_norm
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("EsmcModel",)
BASE_PREFIX = "esmc."
HEADS = HeadNames(
    "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.decoder.bias", "gelu",
    "classifier.dense", text="classifier.out_proj", token="score", ends="",
)  # fmt: skip
NAMES = eurobert.NAMES
NORM = NormSpec("layer", 1e-5)


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    neutral = {**BertConfig.neutral, "mask_token_id": ()}

    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_theta: float | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    model_type: str = "esmc"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    head = c.hidden_size // max(c.num_attention_heads, 1)
    choose("num_key_value_heads", c.num_key_value_heads, (c.num_attention_heads, None))
    choose("head_dim", c.head_dim, (head, None))
    share = (36 / max(c.num_hidden_layers, 1)) ** 0.5
    return EncoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        c.num_hidden_layers,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_act,
        NORM,
        "before",
        types=0,
        pooler=False,
        absolute=False,
        rotary=(rotary_of(asdict(c), head),) * c.num_hidden_layers,
        gated=True,
        biases=(c.attention_bias, c.attention_bias, c.mlp_bias, c.mlp_bias),
        names=NAMES,
        layer=BlockOf(NormedQueriesLayer, share),
    )


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    config = config | {"tie_word_embeddings": False}  # the reference ties nothing
    model = encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS)(config, names)
    put(model, NAMES.norm, make_norm(model.width, NormSpec("layer", NORM.eps, bias=False)))
    return model


FAMILY = Family(
    model_types=("esmc",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
