"""Nomic BERT (Nussbaum et al., 2024): BERT with rotary positions and gated MLPs, without biases."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.gguf.encoders import encoder_architecture
from rushlight.models.gguf.experts import stack_of
from rushlight.models.layers.blocks.encoder_experts import SomeExperts
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.parts import renamed

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
# Of models with experts, which have biases and an MLP without a gate.
SPARSE: dict[str, tuple[Any, ...]] = {
    "activation_function": ("gelu",), "qkv_proj_bias": (True,), "mlp_fc1_bias": (True,),
    "mlp_fc2_bias": (True,), "expert_choice_router": (False,), "ffn_div": (1,),
    "moe_normalize_expert_weights": (False,),
}  # fmt: skip
PLAIN = replace(NAMES, gate="", up="mlp.fc1")
EXPERTS = MLPNames(up="w1", down="w2", router="router.layer", experts="experts.mlp")
FIXED: dict[str, tuple[Any, ...]] = {
    "activation_function": ("swiglu",), "prenorm": (False,), "rotary_emb_fraction": (1,),
    "rotary_emb_interleaved": (False,), "rotary_emb_scale_base": (None,),
    "rotary_scaling_factor": (None,), "qkv_proj_bias": (False,), "mlp_fc1_bias": (False,),
    "mlp_fc2_bias": (False,), "use_rms_norm": (False,), "parallel_block": (False,),
    "causal": (False,), "scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,),
}  # fmt: skip


@dataclass
class Config(BertConfig):
    """The keys of config.json. Those from moe_every_n_layers on are of files of the hub's code."""

    own = ("stacked", "shifted", "moe_every_n_layers", "num_experts", "moe_top_k")

    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    head_dim: int | None = None
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_theta: float = 1000.0
    moe_every_n_layers: int = 0
    num_experts: int = 8
    moe_top_k: int = 2
    stacked: bool = False  # a matrix of each expert: in GGUF files
    shifted: bool = False  # there is a vector that experts' results get


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    head = c.hidden_size // max(c.num_attention_heads, 1)
    choose("head_dim", c.head_dim, (head, None))
    if c.moe_every_n_layers:
        experts = ExpertsSpec(
            c.num_experts,
            c.moe_top_k,
            c.intermediate_size,
            "gelu",
            normalized=False,
            gated=False,
            flat=not c.stacked,
            shift=c.shifted,
            names=EXPERTS,
        )
        return bert_spec(
            replace(c, hidden_act="gelu"),
            pooler=pooler,
            absolute=False,
            names=PLAIN,
            rotary=(rotary_of(asdict(c), head),) * c.num_hidden_layers,
            layer=SomeExperts(c.moe_every_n_layers, experts),
        )
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
        sparse = bool(config.get("moe_every_n_layers"))
        for name, values in (FIXED | SPARSE if sparse else FIXED).items():
            choose(name, config.get(name, values[0]), values)
        config = {RENAMED.get(n, n): v for n, v in config.items()}
        config["shifted"] = any(name.endswith(("mlp.experts.bias", "mlp.bias")) for name in names)
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS)(config, names)


GGUF = encoder_architecture(
    "nomic_bert",
    "NomicBertModel",
    NAMES,
    keys={"layer_norm_eps": "attention.layer_norm_epsilon"},
)


def adjust(config: dict[str, Any]) -> None:
    """A file has a matrix of each expert."""
    config.update(stacked=True, hidden_act="gelu")


INSIDE = "encoder.layers.{}.mlp."
MIXED = encoder_architecture(
    "nomic_bert",
    "NomicBertModel",
    PLAIN,
    keys={
        "layer_norm_eps": "attention.layer_norm_epsilon",
        "moe_every_n_layers": "moe_every_n_layers",
        "num_experts": "expert_count",
        "moe_top_k": "expert_used_count",
    },
    adjust=adjust,
    transforms={
        "mlp.w1": stack_of(lambda c: c["num_experts"], False),
        "mlp.w2": stack_of(lambda c: c["num_experts"], True),
    },
    parts={
        "blk.{}.ffn_gate_inp": f"{INSIDE}router.layer",
        "blk.{}.ffn_up_exps": f"{INSIDE}experts.mlp.w1",
        "blk.{}.ffn_down_exps": f"{INSIDE}experts.mlp.w2",
    },
    fits=lambda model: bool(model.config.moe_every_n_layers),
)

FAMILY = Family(
    model_types=("nomic_bert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
    parts={
        **renamed("mlp.experts.bias", "mlp.bias"),
        **renamed("mlp.experts.mlp.w1", "mlp.experts.mlp.w1.weight"),
        **renamed("mlp.experts.mlp.w2", "mlp.experts.mlp.w2.weight"),
    },
    gguf_types=("nomic-bert", "nomic-bert-moe"),
    gguf=GGUF,
    gguf_others={"nomic-bert-moe": MIXED},
)
