"""ModernBERT as a decoder, as in Ettin (Weller et al., 2025): tokens see earlier ones alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.building import FULL, SLIDING, decoder_builder, kinds_of
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec, LayerSpec
from rushlight.models.layers.head import HeadTransform
from rushlight.models.layers.mlp import MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of_kind

ARCHITECTURES = ("ModernBertDecoderForCausalLM",)
NAMES = DecoderNames(
    embedding="embeddings.tok_embeddings",
    embedding_norm="embeddings.norm",
    before_attention="attn_norm",
    attention="attn",
    before_mlp="mlp_norm",
    norm="final_norm",
    head="decoder",
)


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    # Of training, of heads of classes, and of tokens.
    neutral = dict.fromkeys(("initializer_cutoff_factor", "mlp_dropout", "cls_token_id"), ())

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    hidden_activation: str = "gelu"
    max_position_embeddings: int = 8192
    norm_eps: float = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    decoder_bias: bool = True
    classifier_bias: bool = False
    classifier_activation: str = "gelu"
    local_attention: int | None = 128
    sliding_window: int | None = None  # half of that, where it is not given
    global_attn_every_n_layers: int = 3
    global_rope_theta: float = 160000.0
    local_rope_theta: float | None = 10000.0
    layer_types: Any = None
    rope_parameters: Any = None
    rope_scaling: Any = None
    tie_word_embeddings: bool | None = True
    eos_token_id: Any = None
    model_type: str = "modernbert-decoder"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    every, heads = max(c.global_attn_every_n_layers, 1), c.num_attention_heads
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: i % every != 0)
    window = (c.local_attention or 0) // 2 if c.sliding_window is None else c.sliding_window
    if any(within) and window < 1:
        raise FormatError(
            f"config.json: local_attention {c.local_attention} and sliding_window "
            f"{c.sliding_window} leave no window; local_attention must be 2 or more"
        )
    head, norm = c.hidden_size // max(heads, 1), NormSpec("layer", c.norm_eps, bias=c.norm_bias)
    thetas = {FULL: c.global_rope_theta, SLIDING: c.local_rope_theta or 10000.0}
    mlp = MLPSpec(
        c.intermediate_size,
        c.hidden_activation,
        bias=c.mlp_bias,
        names=MLPNames(gate_up="Wi", down="Wo"),
    )

    def layer(local: bool) -> LayerSpec:
        kind = SLIDING if local else FULL
        attention = AttentionSpec(
            heads,
            heads,
            head,
            bias=c.attention_bias,
            out_bias=c.attention_bias,
            rotary=rotary_of_kind(vars(c), head, kind, thetas[kind]),
            window=window if local else None,
            names=AttentionNames(out="Wo"),
        )
        return LayerSpec(attention, mlp)

    return DecoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        tuple(layer(local) for local in within),
        norm,
        first_norm=False,
        tied=bool(c.tie_word_embeddings),
        head_bias=c.decoder_bias,
        transform=HeadTransform(
            "lm_head.dense", "lm_head.norm", c.classifier_activation, c.classifier_bias
        ),
        names=NAMES,
    )


FAMILY = Family(
    model_types=("modernbert-decoder",),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
)
