"""Jina's embeddings of version 3 (Sturua et al., 2024): XLM-RoBERTa with rotary positions and
adapters for tasks. Their first files say xlm-roberta, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.gguf.encoders import encoder_architecture
from rushlight.models.layers.blocks.adapters import put_adapters
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import ROBERTA
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("JinaEmbeddingsV3Model", "XLMRobertaModel", "XLMRobertaLoRA")
BASE_PREFIX = "roberta."
HEADS = ROBERTA
NAMES = EncoderNames(
    embedding_norm="emb_ln",
    layers="encoder.layers",
    qkv="mixer.Wqkv",
    out="mixer.out_proj",
    attention_norm="norm1",
    up="mlp.fc1",
    down="mlp.fc2",
    mlp_norm="norm2",
)


@dataclass
class Config(BertConfig):
    """The keys of config.json. task_instructions: a prompt for each adapter."""

    own = (
        "position_embedding_type",
        "rotary_emb_base",
        "lora_adaptations",
        "lora_rank",
        "lora_alpha",
        "task_instructions",
    )

    layer_norm_eps: float = 1e-5
    position_embedding_type: str = "rotary"
    max_position_embeddings: int = 8194
    type_vocab_size: int = 1
    rotary_emb_base: float = 20000.0
    rope_theta: float = 20000.0
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    lora_adaptations: list[Any] | None = None
    lora_rank: int = 4
    lora_alpha: float = 1.0
    task_instructions: dict[str, Any] | None = None
    model_type: str = "jina_embeddings_v3"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("position_embedding_type", c.position_embedding_type, ("rotary",))
    head = c.hidden_size // max(c.num_attention_heads, 1)
    spec = bert_spec(replace(c, position_embedding_type="absolute"), pooler=pooler)
    theta = c.rope_theta if c.rotary_emb_base == 20000.0 else c.rotary_emb_base
    keys = asdict(c) | {"rope_theta": theta}
    return replace(
        spec, absolute=False, rotary=(rotary_of(keys, head),) * c.num_hidden_layers, names=NAMES
    )


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    model = encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS)(config, names)
    put_adapters(model, names, BASE_PREFIX)
    return model


GGUF = encoder_architecture(
    "jina_embeddings_v3",
    "JinaEmbeddingsV3Model",
    NAMES,
    keys={"layer_norm_eps": "attention.layer_norm_epsilon"},
)

FAMILY = Family(
    model_types=("jina_embeddings_v3",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
    gguf_types=("jina-bert-v3",),
    gguf=GGUF,
)
