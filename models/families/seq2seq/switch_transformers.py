"""Switch Transformers (Fedus et al., 2021): T5 with one of many experts for each token."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from rushlight.models.config_schema import read_config
from rushlight.models.families.family import Family
from rushlight.models.families.seq2seq import t5
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.distances import RelativeSpec
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackSpec
from rushlight.models.layers.seq2seq.switching import SwitchSpec, with_switches

ARCHITECTURES = ("SwitchTransformersForConditionalGeneration",)


@dataclass
class Config(t5.Config):
    """The keys of config.json that the model depends on."""

    dense_act_fn: str | None = "relu"
    num_experts: int = 8
    expert_capacity: int = 64
    num_sparse_encoder_layers: int = 3
    num_sparse_decoder_layers: int = 3
    encoder_sparse_step: int | None = None  # these two come before the counts
    decoder_sparse_step: int | None = None
    router_bias: bool = False
    model_type: str = "switch_transformers"
    neutral = {
        "router_ignore_padding_tokens": (),
        "router_z_loss_coef": (),
        "add_router_probs": (),
        "router_dtype": ("float32",),
    }


def _every(layers: int, sparse: int, given: int | None) -> Callable[[int], bool]:
    """Whether a layer has experts, of `layers` of which about `sparse` have.

    As in transformers the second layer has some if none should. given: the step, where the file
    says it.
    """
    step = (layers // sparse if sparse > 0 else layers) if given is None else given
    return partial(_is_sparse, step)


def _is_sparse(step: int, layer: int) -> bool:
    return step == 1 or (step > 0 and layer % step == 1)


def _stack(c: Config, base: str, layers: int, mlp: int) -> StackSpec:
    sparse, step = (
        getattr(c, name) for name in (f"num_sparse_{base}_layers", f"{base}_sparse_step")
    )
    switch = SwitchSpec(
        c.num_experts,
        1,
        c.d_ff,
        c.dense_act_fn or "relu",
        f"layer.{mlp}.mlp",
        "wi",
        "wo",
        router_bias=c.router_bias,
        capacity=c.expert_capacity,
    )
    stack = t5.stack_of(c, base, layers, mlp, "mlp")
    return with_switches(stack, switch, _every(layers, sparse, step))


def build(config: dict[str, Any], names: Collection[str]) -> Seq2Seq:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    c.is_gated_act = False
    decoders = c.num_layers if c.num_decoder_layers is None else c.num_decoder_layers
    tied = c.tie_word_embeddings is not False
    return Seq2Seq(
        c,
        Seq2SeqSpec(
            c.vocab_size,
            c.d_model,
            t5.LONGEST,
            _stack(c, "encoder", c.num_layers, 1),
            _stack(c, "decoder", decoders, 2),
            NormSpec("rms", c.layer_norm_epsilon),
            "before",
            relative=RelativeSpec(
                c.relative_attention_num_buckets, c.relative_attention_max_distance
            ),
            output_scale=c.d_model**-0.5 if tied else 1.0,
        ),
    )


FAMILY = Family(
    model_types=("switch_transformers",),
    tasks=("text2text-generation",),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    expert_prefix="expert_",
)
