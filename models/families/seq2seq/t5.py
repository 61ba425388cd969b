"""T5 (Raffel et al., 2019) and its kin: mT5, Flan-T5, UL2, MADLAD-400, UMT5."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.gguf.stacks import t5_architecture
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.mlp import ACTIVATIONS, MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.distances import RelativeSpec
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.spec import Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.text_encoder import TextEncoder

ARCHITECTURES = tuple(f"{kind}ForConditionalGeneration" for kind in ("T5", "MT5", "UMT5"))
ENCODERS = tuple(f"{kind}EncoderModel" for kind in ("T5", "MT5", "UMT5"))
LONGEST = 1 << 16  # positions are relative


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    d_model: int
    d_kv: int
    d_ff: int
    num_layers: int
    num_heads: int
    num_decoder_layers: int | None = None
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: str | None = None
    dense_act_fn: str | None = None  # these two come before feed_forward_proj
    is_gated_act: bool | None = None
    tie_word_embeddings: bool | None = None
    scale_decoder_outputs: bool | None = None
    model_type: str = "t5"


def stack_of(
    c: Config, base: str, layers: int, mlp: int, part: str = "DenseReluDense"
) -> StackSpec:
    """The encoder or the decoder; the feed-forward `part` is number `mlp` of a layer's."""
    kind = c.feed_forward_proj or ("relu" if c.model_type in ("t5", "longt5") else "gated-gelu")
    gate, _, name = kind.rpartition("-")
    choose("feed_forward_proj", gate, ("", "gated"))
    act = c.dense_act_fn or ("gelu_new" if kind == "gated-gelu" else name)
    choose("dense_act_fn" if c.dense_act_fn else "feed_forward_proj", act, tuple(ACTIVATIONS))
    gated = bool(gate) if c.is_gated_act is None else c.is_gated_act
    mlp_path = f"layer.{mlp}.{part}."
    inside = MLPNames(mlp_path + "wi_0", mlp_path + ("wi_1" if gated else "wi"), mlp_path + "wo")
    attention = AttentionSpec(
        c.num_heads, c.num_heads, c.d_kv, scale=1.0, names=AttentionNames("q", "k", "v", "o")
    )
    names = StackNames(
        base,
        "shared",
        layers="block",
        attention="layer.0.SelfAttention",
        attention_norm="layer.0.layer_norm",
        cross="layer.1.EncDecAttention",
        cross_norm="layer.1.layer_norm",
        mlp_norm=f"layer.{mlp}.layer_norm",
        norm="final_layer_norm",
    )
    return StackSpec(layers, attention, MLPSpec(c.d_ff, act, gated, names=inside), names)


def built(
    config: dict[str, Any],
    names: Collection[str],
    kind: type[Config],
    architectures: Sequence[str],
    encoders: Sequence[str],
    change: Callable[[Any, Seq2SeqSpec], Seq2SeqSpec] = lambda c, spec: spec,
) -> Seq2Seq | TextEncoder:
    """The model of a checkpoint with these tensor names, on the meta device.

    kind: the class of its config, as a T5's. architectures, encoders: the classes of whole models,
    and of encoders alone. change: what is made of the description.
    """
    off = {n: False for n in ("is_gated_act", "scale_decoder_outputs") if config.get(n, 0) is None}
    told = config.get("architectures")
    alone = told in [[encoder] for encoder in encoders]
    if not told and names:  # nor does a file of an encoder say so
        alone = not any("decoder." in name for name in names)
    if alone:  # which has no decoder whatever this key is
        off["is_encoder_decoder"] = True
    c = read_config(kind, config | off, (*architectures, *encoders))
    # Only the first T5, and UMT5 if so configured, divide the output of a shared embedding.
    scaled = c.tie_word_embeddings is not False and c.model_type != "mt5"
    scaled = scaled if c.scale_decoder_outputs is None else c.scale_decoder_outputs
    relative = RelativeSpec(
        c.relative_attention_num_buckets, c.relative_attention_max_distance, c.model_type == "umt5"
    )
    decoders = c.num_layers if c.num_decoder_layers is None else c.num_decoder_layers
    spec = Seq2SeqSpec(
        c.vocab_size,
        c.d_model,
        LONGEST,
        stack_of(c, "encoder", c.num_layers, 1),
        stack_of(c, "decoder", decoders, 2),
        NormSpec("rms", c.layer_norm_epsilon),
        "before",
        relative=relative,
        output_scale=c.d_model**-0.5 if scaled else 1.0,
    )
    return (TextEncoder if alone else Seq2Seq)(c, change(c, spec))


def build(config: dict[str, Any], names: Collection[str]) -> Seq2Seq | TextEncoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    return built(config, names, Config, (*ARCHITECTURES, "T5WithLMHeadModel"), ENCODERS)


# By whether MLPs are gated, and there is no decoder.
GGUF = {
    f"t5{'encoder' * alone}{'/gated' * gated}": t5_architecture(gated, alone)
    for alone in (False, True)
    for gated in (False, True)
}

FAMILY = Family(
    model_types=("t5", "mt5", "umt5"),
    tasks=("text2text-generation", "translation", "summarization"),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    gguf_types=tuple(GGUF),
    gguf=GGUF["t5"],
    gguf_others=GGUF,
)
