"""TrOCR (Li et al., 2021), Donut (Kim et al., 2022), Nougat (Blecher et al., 2023) and their kin.

An encoder of pictures, and a decoder that attends to its hidden states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families import family_of
from rushlight.models.families.family import Family
from rushlight.models.families.text import gpt2
from rushlight.models.layers.attention import AttentionNames, AttentionSpec
from rushlight.models.layers.mlp import ACTIVATIONS, MLPNames, MLPSpec
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.seeing.captions import PictureWriter
from rushlight.models.layers.seq2seq.spec import PositionSpec, Seq2SeqSpec, StackNames, StackSpec
from rushlight.models.layers.seq2seq.two_models import HeadOfWords, decoder_of
from rushlight.models.layers.vision.attention.swin import Swin
from rushlight.models.layers.vision.model import ImageModel
from rushlight.models.layers.vision.vit import ViT
from rushlight.models.parts import Parts, Split

ARCHITECTURES = ("VisionEncoderDecoderModel",)
ENCODERS = (
    "vit", "deit", "beit", "swin", "swinv2", "donut-swin", "dinov2", "dinov2_with_registers",
)  # fmt: skip
LIKE_BERT = ("bert", "roberta", "xlm-roberta", "camembert")
# Said of decoders alone.
_ROLE = {"is_decoder": True, "add_cross_attention": True, "is_causal": True}


@dataclass
class Config:
    """The keys of config.json that the model depends on."""

    encoder: Any = field(default_factory=dict)
    decoder: Any = field(default_factory=dict)
    model_type: str = "vision-encoder-decoder"
    neutral = {
        "hidden_size": (),
        "vocab_size": (),
        "tie_word_embeddings": (),
        "cross_attention_hidden_size": (),
    }


@dataclass
class Words:
    """The keys of a decoder of TrOCR or mBART."""

    vocab_size: int = 50265
    d_model: int = 1024
    decoder_layers: int = 12
    decoder_attention_heads: int = 16
    decoder_ffn_dim: int = 4096
    max_position_embeddings: int = 512
    activation_function: str = "gelu"
    scale_embedding: bool = False
    use_learned_position_embeddings: bool = True
    layernorm_embedding: bool = True
    add_final_layer_norm: bool = True  # which transformers does not read
    cross_attention_hidden_size: int | None = None
    pad_token_id: int | None = 1
    tie_word_embeddings: bool = True
    model_type: str = "trocr"
    neutral = {
        "encoder_layers": (),
        "encoder_attention_heads": (),
        "encoder_ffn_dim": (),
        "num_hidden_layers": (),
        "is_encoder_decoder": (True, False),
    }


def _object(c: Config, name: str) -> dict[str, Any]:
    given = getattr(c, name)
    if not isinstance(given, Mapping):
        raise FormatError(f"config.json: {name} is {brief(given)}; it must be an object")
    return {key: value for key, value in given.items() if key != "architectures"}


def picture_encoder(
    told: dict[str, Any], names: Collection[str], what: str = "encoder"
) -> tuple[ImageModel, int]:
    """The encoder that a configuration describes, without a base, and how wide its tokens are.

    names: of its tensors. what: its key of config.json. FormatError for one that is not supported.
    """
    kind = told.get("model_type")
    choose(f"{what}.model_type", kind, ENCODERS)
    donut = kind == "donut-swin"
    told = told | {"model_type": "swin"} if donut else told
    family = family_of(told["model_type"], f"config.json: {what}.model_type")
    # What is built has no head: the class is that of the model alone.
    bases = {"vit": "ViT", "deit": "DeiT", "swinv2": "Swinv2", "dinov2": "Dinov2"}
    base = bases.get(told["model_type"], told["model_type"].title().replace("_", ""))
    model: Any = family.build(told | {"architectures": [f"{base}Model"]}, names)
    if isinstance(model, ViT):
        spec: Any = model.spec
        usual, model = model.processor, ViT(model.config, replace(spec, base=""), ())
        model.processor = usual
        return model, spec.layer.width
    assert isinstance(model, Swin)
    if donut:
        model = Swin(model.config, replace(model.spec, last=False, base=""), ())
    return model, model.spec.stages[-1].width


def _fairseq(told: dict[str, Any], kind: str) -> tuple[Seq2SeqSpec, HeadOfWords]:
    c = read_config(Words, told)
    choose("decoder.activation_function", c.activation_function, tuple(ACTIVATIONS))
    if c.decoder_attention_heads < 1 or c.d_model % c.decoder_attention_heads:
        raise FormatError(
            f"config.json: decoder.d_model {c.d_model} is not a multiple of "
            f"decoder_attention_heads {c.decoder_attention_heads}"
        )
    base, bart = "decoder.model.decoder", kind == "mbart"
    names = StackNames(
        base,
        f"{base}.embed_tokens",
        embedding_norm="layernorm_embedding" if bart or c.layernorm_embedding else None,
        norm="layer_norm" if bart else None,
    )
    heads = c.decoder_attention_heads
    attention = AttentionSpec(
        heads, heads, c.d_model // heads, True, True, names=AttentionNames(out="out_proj")
    )
    mlp = MLPSpec(
        c.decoder_ffn_dim, c.activation_function, False, True,
        names=MLPNames(up="fc1", down="fc2"),
    )  # fmt: skip
    memory = None if bart else c.cross_attention_hidden_size
    stack = StackSpec(c.decoder_layers, attention, mlp, names, memory=memory)
    positions = PositionSpec("learned", 2)
    if not bart and not c.use_learned_position_embeddings:
        pad = c.pad_token_id or 0
        positions = PositionSpec("even", pad + 1, pad)
    spec = Seq2SeqSpec(
        c.vocab_size, c.d_model, c.max_position_embeddings, replace(stack, types=0), stack,
        NormSpec("layer", 1e-5), "before" if bart else "after", positions,
        embedding_scale=math.sqrt(c.d_model) if c.scale_embedding else 1.0,
    )  # fmt: skip
    head = "decoder.lm_head" if bart else "decoder.output_projection"
    return spec, HeadOfWords(None, head, c.tie_word_embeddings)


def _gpt2(told: dict[str, Any]) -> tuple[Seq2SeqSpec, HeadOfWords]:
    c = read_config(gpt2.Config, told)
    choose("decoder.scale_attn_weights", c.scale_attn_weights, (True,))
    choose("decoder.scale_attn_by_inverse_layer_idx", c.scale_attn_by_inverse_layer_idx, (False,))
    base = "decoder.transformer"
    names = StackNames(
        base, f"{base}.wte", "wpe", None, "h", "attn", "ln_1", "crossattention", "ln_cross_attn",
        "ln_2", "ln_f",
    )  # fmt: skip
    attention = AttentionSpec(
        c.n_head, c.n_head, c.n_embd // max(c.n_head, 1), True, True,
        names=AttentionNames("q_attn", "k_attn", "v_attn", "c_proj"),
    )  # fmt: skip
    mlp = MLPSpec(
        c.n_inner or 4 * c.n_embd, c.activation_function, False, True,
        names=MLPNames(up="mlp.c_fc", down="mlp.c_proj"),
    )  # fmt: skip
    stack = StackSpec(c.n_layer, attention, mlp, names)
    spec = Seq2SeqSpec(
        c.vocab_size, c.n_embd, c.n_positions, replace(stack, types=0), stack,
        NormSpec("layer", c.layer_norm_epsilon), "before", PositionSpec("learned"),
    )  # fmt: skip
    return spec, HeadOfWords(None, "decoder.lm_head", bool(c.tie_word_embeddings))


def _decoder(c: Config, names: Collection[str]) -> tuple[Seq2SeqSpec, HeadOfWords]:
    told = _object(c, "decoder")
    kind = told.get("model_type")
    choose("decoder.model_type", kind, (*LIKE_BERT, "gpt2", "mbart", "trocr"))
    for key, value in _ROLE.items():
        # Older files leave what follows from the role to the class.
        choose(f"decoder.{key}", told.pop(key, value), (value,))
    if kind in ("trocr", "mbart"):
        return _fairseq(told, kind)
    if told.pop("cross_attention_hidden_size", None) is not None:
        raise FormatError("config.json: decoder.cross_attention_hidden_size is of TrOCR alone")
    if kind == "gpt2":
        return _gpt2(told)
    family: Any = family_of(kind, "config.json: decoder.model_type")
    like: Any = family.build(told, [])
    base = f"decoder.{family.base_prefix.removesuffix('.')}"
    beside = any(name == f"decoder.{family.heads.bias}" for name in names)
    head = HeadOfWords(family.heads, tied=like.config.tie_word_embeddings, beside=beside)
    return decoder_of(like.spec, base), head


def build(config: dict[str, Any], names: Collection[str]) -> PictureWriter:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config, ARCHITECTURES)
    told = _object(c, "encoder")
    within = [n.removeprefix("encoder.") for n in names if n.startswith("encoder.")]
    encoder, width = picture_encoder(told, within)
    spec, head = _decoder(c, names)
    model = PictureWriter(c, encoder, spec, head, width)
    model.processor = encoder.processor
    model.prompts_whole = told.get("model_type") == "donut-swin"
    return model


def _turned(t: Tensor) -> Tensor:
    return t.transpose(0, 1).contiguous() if t.ndim == 2 else t


def _columns(i: int, count: int) -> Callable[[Tensor], Tensor]:
    """Part i of `count` of the columns, as rows."""

    def part(t: Tensor) -> Tensor:
        size = t.shape[-1] // count
        return _turned(t[..., i * size : (i + 1) * size]).contiguous()

    return part


def _joined(*parts: Tensor) -> Tensor:
    return cat([_turned(part) for part in parts], parts[0].ndim - 1)


def _gpt2_parts() -> Parts:
    """Of GPT-2, whose matrices are stored transposed, and some of them as one."""
    parts: dict[str, Split] = {}
    for what in ("weight", "bias"):
        for whole, inside in ((".attn", "qkv"), (".crossattention", "kv")):
            parts[f"{whole}.c_attn.{what}"] = Split(
                {
                    f"{whole}.{x}_attn.{what}": _columns(i, len(inside))
                    for i, x in enumerate(inside)
                },
                _joined,
            )
    for end in (".crossattention.q_attn", ".c_proj", ".c_fc"):
        parts[f"{end}.weight"] = Split({f"{end}.weight": _turned}, _turned)
    return parts


FAMILY = Family(
    model_types=("vision-encoder-decoder",),
    tasks=("image-to-text", "document-question-answering"),
    architectures=ARCHITECTURES,
    config=Config,
    build=build,
    parts=_gpt2_parts(),
    unused=lambda name, _: name.endswith(".relative_position_index"),
)
