"""LED (Beltagy et al., 2020): BART for long texts, whose encoder sees them through windows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionNames
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig, Kind, fairseq_builder
from rushlight.models.layers.seq2seq.longformer import LongformerSeq2Seq, Windows, sides_of
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.spec import PositionSpec, Seq2SeqSpec, StackSpec

ARCHITECTURES = ("LEDForConditionalGeneration", "LEDModel")
WITHIN = "longformer_self_attn"
NAMES = AttentionNames(f"{WITHIN}.query", f"{WITHIN}.key", f"{WITHIN}.value", "output")


@dataclass
class Config(FairseqConfig):
    """The keys of config.json that the model depends on."""

    max_encoder_position_embeddings: int = 16384
    max_decoder_position_embeddings: int = 1024
    attention_window: Any = 512
    pad_token_id: int | None = 1
    model_type: str = "led"
    neutral = {"onnx_export": ()}  # the same numbers in other steps


def _windowed(c: Config, spec: Seq2SeqSpec) -> Seq2SeqSpec:
    sides = sides_of(c.attention_window, c.encoder_layers)
    if sides is None:
        raise FormatError(
            f"config.json: attention_window is {brief(c.attention_window)}; it must be an even "
            f"number above 0, or a list of {c.encoder_layers}"
        )

    def named(stack: StackSpec, context: int, names: AttentionNames) -> StackSpec:
        base = stack.names.base.replace("model.", "led.")
        paths = replace(stack.names, base=base, embedding="led.shared")
        attention = replace(stack.attention, names=names)
        return replace(stack, names=paths, attention=attention, context=context)

    source, target = c.max_encoder_position_embeddings, c.max_decoder_position_embeddings
    encoder = replace(named(spec.encoder, source, NAMES), make=Windows(tuple(sides)))
    decoder = named(spec.decoder, target, spec.decoder.attention.names)
    return replace(spec, context=target, encoder=encoder, decoder=decoder)


def build(config: dict[str, Any], names: Collection[str]) -> Seq2Seq:
    """The model of a checkpoint with these tensor names, on the meta device."""
    kind = Kind("after", True, lambda c: PositionSpec("learned"), change=_windowed)
    return fairseq_builder(Config, kind, ARCHITECTURES, LongformerSeq2Seq)(config, names)


FAMILY = Family(
    model_types=("led",),
    tasks=("summarization", "text2text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="led.",
    config=Config,
    build=build,
)
