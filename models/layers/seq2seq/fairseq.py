"""What BART and its kin share: fairseq's configuration and the names of the checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.mlp import ACTIVATIONS, MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.spec import (
    PositionSpec,
    PromptSpec,
    Seq2SeqSpec,
    StackNames,
    StackSpec,
)


@dataclass
class FairseqConfig:
    """The keys of config.json that the model depends on."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    max_position_embeddings: int = 1024
    activation_function: str = "gelu"
    scale_embedding: bool = False
    pad_token_id: int | None = None
    tie_word_embeddings: bool = True
    model_type: str = "bart"


@dataclass(frozen=True)
class Kind:
    """How a family differs: where it normalises, and its positions.

    positions_last: the decoder adds them to the normalised embedding. change: what is made of the
    whole description.
    """

    place: Literal["before", "after"]
    embedding_norm: bool
    positions: Callable[[FairseqConfig], PositionSpec]
    positions_last: bool = False
    change: Callable[[Any, Seq2SeqSpec], Seq2SeqSpec] = lambda c, spec: spec


def _stack(c: FairseqConfig, kind: Kind, which: str, own_embedding: bool) -> StackSpec:
    heads, layers, inner = (
        getattr(c, f"{which}_{key}") for key in ("attention_heads", "layers", "ffn_dim")
    )
    if heads < 1 or c.d_model % heads:
        raise FormatError(
            f"config.json: d_model {c.d_model} is not a multiple of {which}_attention_heads {heads}"
        )
    base = f"model.{which}"
    names = StackNames(
        base,
        f"{base}.embed_tokens" if own_embedding else "model.shared",
        embedding_norm="layernorm_embedding" if kind.embedding_norm else None,
        norm="layer_norm" if kind.place == "before" else None,
    )
    attention = AttentionSpec(
        heads, heads, c.d_model // heads, True, True, names=AttentionNames(out="out_proj")
    )
    mlp = MLPSpec(inner, c.activation_function, False, True, names=MLPNames(up="fc1", down="fc2"))
    prompts = None
    if getattr(c, "use_prompt", False):
        prompts = PromptSpec(getattr(c, "prompt_length", 1), getattr(c, "prompt_mid_dim", 1))
    last = kind.positions_last and which == "decoder"
    return StackSpec(layers, attention, mlp, names, positions_last=last, prompts=prompts)


def fairseq_builder(
    config_class: type[FairseqConfig],
    kind: Kind,
    architectures: Sequence[str],
    model: type[Seq2Seq] = Seq2Seq,
) -> Callable[[dict[str, Any], Collection[str]], Seq2Seq]:
    """`build` of a family of this kind; model: the class of its models."""

    def build(config: dict[str, Any], names: Collection[str]) -> Seq2Seq:
        """The model of a checkpoint with these tensor names, on the meta device."""
        c: Any = read_config(config_class, config, architectures)
        choose("activation_function", c.activation_function, tuple(ACTIVATIONS))
        positions = kind.positions(c)
        if any(name.endswith("embed_positions.weight") for name in names):
            positions = replace(positions, kind="learned")  # the same numbers, stored
        separate = not getattr(c, "share_encoder_decoder_embeddings", True)
        # An untied model may store three tables.
        stored = (f"model.{stack}.embed_tokens.weight" in names for stack in ("encoder", "decoder"))
        apart = separate or (not c.tie_word_embeddings and all(stored))
        target = getattr(c, "decoder_vocab_size", None)
        spec = Seq2SeqSpec(
            target if separate and target else c.vocab_size,
            c.d_model,
            c.max_position_embeddings,
            _stack(c, kind, "encoder", apart),
            _stack(c, kind, "decoder", apart),
            NormSpec("layer", 1e-5),
            kind.place,
            positions,
            embedding_scale=math.sqrt(c.d_model) if c.scale_embedding else 1.0,
            tied=c.tie_word_embeddings,
            logits_bias=any(name.endswith("final_logits_bias") for name in names),
            source_vocab=c.vocab_size if separate else None,
        )
        # transformers 5 neither reads nor writes the encoder's prompts, which older files have.
        if not any("encoder.self_attn_prompt." in name for name in names):
            spec = replace(spec, encoder=replace(spec.encoder, prompts=None))
        return model(c, kind.change(c, spec))

    return build
