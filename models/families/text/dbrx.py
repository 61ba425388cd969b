"""DBRX (Databricks, 2024): layer norms, clipped q, k and v, experts below one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.config_schema import checked, choose
from rushlight.models.families.family import Family
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
        flat=True,
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
)
