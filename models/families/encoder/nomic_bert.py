"""Nomic BERT (Nussbaum et al., 2024): BERT with rotary positions and gated MLPs, without biases."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.gguf.encoders import encoder_architecture
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames
from rushlight.models.layers.positions.rotary import rotary_of

ARCHITECTURES = ("NomicBertModel",)
BASE_PREFIX = "nomic_bert."
HEADS = HeadNames(norm="cls.predictions.transform.layer_norm")
NAMES = EncoderNames(
    embedding_norm="emb_ln",
    layers="encoder.layers",
    qkv="attn.Wqkv",
    out="attn.out_proj",
    attention_norm="norm1",
    gate="mlp.fc12",
    up="mlp.fc11",
    down="mlp.fc2",
    mlp_norm="norm2",
)
# The published files' keys: their names here, and those that must have one value.
RENAMED = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "layer_norm_epsilon": "layer_norm_eps",
    "resid_pdrop": "hidden_dropout_prob",
    "rotary_emb_base": "rope_theta",
}
FIXED: dict[str, tuple[Any, ...]] = {
    "activation_function": ("swiglu",), "prenorm": (False,), "rotary_emb_fraction": (1,),
    "rotary_emb_interleaved": (False,), "rotary_emb_scale_base": (None,),
    "rotary_scaling_factor": (None,), "qkv_proj_bias": (False,), "mlp_fc1_bias": (False,),
    "mlp_fc2_bias": (False,), "use_rms_norm": (False,), "parallel_block": (False,),
    "causal": (False,), "scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,),
}  # fmt: skip


@dataclass
class Config(BertConfig):
    """The keys of config.json."""

    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    head_dim: int | None = None
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_theta: float = 1000.0


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    head = c.hidden_size // max(c.num_attention_heads, 1)
    choose("head_dim", c.head_dim, (head, None))
    return bert_spec(
        c,
        pooler=pooler,
        absolute=False,
        gated=True,
        biases=(False,) * 4,
        names=NAMES,
        rotary=(rotary_of(asdict(c), head),) * c.num_hidden_layers,
    )


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    if "n_embd" in config:
        for name, values in FIXED.items():
            choose(name, config.get(name, values[0]), values)
        config = {RENAMED.get(n, n): v for n, v in config.items()}
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS)(config, names)


GGUF = encoder_architecture(
    "nomic_bert",
    "NomicBertModel",
    NAMES,
    keys={"layer_norm_eps": "attention.layer_norm_epsilon"},
)

FAMILY = Family(
    model_types=("nomic_bert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
    gguf_types=("nomic-bert",),
    gguf=GGUF,
)
