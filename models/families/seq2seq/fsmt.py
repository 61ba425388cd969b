"""FSMT (Ng et al., 2019): fairseq's translators of WMT 2019, a vocabulary for each language."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.families.family import Family
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig, Kind, fairseq_builder
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.spec import PositionSpec, Seq2SeqSpec, StackSpec

ARCHITECTURES = ("FSMTForConditionalGeneration", "FSMTModel")


@dataclass(kw_only=True)
class Config(FairseqConfig):
    """The keys of config.json that the model depends on."""

    vocab_size: int = 0
    src_vocab_size: int = 42024
    tgt_vocab_size: int = 42024
    activation_function: str = "relu"
    scale_embedding: bool = True
    pad_token_id: int | None = 1
    tie_word_embeddings: bool = False
    model_type: str = "fsmt"
    neutral = {
        "langs": (),
        "decoder": (),
        "max_length": (),
        "num_beams": (),
        "length_penalty": (),
        "early_stopping": (),
    }


def _positions(c: FairseqConfig) -> PositionSpec:
    padding = 1 if c.pad_token_id is None else c.pad_token_id
    return PositionSpec("even", padding + 1, padding)


def build(config: dict[str, Any], names: Collection[str]) -> Seq2Seq:
    """The model of a checkpoint with these tensor names, on the meta device."""
    alone = not any(name.endswith("output_projection.weight") for name in names)

    def change(c: Config, spec: Seq2SeqSpec) -> Seq2SeqSpec:
        both = spec.decoder.names.base if c.tie_word_embeddings else ""

        def own(stack: StackSpec) -> StackSpec:
            table = f"{both or stack.names.base}.embed_tokens"
            return replace(stack, names=replace(stack.names, embedding=table))

        return replace(
            spec,
            vocab=c.tgt_vocab_size,
            source_vocab=None if both else c.src_vocab_size,
            encoder=own(spec.encoder),
            decoder=own(spec.decoder),
            tied=c.tie_word_embeddings or alone,  # as older files have it
            head=f"{spec.decoder.names.base}.output_projection",
        )

    kind = Kind("after", False, _positions, change=change)
    return fairseq_builder(Config, kind, ARCHITECTURES)(config, names)


FAMILY = Family(
    model_types=("fsmt",),
    tasks=("translation", "text2text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
)
