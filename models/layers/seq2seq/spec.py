"""The description of an encoder-decoder model: names, stacks, positions, norms and scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rushlight.core import nn
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.mlp import MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.distances import RelativeSpec


@dataclass(frozen=True)
class StackNames:
    """The checkpoint's names of the encoder or the decoder; `embedding` is a path from the root.

    types: a table whose first row is added to all tokens. None: there is no such norm or table.
    `relative` is a path within attention.
    """

    base: str
    embedding: str = "model.shared"
    positions: str = "embed_positions"
    embedding_norm: str | None = None
    layers: str = "layers"
    attention: str = "self_attn"
    attention_norm: str = "self_attn_layer_norm"
    cross: str = "encoder_attn"
    cross_norm: str = "encoder_attn_layer_norm"
    mlp_norm: str = "final_layer_norm"
    norm: str | None = None
    relative: str = "relative_attention_bias"
    types: str | None = None
    prompt: str = "self_attn_prompt"
    cross_prompt: str = "cross_attn_prompt"


@dataclass(frozen=True)
class PromptSpec:
    """Keys and values of `length` trained places, made by a network `inner` features wide."""

    length: int
    inner: int


@dataclass(frozen=True)
class StackSpec:
    """The encoder or the decoder; the names in `mlp` are paths within a layer.

    recurrent: an SSRU is in place of self-attention. positions_last: positions are added to the
    normalised embedding. prompts: what self-attention, and attention to the memory, see before all
    tokens. leading: the name of a table whose rows come before all tokens, and how many there are.
    make: what makes a layer in place of `stacks.Layer`, of which it is a kind. context: the tokens
    that it takes, where that is not the model's. types: the rows of that table of names. memory:
    the width of what it reads, where that is not the model's. crosses: an encoder that reads a
    memory, too.
    """

    layers: int
    attention: AttentionSpec
    mlp: MLPSpec
    names: StackNames
    recurrent: bool = False
    positions_last: bool = False
    prompts: PromptSpec | None = None
    leading: tuple[str, int] | None = None
    make: Callable[[Seq2SeqSpec, StackSpec, int], nn.Module] | None = None
    context: int | None = None
    types: int = 1
    memory: int | None = None
    crosses: bool = False


@dataclass(frozen=True)
class PositionSpec:
    """Positions that are added to the embedding: of a table, which may be learned.

    offset: the table's row of the first position. padding: a token that has no position; others
    are counted from 1.
    """

    kind: Literal["learned", "paired", "even"]
    offset: int = 0
    padding: int | None = None


@dataclass(frozen=True)
class Seq2SeqSpec:
    """An encoder and a decoder `width` features wide, for `context` tokens each.

    place: "after" normalises the sum of each residual, "before" the input of each part. The scales
    multiply the embedding, and the decoder's output before the head. tied: the head shares the
    decoder's embedding; else it is at the path `head`. logits_bias: the checkpoint has
    `final_logits_bias`.
    """

    vocab: int
    width: int
    context: int
    encoder: StackSpec
    decoder: StackSpec
    norm: NormSpec = NormSpec("layer", 1e-5)
    place: Literal["before", "after"] = "after"
    positions: PositionSpec | None = None
    relative: RelativeSpec | None = None
    embedding_scale: float = 1.0
    output_scale: float = 1.0
    tied: bool = True
    head: str = "lm_head"
    logits_bias: bool = False
    source_vocab: int | None = None
