"""ModernBERT (Warner et al., 2024): rotary positions, local windows, gated MLPs, norms before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.gguf.encoders import encoder_architecture
from rushlight.models.layers.building import kinds_of
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, encoder_builder
from rushlight.models.layers.heads import HeadNames
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import rotary_of_kind

ARCHITECTURES = ("ModernBertModel",)
BASE_PREFIX = "model."
HEADS = HeadNames(
    "head.dense", "head.norm", "decoder", "decoder.bias", ends="classifier", every=True
)
NAMES = EncoderNames(
    words="embeddings.tok_embeddings",
    embedding_norm="embeddings.norm",
    layers="layers",
    qkv="attn.Wqkv",
    out="attn.Wo",
    attention_norm="attn_norm",
    gate_up="mlp.Wi",
    down="mlp.Wo",
    mlp_norm="mlp_norm",
    norm="final_norm",
)


@dataclass
class Config(BertConfig):
    """The keys of config.json; those of norms and activations that others share are not used."""

    # `build` reads these, or they are no part of the model.
    neutral = dict.fromkeys(("classifier_activation", "classifier_bias", "classifier_pooling",
        "cls_token_id", "decoder_bias", "initializer_cutoff_factor", "is_causal"), ())  # fmt: skip

    hidden_activation: str = "gelu"
    max_position_embeddings: int = 8192
    norm_eps: float = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    local_attention: int = 128
    global_attn_every_n_layers: int = 3
    global_rope_theta: float = 160000.0
    local_rope_theta: float | None = 10000.0
    layer_types: list[Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    mlp_dropout: float = 0.0
    model_type: str = "modernbert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    every, window = max(c.global_attn_every_n_layers, 1), c.local_attention // 2 + 1
    kinds = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: i % every != 0)
    head, theta = c.hidden_size // max(c.num_attention_heads, 1), c.global_rope_theta
    wide = rotary_of_kind(asdict(c), head, "full_attention", theta)
    near = rotary_of_kind(asdict(c), head, "sliding_attention", c.local_rope_theta or theta)
    return EncoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_position_embeddings,
        c.num_hidden_layers,
        c.num_attention_heads,
        c.intermediate_size,
        c.hidden_activation,
        NormSpec("layer", c.norm_eps, bias=c.norm_bias),
        "before",
        first_norm=False,
        types=0,
        pooler=False,
        absolute=False,
        rotary=tuple(near if local else wide for local in kinds),
        windows=tuple(window if local else None for local in kinds),
        gated=True,
        biases=(c.attention_bias, c.attention_bias, c.mlp_bias, c.mlp_bias),
        names=NAMES,
        dropout=c.mlp_dropout,
    )


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    pooled = config.get("classifier_pooling", "cls")
    choose("classifier_pooling", pooled, ("cls", "mean"))
    biases = config.get("classifier_bias") is True, config.get("decoder_bias") is not False
    act = str(config.get("classifier_activation", "gelu"))
    heads = replace(HEADS, act=act, mean=pooled == "mean", biases=biases)
    return encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)


def adjust(config: dict[str, Any]) -> None:
    """What a file means and does not say: llama.cpp reads no biases."""
    config.setdefault("local_rope_theta", config.get("global_rope_theta", 10000.0))
    config.setdefault("global_attn_every_n_layers", 3)


def metadata(model: Encoder) -> dict[str, Any]:
    """The layers with windows: all but the first of so many; and their rotary positions."""
    spec = model.spec
    wide = [i for i, window in enumerate(spec.windows) if window is None]
    near = [i for i, window in enumerate(spec.windows) if window is not None]
    every = wide[1] if len(wide) > 1 else spec.layers if near else 1
    told: dict[str, Any] = {"attention.sliding_window_pattern": every}
    if near:
        told["rope.freq_base_swa"] = spec.rotary[near[0]].theta
    return told


GGUF = encoder_architecture(
    "modernbert",
    "ModernBertModel",
    NAMES,
    before=True,
    keys={
        "norm_eps": "attention.layer_norm_epsilon",
        "local_attention": "attention.sliding_window",
        "global_attn_every_n_layers": "attention.sliding_window_pattern",
        "global_rope_theta": "rope.freq_base",
        "local_rope_theta": "rope.freq_base_swa",
        "rope_theta": "",
        "hidden_activation": "hidden_act",
    },
    fixed={"norm_bias": False, "attention_bias": False, "mlp_bias": False},
    adjust=adjust,
    metadata=metadata,
)

FAMILY = Family(
    model_types=("modernbert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    refused=("sliding_window",),
    heads=HEADS,
    gguf_types=("modern-bert",),
    gguf=GGUF,
)
