"""BigBird-PEGASUS (Zaheer et al., 2020): summaries of long texts, seen in blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionNames
from rushlight.models.layers.seq2seq.bigbird import SparseBlocks
from rushlight.models.layers.seq2seq.fairseq import FairseqConfig, Kind, fairseq_builder
from rushlight.models.layers.seq2seq.spec import PositionSpec, Seq2SeqSpec, StackSpec

ARCHITECTURES = ("BigBirdPegasusForConditionalGeneration", "BigBirdPegasusModel")
NAMES = AttentionNames("self.query", "self.key", "self.value", "output")


@dataclass
class Config(FairseqConfig):
    """The keys of config.json that the model depends on."""

    attention_type: str = "block_sparse"
    block_size: int = 64
    num_random_blocks: int = 3
    use_bias: bool = False
    max_position_embeddings: int = 4096
    activation_function: str = "gelu_new"
    scale_embedding: bool = True
    pad_token_id: int | None = 0
    model_type: str = "bigbird_pegasus"
    neutral = {"embedding_size": ()}  # of what a decoder alone has


def _sparse(c: Config, spec: Seq2SeqSpec) -> Seq2SeqSpec:
    choose("attention_type", c.attention_type, ("block_sparse", "original_full"))

    def changed(stack: StackSpec, names: AttentionNames) -> StackSpec:
        attention = replace(stack.attention, bias=c.use_bias, out_bias=c.use_bias, names=names)
        paths = replace(stack.names, norm="layernorm_embedding")
        return replace(stack, attention=attention, names=paths)

    encoder = changed(spec.encoder, NAMES)
    if c.attention_type == "block_sparse":
        encoder = replace(encoder, make=SparseBlocks(c.block_size, c.num_random_blocks))
    return replace(
        spec, encoder=encoder, decoder=changed(spec.decoder, spec.decoder.attention.names)
    )


FAMILY = Family(
    model_types=("bigbird_pegasus",),
    tasks=("summarization", "text2text-generation"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=fairseq_builder(
        Config,
        Kind("before", False, lambda c: PositionSpec("learned"), change=_sparse),
        ARCHITECTURES,
    ),
)
