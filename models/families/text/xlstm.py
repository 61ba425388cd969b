"""xLSTM (Beck et al., 2024): matrix memories with gates in place of attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.mlstm import MLSTMSpec
from rushlight.models.layers.building import decoder_builder
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("xLSTMForCausalLM",)
NAMES = DecoderNames(
    base="backbone",
    embedding="embeddings",
    layers="blocks",
    before_attention="norm_mlstm",
    attention="mlstm_layer",
    before_mlp="norm_ffn",
    mlp="ffn",
    norm="out_norm",
)
FED = MLPNames(gate="proj_up_gate", up="proj_up", down="proj_down")
CONTEXT = 1 << 20  # there are no positions, so no length is too long


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    neutral = dict.fromkeys(
        (
            "add_out_norm",  # the reference always has the norm
            "norm_reduction_force_float32",
            "chunkwise_kernel",
            "sequence_kernel",
            "step_kernel",
            "mode",
            "chunk_size",
            "return_last_states",
            "autocast_kernel_dtype",
            "inference_state_dtype",
            "max_inference_chunksize",
        ),
        (),
    )

    vocab_size: int
    hidden_size: int = 4096
    embedding_dim: int | None = None
    num_hidden_layers: int | None = 32
    num_blocks: int | None = None
    num_heads: int = 8
    use_bias: bool = False
    norm_eps: float = 1e-6
    qk_dim_factor: float = 0.5
    v_dim_factor: float = 1.0
    eps: float = 1e-6
    ffn_proj_factor: float = 2.667
    ffn_round_up_to_multiple_of: int = 64
    gate_soft_cap: float = 15.0
    output_logit_soft_cap: float = 30.0
    weight_mode: str = "single"
    tie_word_embeddings: bool | None = False
    eos_token_id: Any = None
    model_type: str = "xlstm"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    choose("use_bias", c.use_bias, (False,))
    choose("weight_mode", c.weight_mode, ("single",))
    choose("embedding_dim", c.embedding_dim, (None, c.hidden_size))
    width = c.hidden_size
    memory = MLSTMSpec(
        width,
        c.num_heads,
        int(width * c.qk_dim_factor),
        int(width * c.v_dim_factor),
        c.gate_soft_cap,
        c.eps,
        c.norm_eps,
    )
    step = max(c.ffn_round_up_to_multiple_of, 1)
    inner = int((width * c.ffn_proj_factor + step - 1) // step * step)
    mlp = MLPSpec(inner, names=FED)
    count = c.num_hidden_layers if c.num_blocks is None else c.num_blocks
    return DecoderSpec(
        c.vocab_size,
        width,
        CONTEXT,
        (LayerSpec(memory, mlp),) * (count or 0),
        NormSpec("rms", c.norm_eps),
        logits_softcap=c.output_logit_soft_cap,
        names=NAMES,
        tied=bool(c.tie_word_embeddings),
    )


FAMILY = Family(
    model_types=("xlstm",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="backbone.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
