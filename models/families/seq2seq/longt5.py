"""LongT5 (Guo et al., 2021): T5 whose encoder sees near tokens, and sums of the text's blocks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.families.seq2seq import t5
from rushlight.models.layers.seq2seq.long_local import LongLayers, with_long_layers
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.text_encoder import TextEncoder

ARCHITECTURES = ("LongT5ForConditionalGeneration",)
ENCODERS = ("LongT5EncoderModel",)


@dataclass
class Config(t5.Config):
    """The keys of config.json that the model depends on."""

    encoder_attention_type: str = "local"
    local_radius: int = 127
    global_block_size: int = 16
    model_type: str = "longt5"


def build(config: dict[str, Any], names: Collection[str]) -> Seq2Seq | TextEncoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    return t5.built(config, names, Config, ARCHITECTURES, ENCODERS, _long)


def _long(c: Any, spec: Any) -> Any:
    choose("encoder_attention_type", c.encoder_attention_type, ("local", "transient-global"))
    with_sums = c.encoder_attention_type != "local"
    told = LongLayers(c.local_radius, c.global_block_size if with_sums else None)
    name = "layer.0.TransientGlobalSelfAttention" if with_sums else "layer.0.LocalSelfAttention"
    return replace(spec, encoder=with_long_layers(spec.encoder, name, told))


FAMILY = Family(
    model_types=("longt5",),
    tasks=("summarization", "text2text-generation"),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
)
