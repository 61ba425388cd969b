"""Falcon-H1 (TII, 2025): attention and a Mamba2 block side by side, with published multipliers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import LoadError
from rushlight.core.ops import cat, full
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture, Transform
from rushlight.models.gguf.scans import CHANNELS, DECAY_ROWS, ROWS, ssm
from rushlight.models.layers.blocks.state_space import Mamba2Spec, limits_of
from rushlight.models.layers.building import FLOATS, decoder_builder, each_attention, numbers_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.mlp import MLPSpec

ARCHITECTURES = ("FalconH1ForCausalLM",)
NAMES = DecoderNames(before_mlp="pre_ff_layernorm", mlp="feed_forward", norm="final_layernorm")


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    max_position_embeddings: int = 8192
    rms_norm_eps: float = 1e-5
    mamba_d_ssm: int | None = 1024
    mamba_n_heads: int = 128
    mamba_d_head: Any = "auto"
    mamba_n_groups: int = 1
    mamba_d_state: int = 256
    mamba_d_conv: int = 4
    mamba_expand: float = 2
    mamba_conv_bias: bool = True
    mamba_proj_bias: bool = False
    projectors_bias: bool = False
    mamba_norm_before_gate: bool = True
    mamba_rms_norm: bool = False
    time_step_limit: Any = None
    lm_head_multiplier: float = 1.0
    embedding_multiplier: float = 1.0
    mlp_multipliers: Any = (1.0, 1.0)
    key_multiplier: float = 1.0
    attention_in_multiplier: float = 1.0
    attention_out_multiplier: float = 1.0
    ssm_multipliers: Any = (1.0,) * 5
    ssm_in_multiplier: float = 1.0
    ssm_out_multiplier: float = 1.0
    model_type: str = "falcon_h1"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    inner = int(c.mamba_expand * c.hidden_size) if c.mamba_d_ssm is None else c.mamba_d_ssm
    head, normed = inner // max(c.mamba_n_heads, 1), c.mamba_rms_norm
    choose(
        "mamba_d_head", c.mamba_d_head, ("auto", head) if head * c.mamba_n_heads == inner else ()
    )
    scan = Mamba2Spec(
        c.hidden_size,
        c.mamba_n_heads,
        head,
        c.mamba_n_groups,
        c.mamba_d_state,
        c.mamba_d_conv,
        c.mamba_proj_bias,
        c.mamba_conv_bias,
        c.hidden_act,
        limits_of(c.time_step_limit),
        c.rms_norm_eps if normed else None,
        normed and c.mamba_norm_before_gate,
        c.projectors_bias,
        (
            c.ssm_in_multiplier,
            c.ssm_out_multiplier,
            *numbers_of("ssm_multipliers", c.ssm_multipliers, 5, FLOATS),
        ),
    )
    gate, down = numbers_of("mlp_multipliers", c.mlp_multipliers, 2, FLOATS)
    spec = each_attention(
        llama.describe(c),
        lambda i, a: replace(
            a,
            scales=(c.attention_in_multiplier, c.attention_out_multiplier),
            scale=a.head_dim**-0.5 * c.key_multiplier,
        ),
    )
    mlp = MLPSpec(c.intermediate_size, c.hidden_act, bias=c.mlp_bias, scales=(gate, down))
    layers = tuple(replace(layer, beside=("mamba", scan), mlp=mlp) for layer in spec.layers)
    return replace(
        spec,
        layers=layers,
        names=NAMES,
        embedding_scale=c.embedding_multiplier,
        logits_scale=c.lm_head_multiplier,
    )


def gguf() -> Architecture:
    """Multipliers are multiplied into the weights."""

    def adjust(c: dict[str, Any]) -> None:
        c.update(
            mamba_rms_norm="mamba.norm.weight" in c["inside"],
            mamba_norm_before_gate=False,
            mamba_conv_bias="mamba.conv1d.bias" in c["inside"],
        )

    def times(of: Callable[[Any], tuple[float, float]]) -> Transform:
        # The factors of a weight and of its bias.
        return Transform(lambda t, c: t, lambda t, c: t * of(c)[t.ndim < 2])

    def steps(t: Tensor, c: Any) -> Tensor:
        shared = c["mamba_n_groups"] * c["mamba_d_state"]
        heads = c["mamba_n_heads"]
        inner = (t.shape[0] - 2 * shared - heads) // 2
        sizes = (inner, inner, shared, shared, heads)
        by = [full((n,), s) for n, s in zip(sizes, c["ssm_multipliers"], strict=True)]
        rows = cat(by).to(t.device) * (c["ssm_in_multiplier"] if t.ndim > 1 else 1)
        return t * (rows.unsqueeze(1) if t.ndim > 1 else rows)

    def tell(model: Any) -> dict[str, Any]:
        spec = model.spec
        if spec.tied and spec.embedding_scale != spec.logits_scale:
            raise LoadError("a tied head with a multiplier of its own cannot be written as GGUF")
        scan = spec.layers[0].beside[1]
        return {
            "ssm.inner_size": scan.heads * scan.head,
            "vocab_size": model.vocab_size,
            "attention.key_length": spec.layers[0].attention.head_dim,
            "attention.value_length": spec.layers[0].attention.head_dim,
        }

    def at(name: str) -> Callable[[Any], tuple[float, float]]:
        return lambda c: (c[name], c[name])

    plain = ssm("mamba2", "", replace(NAMES, attention="mamba"), adjust)
    grouped = Transform(lambda t, c: t.reshape(-1), lambda t, c: t.reshape(c["mamba_n_groups"], -1))
    multiplier = "attention_in_multiplier"
    return Architecture(
        "falcon_h1",
        "FalconH1ForCausalLM",
        keys={
            "rms_norm_eps": "attention.layer_norm_rms_epsilon",
            "mamba_d_conv": "ssm.conv_kernel",
            "mamba_d_ssm": "ssm.inner_size",
            "mamba_d_state": "ssm.state_size",
            "mamba_n_heads": "ssm.time_step_rank",
            "mamba_n_groups": "ssm.group_count",
        },
        adjust=adjust,
        decoder=NAMES,
        metadata=tell,
        folded=(".scales", ".scale", "embedding_scale", "logits_scale"),
        transforms={
            "conv1d.weight": CHANNELS,
            "A_log": DECAY_ROWS,
            "D": ROWS,
            "mamba.norm": grouped,
            "q_proj": times(lambda c: (c[multiplier], 1)),
            "v_proj": times(lambda c: (c[multiplier], 1)),
            "k_proj": times(lambda c: (c[multiplier] * c["key_multiplier"], c["key_multiplier"])),
            "o_proj": times(at("attention_out_multiplier")),
            "embed_tokens": times(at("embedding_multiplier")),
            "lm_head": times(at("lm_head_multiplier")),
            "out_proj": times(at("ssm_out_multiplier")),
            "in_proj": Transform(lambda t, c: t, steps),
            "gate_proj": times(lambda c: (c["mlp_multipliers"][0],) * 2),
            "down_proj": times(lambda c: (c["mlp_multipliers"][1],) * 2),
        },
        parts={
            **plain.parts,
            "blk.{}.ffn_norm": f"model.layers.{{}}.{NAMES.before_mlp}.weight",
        },
    )


FAMILY = Family(
    model_types=("falcon_h1",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("falcon-h1",),
    gguf=gguf(),
)
