"""How a GGUF file has encoders: names of their parts, and what every file of one says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.models.gguf.architecture import Architecture
from rushlight.models.layers.attention import AttentionNames
from rushlight.models.layers.decoder import DecoderNames
from rushlight.models.layers.encoder import EncoderNames

# What may differ where a file is read as a model with other names.
RENAMED = tuple(f"names.{field.name}" for field in fields(EncoderNames))


def sees_all(model: Any) -> bool:
    """Whether attention is not causal, of a decoder that embeds texts."""
    return any(not getattr(layer.attention, "causal", True) for layer in model.spec.layers)


def embedding_architecture(of: Architecture, architecture: str, **more: Any) -> Architecture:
    """That of files with a decoder that sees all tokens and has no head.

    `of` is that of the language models, `architecture` the class without a head; `more` are fields.
    """
    return replace(
        of,
        architecture=architecture,
        keys={**of.keys, "is_causal": "attention.causal"},
        fixed={**of.fixed, "tie_word_embeddings": False},
        metadata=lambda model: {**of.metadata(model), "attention.causal": False},
        folded=(*of.folded, "tied", "headless"),
        fits=sees_all,
        **more,
    )


def encoder_names(names: EncoderNames, before: bool = False) -> dict[str, str]:
    """llama.cpp's names of an encoder's parts, `{}` for a layer's number -> the checkpoint's.

    before: the norms are of each part's input, and the encoder ends with one.
    """
    layer = f"{names.layers}.{{}}."
    norms = ("attn_norm", "ffn_norm") if before else ("attn_output_norm", "layer_output_norm")
    inside = {
        "attn_q": names.q,
        "attn_k": names.k,
        "attn_v": names.v,
        "attn_qkv": names.qkv,
        "attn_output": names.out,
        norms[0]: names.attention_norm,
        "ffn_gate": names.gate,
        "ffn_up": names.gate_up or names.up,
        "ffn_down": names.down,
        norms[1]: names.mlp_norm,
    }
    of_all = {
        "token_embd": names.words,
        "position_embd": names.positions,
        "token_types": names.types,
        "token_embd_norm": names.embedding_norm,
        "output_norm": names.norm if before else "",
    }
    in_layers = {f"blk.{{}}.{theirs}": layer + ours for theirs, ours in inside.items() if ours}
    return {theirs: ours for theirs, ours in of_all.items() if ours} | in_layers


def _adjusted(more: Callable[[dict[str, Any]], None], config: dict[str, Any]) -> None:
    causal = config.pop("is_causal", True)
    if causal:
        raise FormatError(
            f"attention.causal is {brief(causal)}, which is not supported of encoders; supported: "
            "False"
        )
    more(config)


def encoder_architecture(
    model_type: str,
    architecture: str,
    names: EncoderNames,
    *,
    keys: Mapping[str, str],
    before: bool = False,
    parts: Mapping[str, str] | None = None,
    adjust: Callable[[dict[str, Any]], None] = lambda config: None,
    metadata: Callable[[Any], Mapping[str, Any]] = lambda model: {},
    folded: tuple[str, ...] = (),
    **more: Any,
) -> Architecture:
    """The `Architecture` of an encoder: its base model, which sees all tokens.

    `before` and `names` are as in `encoder_names`, to which `parts` are added; the others are
    fields of the same names. It raises nothing.
    """
    return Architecture(
        model_type,
        architecture,
        keys={"is_causal": "attention.causal", **keys},
        adjust=partial(_adjusted, adjust),
        decoder=DecoderNames(base="", embedding=names.words, layers=names.layers),
        attention=AttentionNames(q=names.q, k=names.k, v=names.v, out=names.out, qkv=names.qkv),
        parts=encoder_names(names, before) | dict(parts or {}),
        metadata=lambda model: {"attention.causal": False, **metadata(model)},
        folded=("pooler", *folded),
        rows={"type_vocab_size": f"{names.types}.weight"},
        complete=True,
        body=True,
        **more,
    )
