"""GTE (Zhang et al., 2024): BERT with rotary positions and gated MLPs; first published as "new"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("GteModel", "NewModel")
BASE_PREFIX = "new."
HEADS = HeadNames(
    "lm_head.dense", "lm_head.norm", "lm_head.decoder", "lm_head.decoder.bias", "gelu"
)
NAMES = EncoderNames(
    qkv="attention.qkv_proj",
    q="attention.q_proj",
    k="attention.k_proj",
    v="attention.v_proj",
    out="attention.o_proj",
    attention_norm="attn_ln",
    up_gate="mlp.up_gate_proj",
    down="mlp.down_proj",
    mlp_norm="mlp_ln",
)


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    own = ("position_embedding_type", "pack_qkv", "layer_norm_type", "logn_attention_scale")

    type_vocab_size: int = 1
    max_position_embeddings: int = 8192
    position_embedding_type: str = "rope"
    rope_theta: float = 160000.0
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    pack_qkv: bool = True
    layer_norm_type: str = "layer_norm"
    logn_attention_scale: bool = False


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("position_embedding_type", c.position_embedding_type, ("rope", "absolute"))
    choose("layer_norm_type", c.layer_norm_type, ("layer_norm", "rms_norm"))
    choose("logn_attention_scale", c.logn_attention_scale, (False,))
    rotary = c.position_embedding_type == "rope"
    head = c.hidden_size // max(c.num_attention_heads, 1)
    spec = bert_spec(replace(c, position_embedding_type="absolute"), pooler=pooler)
    return replace(
        spec,
        absolute=not rotary,
        gated=True,
        biases=(True, True, False, True),
        rotary=(rotary_of(asdict(c), head),) * c.num_hidden_layers if rotary else (),
        norm=NormSpec("rms" if c.layer_norm_type == "rms_norm" else "layer", c.layer_norm_eps),
        names=NAMES if c.pack_qkv else replace(NAMES, qkv=""),
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A checkpoint's tensors with the first prefix of the base model."""
    return {(f"new.{n[4:]}" if n.startswith("gte.") else n): t for n, t in tensors.items()}


def unused(name: str, config: dict[str, Any]) -> bool:
    """Whether the model does without a tensor: a base model's classes of tokens."""
    base = config.get("architectures") in (["NewModel"], ["GteModel"])
    return base and name.startswith(("classifier.", "lm_head."))


FAMILY = Family(
    model_types=("gte", "new"),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
    rename_tensors=rename_tensors,
    unused=unused,
)
