"""How a GGUF file has T5: an encoder and a decoder, or the encoder alone, which embeds texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.core.basis.errors import LoadError
from rushlight.models.gguf.architecture import Architecture, floats
from rushlight.models.gguf.names import START
from rushlight.models.gguf.weights import Weight
from rushlight.models.layers.decoder import DecoderNames
from rushlight.models.layers.seq2seq.skeleton import Seq2Seq
from rushlight.models.layers.seq2seq.text_encoder import TextEncoder
from rushlight.models.model import Model

_CONTEXT = 512  # llama.cpp reserves memory for so many tokens; positions are relative
KEYS = {
    "d_model": "embedding_length",
    "d_kv": "attention.key_length",
    "d_ff": "feed_forward_length",
    "num_layers": "block_count",
    "num_decoder_layers": "decoder_block_count",
    "num_heads": "attention.head_count",
    "relative_attention_num_buckets": "attention.relative_buckets_count",
    "layer_norm_epsilon": "attention.layer_norm_rms_epsilon",
    "rope_theta": "",
}


def _parts(gated: bool, alone: bool) -> dict[str, str]:
    """llama.cpp's names of all parts -> the checkpoint's."""
    names = {"token_embd": "shared"} | ({} if alone else {"output": "lm_head"})
    for short, base, mlp in (("enc", "encoder", 1), ("dec", "decoder", 2))[: 2 - alone]:
        layer, theirs = f"{base}.block.{{}}.layer", f"{short}.blk.{{}}"
        names[f"{short}.output_norm"] = f"{base}.final_layer_norm"
        for kind, path in (("attn", "0.SelfAttention"), ("cross_attn", "1.EncDecAttention"))[:mlp]:
            names[f"{theirs}.{kind}_norm"] = f"{layer}.{path[0]}.layer_norm"
            names[f"{theirs}.{kind}_rel_b"] = f"{layer}.{path}.relative_attention_bias"
            names |= {f"{theirs}.{kind}_{end}": f"{layer}.{path}.{end}" for end in "qkvo"}
        inside = f"{layer}.{mlp}.DenseReluDense"
        names[f"{theirs}.ffn_norm"] = f"{layer}.{mlp}.layer_norm"
        names[f"{theirs}.ffn_up"] = f"{inside}.wi_1" if gated else f"{inside}.wi"
        names[f"{theirs}.ffn_down"] = f"{inside}.wo"
        if gated:
            names[f"{theirs}.ffn_gate"] = f"{inside}.wi_0"
    return names


def t5_architecture(gated: bool, alone: bool) -> Architecture:
    """That of models whose MLPs are gated, and of encoders alone."""

    def adjust(config: dict[str, Any]) -> None:
        config["feed_forward_proj"] = "gated-gelu" if gated else "relu"
        if config.pop("tables"):  # of every layer
            kind = "UMT5EncoderModel" if alone else "UMT5ForConditionalGeneration"
            config |= {"model_type": "umt5", "architectures": [kind]}

    def metadata(model: Any) -> Mapping[str, Any]:
        told = {"context_length": _CONTEXT}
        return told if alone else {**told, "decoder_block_count": model.spec.decoder.layers}

    def fits(model: Any) -> bool:
        return model.spec.encoder.mlp.gated is gated and isinstance(model, Seq2Seq) is not alone

    return Architecture(
        "t5",
        "T5EncoderModel" if alone else "T5ForConditionalGeneration",
        keys={k: "" if alone and k == "num_decoder_layers" else v for k, v in KEYS.items()},
        adjust=adjust,
        decoder=DecoderNames(base="", embedding="shared", layers="block"),
        parts=_parts(gated, alone),
        metadata=metadata,
        folded=("tied", *(("decoder.layers",) if alone else ())),
        rows={"tables": "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"},
        complete=True,
        fits=fits,
    )


def once(model: Model, weights: list[Weight]) -> list[Weight]:
    """The weights of a text to text model without those that it has twice.

    A head with values of its own is the model's then. LoadError for another such weight.
    """
    if not isinstance(model, Seq2Seq | TextEncoder):
        return weights
    by_name = {weight.name: weight for weight in weights}
    known = {name for name, _ in model.named_parameters()}
    for name, same in model.duplicates.items():
        if name not in by_name or name in known:
            continue
        if same and same in by_name:
            one, other = (floats(by_name[n].read()).numpy() for n in (name, same))
            if not np.array_equal(one, other):
                if not isinstance(model, Seq2Seq) or name != f"{model.spec.head}.weight":
                    raise LoadError(f"{name} differs from {same}, which GGUF cannot say")
                model.untie(name)
                continue
            del by_name[name]
        elif same:  # under another name
            by_name[same] = Weight(same, *_rest(by_name.pop(name)))
        else:
            del by_name[name]
    return list(by_name.values())


def _rest(weight: Weight) -> tuple[Any, ...]:
    return weight.dtype, weight.shape, weight.read


def start_of(kind: str, model: Model, config: Mapping[str, Any]) -> dict[str, Any]:
    """The first token of an answer, of a text to text model."""
    start = config.get(START, config.get("pad_token_id", 0))
    if not isinstance(model, Seq2Seq) or type(start) is not int:
        return {}
    return {f"{kind}.{START}": np.uint32(start)}
