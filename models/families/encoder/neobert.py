"""NeoBERT (Le Breton et al., 2025): rotary positions, RMS norms before, gated MLPs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.encoder import EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, encoder_builder
from rushlight.models.layers.heads import HeadNames
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import RotarySpec

ARCHITECTURES = ("NeoBERT",)
BASE_PREFIX = "model."
HEADS = HeadNames("", "", "decoder", "decoder.bias")
NAMES = EncoderNames(
    words="encoder",
    embedding_norm="",
    layers="transformer_encoder",
    qkv="qkv",
    out="wo",
    attention_norm="attention_norm",
    gate_up="ffn.w12",
    down="ffn.w3",
    mlp_norm="ffn_norm",
    norm="layer_norm",
)


@dataclass
class Config(BertConfig):
    """The keys of config.json; those of types and activations that others share are not used."""

    neutral = {**BertConfig.neutral, "embedding_init_range": (), "decoder_init_range": ()}

    hidden_act: str = "SwiGLU"
    max_length: int = 1024
    norm_eps: float = 1e-6
    rms_norm: bool = True
    rope: bool = True
    model_type: str = "neobert"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("hidden_act", c.hidden_act.lower(), ("swiglu",))
    choose("rope", c.rope, (True,))
    head = c.hidden_size // max(c.num_attention_heads, 1)
    inner = -(-int(2 * c.intermediate_size / 3) // 8) * 8  # a multiple of 8
    return EncoderSpec(
        c.vocab_size,
        c.hidden_size,
        c.max_length,
        c.num_hidden_layers,
        c.num_attention_heads,
        inner,
        "silu",
        NormSpec("rms" if c.rms_norm else "layer", c.norm_eps),
        "before",
        types=0,
        pooler=False,
        absolute=False,
        by_head=True,
        rotary=(replace(RotarySpec(head), interleaved=True),) * c.num_hidden_layers,
        gated=True,
        biases=(False,) * 4,
        names=NAMES,
    )


FAMILY = Family(
    model_types=("neobert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS),
    heads=HEADS,
)
