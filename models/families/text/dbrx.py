"""DBRX (Databricks, 2024): layer norms, clipped q, k and v, experts below one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import checked, choose
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.gguf.experts import stack_of
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import ExpertsSpec, MLPNames
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of
from rushlight.models.parts import renamed

ARCHITECTURES = ("DbrxForCausalLM",)
NAMES = DecoderNames(
    base="transformer",
    embedding="wte",
    layers="blocks",
    before_attention="norm_attn_norm.norm_1",
    attention="norm_attn_norm.attn",
    before_mlp="norm_attn_norm.norm_2",
    mlp="ffn",
    norm="norm_f",
)
FED = MLPNames(gate="w1", up="v1", down="w2", router="router.layer", experts="experts.mlp")


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    own = ("stacked",)

    vocab_size: int
    d_model: int
    n_heads: int
    n_layers: int
    max_seq_len: int = 2048
    attn_config: Any = None
    ffn_config: Any = None
    rope_theta: Any = None
    rope_scaling: Any = None
    rope_parameters: Any = None
    tie_word_embeddings: bool | None = False
    eos_token_id: Any = None
    stacked: bool = False  # a matrix of each expert: in GGUF files
    model_type: str = "dbrx"


def _part(c: Config, name: str, kinds: dict[str, tuple[str, Any]]) -> dict[str, Any]:
    """The values of an object in config.json, of these types, with these defaults."""
    told = getattr(c, name) or {}
    if not isinstance(told, dict):
        raise FormatError(f"config.json: {name} is {brief(told)}; it must be an object")
    return {
        key: checked(f"config.json: {name}.{key}", key, kind, told.get(key, default))
        for key, (kind, default) in kinds.items()
    }


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("tie_word_embeddings", bool(c.tie_word_embeddings), (False,))
    attn = _part(
        c,
        "attn_config",
        {
            "clip_qkv": ("float | None", None),
            "kv_n_heads": ("int", 1),
            "rope_theta": ("float", 10000.0),
        },
    )
    ffn = _part(
        c,
        "ffn_config",
        {
            "ffn_act_fn": ("Any", None),
            "ffn_hidden_size": ("int", 3584),
            "moe_num_experts": ("int", 4),
            "moe_top_k": ("int", 1),
            "moe_normalize_expert_weights": ("float | None", 1.0),
        },
    )
    # An exponent of the norm that shares are divided by.
    divided = ffn["moe_normalize_expert_weights"]
    choose("ffn_config.moe_normalize_expert_weights", divided, (None, 1.0))
    act = ffn["ffn_act_fn"] or {"name": "silu"}
    head = c.d_model // max(c.n_heads, 1)
    # Published files have theta within the attention's object.
    theta = attn["rope_theta"] if c.rope_theta is None else c.rope_theta
    attention = AttentionSpec(
        c.n_heads,
        attn["kv_n_heads"],
        head,
        fused="stacked",
        clip=attn["clip_qkv"],
        rotary=rotary_of({**vars(c), "rope_theta": theta}, head),
        names=AttentionNames(qkv="Wqkv", out="out_proj"),
    )
    experts = ExpertsSpec(
        ffn["moe_num_experts"],
        ffn["moe_top_k"],
        ffn["ffn_hidden_size"],
        act.get("name", "silu") if isinstance(act, dict) else act,
        normalized=divided is not None,
        flat=not c.stacked,
        names=FED,
    )
    return DecoderSpec(
        c.vocab_size,
        c.d_model,
        c.max_seq_len,
        (LayerSpec(attention, experts),) * c.n_layers,
        norm=NormSpec("layer", 1e-5, bias=False),
        names=NAMES,
    )


def adjust(c: dict[str, Any]) -> None:
    """A file has the numbers of both parts side by side."""
    c["stacked"], c["rope_theta"] = True, c.get("rope_theta", 10000.0)
    c["attn_config"] = {"kv_n_heads": c["num_key_value_heads"], "clip_qkv": c.get("pattern")}
    c["ffn_config"] = {
        "ffn_hidden_size": c.get("inner", 0),
        "moe_num_experts": c.get("count", 1),
        "moe_top_k": c.get("chosen", 1),
    }


def tell(model: Any) -> dict[str, Any]:
    """The numbers of both parts, and the norms' epsilon."""
    layer = model.spec.layers[0]
    return {
        "attention.layer_norm_epsilon": np.float32(1e-5),
        "attention.clamp_kqv": np.float32(layer.attention.clip or 0.0),
        "expert_count": layer.mlp.count,
        "expert_used_count": layer.mlp.chosen,
    }


def experts_of(c: Mapping[str, Any]) -> int:
    """How many experts there are."""
    count: int = c["ffn_config"]["moe_num_experts"]
    return count


GGUF = Architecture(
    "dbrx",
    "DbrxForCausalLM",
    keys={
        "hidden_size": "",
        "intermediate_size": "",
        "num_hidden_layers": "",
        "num_attention_heads": "",
        "max_position_embeddings": "",
        "head_dim": "",
        "d_model": "embedding_length",
        "n_layers": "block_count",
        "n_heads": "attention.head_count",
        "max_seq_len": "context_length",
        "pattern": "attention.clamp_kqv",
        "inner": "feed_forward_length",
        "count": "expert_count",
        "chosen": "expert_used_count",
    },
    adjust=adjust,
    metadata=tell,
    transforms={
        "mlp.w1": stack_of(experts_of, False),
        "mlp.v1": stack_of(experts_of, False),
        "mlp.w2": stack_of(experts_of, True),
    },
    decoder=NAMES,
    attention=AttentionNames(qkv="Wqkv", out="out_proj"),
    mlp=FED,
    parts={"blk.{}.attn_output_norm": f"transformer.blocks.{{}}.{NAMES.before_mlp}"},
)

FAMILY = Family(
    model_types=("dbrx",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="transformer.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    parts={
        key: split
        for name in (FED.gate, FED.up, FED.down)
        for key, split in renamed(f"experts.mlp.{name}", f"experts.mlp.{name}.weight").items()
    },
    gguf_types=("dbrx",),
    gguf=GGUF,
)
