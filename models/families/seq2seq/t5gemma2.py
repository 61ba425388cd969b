"""T5Gemma 2 (Zhang et al., 2025): an encoder and a decoder of Gemma 3 with one embedding.

Texts alone are read: the tower that sees stays in the file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.families.text import gemma3
from rushlight.models.layers.decoder import DecoderSpec
from rushlight.models.layers.seq2seq.merged import Leaning, Merged, MergedPair
from rushlight.models.layers.seq2seq.pair import GEMMA_NAMES, PairSpec, part_of

ARCHITECTURES = ("T5Gemma2ForConditionalGeneration", "T5Gemma2Model")
SEEING = ("model.encoder.vision_tower.", "model.encoder.multi_modal_projector.")


@dataclass
class Source(gemma3.Config):
    """The keys of the encoder's text_config."""

    pad_token_id: int | None = 0
    model_type: str = "t5gemma2_text"


@dataclass
class Target(Source):
    """The keys of the decoder's configuration."""

    model_type: str = "t5gemma2_decoder"


@dataclass
class Outer:
    """The keys of the encoder's configuration."""

    text_config: Any = field(default_factory=dict)
    eoi_token_index: int | None = 256000
    model_type: str = "t5gemma2_encoder"
    neutral = {
        "vision_config": (),
        "mm_tokens_per_image": (),
        "boi_token_index": (),
        "image_token_index": (),
    }


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    encoder: Any = field(default_factory=dict)
    decoder: Any = field(default_factory=dict)
    tie_word_embeddings: bool = True
    model_type: str = "t5gemma2"
    neutral = {"classifier_dropout_rate": (), "image_token_index": (), "eoi_token_index": ()}


def _changed(spec: DecoderSpec, change: Any) -> DecoderSpec:
    layers = tuple(
        replace(layer, attention=change(a := layer.attention), rotary=getattr(a, "rotary", None))
        for layer in spec.layers
    )
    return replace(spec, names=GEMMA_NAMES, layers=layers, embedding_scale=1.0)


def build(config: dict[str, Any], names: Collection[str]) -> MergedPair:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    choose("tie_word_embeddings", c.tie_word_embeddings, (True,))
    outer = part_of(c, "encoder", Outer, "t5gemma2_encoder")
    source = part_of(outer, "text_config", Source, "t5gemma2_text")
    target = part_of(c, "decoder", Target, "t5gemma2_decoder")
    if source.hidden_size != target.hidden_size or source.vocab_size != target.vocab_size:
        raise FormatError(
            f"config.json: decoder.hidden_size {target.hidden_size} and vocab_size "
            f"{target.vocab_size} differ from those of encoder.text_config"
        )

    def of_encoder(a: Any) -> Any:
        both = replace(a, causal=False, window=None)
        return both if a.window is None else Leaning(source.hidden_size, both, a.window)

    def of_decoder(a: Any) -> Any:
        return Merged(target.hidden_size, a)

    return MergedPair(
        c,
        PairSpec(
            _changed(gemma3.describe(source), of_encoder),
            _changed(gemma3.describe(target), of_decoder),
        ),
        outer.eoi_token_index if outer.eoi_token_index is not None else -1,
    )


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under the names of files; modules have `text_model` before those of texts."""
    return {n.replace("encoder.text_model.", "encoder.", 1): t for n, t in tensors.items()}


def unused(name: str, config: Mapping[str, Any]) -> bool:
    """Whether a tensor is of the tower that sees."""
    return name.startswith(SEEING)


FAMILY = Family(
    model_types=("t5gemma2",),
    tasks=("text2text-generation", "translation", "summarization"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    unused=unused,
)
