"""PEGASUS-X (Phang et al., 2022): PEGASUS for long texts, which sees them block by block."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.core.basis.errors import FormatError
from rushlight.models.families.family import Family
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig, Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec, Seq2SeqSpec, StackSpec
from rushlight.models.layers.seq2seq.staggered import Blocks

ARCHITECTURES = ("PegasusXForConditionalGeneration", "PegasusXModel")


@dataclass
class Config(FairseqConfig):
    """The keys of config.json that the model depends on."""

    num_global_tokens: int = 32
    block_size: int = 512
    stagger_local_blocks: bool = True
    max_position_embeddings: int = 16384
    scale_embedding: bool = True
    pad_token_id: int | None = 0
    model_type: str = "pegasus_x"


def _in_blocks(c: Config, spec: Seq2SeqSpec) -> Seq2SeqSpec:
    if c.block_size < 2 or c.block_size % 2:
        raise FormatError(f"config.json: block_size is {c.block_size}; it must be even, at least 2")

    def without_biases(stack: StackSpec) -> StackSpec:
        return replace(stack, attention=replace(stack.attention, bias=False, out_bias=False))

    encoder = replace(
        without_biases(spec.encoder),
        leading=("embed_global", c.num_global_tokens),
        make=Blocks(c.block_size, c.stagger_local_blocks),
    )
    return replace(spec, encoder=encoder, decoder=without_biases(spec.decoder))


FAMILY = Family(
    model_types=("pegasus_x",),
    tasks=("summarization", "text2text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(
        Config,
        Kind("before", False, lambda c: PositionSpec("even"), change=_in_blocks),
        ARCHITECTURES,
    ),
)
