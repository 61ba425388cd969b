"""Marian's own files, Bergamot's translators among them: an SSRU or attention in the decoder."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rushlight.core.basis.errors import FormatError
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.mlp import ACTIVATIONS, MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.seq2seq import marian_files
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.spec import PositionSpec, Seq2SeqSpec, StackNames, StackSpec


@dataclass
class Config:
    """The keys of config.json, which is Rushlight's: Marian's options in the words of OPUS-MT."""

    vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    attention_heads: int
    ffn_dim: int
    activation_function: str = "relu"
    recurrent_decoder: bool = True
    normalize_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    max_position_embeddings: int = 1024  # Marian knows no limit
    model_type: str = "bergamot"


def build(config: dict[str, Any], names: Collection[str]) -> Seq2Seq:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config)
    choose("activation_function", c.activation_function, tuple(ACTIVATIONS))
    if c.attention_heads < 1 or c.d_model % c.attention_heads:
        raise FormatError(f"d_model {c.d_model} is not a multiple of {c.attention_heads} heads")
    attention = AttentionSpec(
        c.attention_heads,
        c.attention_heads,
        c.d_model // c.attention_heads,
        True,
        True,
        names=AttentionNames(out="out_proj"),
    )
    mlp = MLPSpec(
        c.ffn_dim, c.activation_function, False, True, names=MLPNames(up="fc1", down="fc2")
    )

    def stack(base: str, layers: int, recurrent: bool) -> StackSpec:
        separate = not c.share_encoder_decoder_embeddings
        rnn = {"attention": "rnn", "attention_norm": "rnn_layer_norm"} if recurrent else {}
        return StackSpec(
            layers,
            attention,
            mlp,
            StackNames(
                base,
                f"{base}.embed_tokens" if separate else "model.shared",
                embedding_norm="layernorm_embedding" if c.normalize_embedding else None,
                **rnn,
            ),
            recurrent,
        )

    return Seq2Seq(
        c,
        Seq2SeqSpec(
            c.vocab_size,
            c.d_model,
            c.max_position_embeddings,
            stack("model.encoder", c.encoder_layers, False),
            stack("model.decoder", c.decoder_layers, c.recurrent_decoder),
            NormSpec("layer", 1e-6),
            positions=PositionSpec("even"),
            embedding_scale=math.sqrt(c.d_model),
            tied=c.tie_word_embeddings,
            logits_bias="final_logits_bias" in names,
        ),
    )


FAMILY = Family(
    model_types=("bergamot",),
    tasks=("translation", "text2text-generation"),
    config=Config,
    build=build,
    rename_tensors=marian_files.rename_tensors,
    tensors=("special:model.yml",),
    config_of=marian_files.config_of,
)
