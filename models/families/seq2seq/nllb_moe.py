"""NLLB-MoE (NLLB Team, 2022): M2M100 with two of many experts for each token in some layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.seq2seq import m2m_100
from rushlight.models.layers.mlp import MLPNames
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig, Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec, Seq2SeqSpec, StackSpec
from rushlight.models.layers.seq2seq.switching import SwitchSpec, with_switches

ARCHITECTURES = ("NllbMoeForConditionalGeneration", "NllbMoeModel")


@dataclass
class Config(m2m_100.Config):
    """The keys of config.json that the model depends on."""

    num_experts: int = 128
    encoder_sparse_step: int = 4
    decoder_sparse_step: int = 4
    moe_token_dropout: float = 0.2
    moe_eval_capacity_token_fraction: float = 1.0
    second_expert_policy: str = "all"
    router_bias: bool = False
    model_type: str = "nllb-moe"
    # Which of the tokens that are too many for an expert are left out, where any are.
    neutral = {
        "expert_capacity": (),
        "batch_prioritized_routing": (),
        "normalize_router_prob_before_dropping": (),
        "router_ignore_padding_tokens": (),
        "router_z_loss_coef": (),
        "router_dtype": ("float32",),
    }


def _is_sparse(step: int, layer: int) -> bool:
    return step > 0 and (layer + 1) % step == 0


def _with_experts(c: Config, spec: Seq2SeqSpec) -> Seq2SeqSpec:
    choose("second_expert_policy", c.second_expert_policy, ("all",))
    if c.moe_eval_capacity_token_fraction < 1:
        raise FormatError(
            "config.json: moe_eval_capacity_token_fraction is "
            f"{c.moe_eval_capacity_token_fraction}, with which tokens are left out; supported: 1"
        )

    def sparse(stack: StackSpec, step: int) -> StackSpec:
        names = replace(
            stack.names,
            cross="cross_attention",
            cross_norm="cross_attention_layer_norm",
            mlp_norm="ff_layer_norm",
        )
        switch = SwitchSpec(
            c.num_experts,
            2,
            stack.mlp.inner,
            stack.mlp.activation,
            "ffn",
            "fc1",
            "fc2",
            bias=True,
            router_bias=c.router_bias,
            scale=1 - c.moe_token_dropout,
        )
        mlp = replace(stack.mlp, names=MLPNames(up="ffn.fc1", down="ffn.fc2"))
        stack = replace(stack, names=names, mlp=mlp)
        return with_switches(stack, switch, partial(_is_sparse, step))

    return replace(
        spec,
        encoder=sparse(spec.encoder, c.encoder_sparse_step),
        decoder=sparse(spec.decoder, c.decoder_sparse_step),
    )


def _positions(c: FairseqConfig) -> PositionSpec:
    return PositionSpec("even", 2, 1 if c.pad_token_id is None else c.pad_token_id)


FAMILY = Family(
    model_types=("nllb-moe",),
    tasks=("translation", "text2text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(
        Config, Kind("before", False, _positions, change=_with_experts), ARCHITECTURES
    ),
    expert_prefix="expert_",
)
