"""XLM (Lample and Conneau, 2019) and FlauBERT (Le et al., 2019): BERT by other names, whose head of
masked words is one matrix. Texts have no language here, as in the reference where none is given.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.scattered import ScatteredLayer
from rushlight.models.layers.encoder import BlockOf, Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import HeadNames, head_of
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec

ARCHITECTURES = ("XLMModel", "FlaubertModel")
BASE_PREFIX = "transformer."
HEADS = HeadNames(
    "", "", "pred_layer.proj", "pred_layer.proj.bias", text="sequence_summary.summary", unused=""
)
NAMES = EncoderNames(
    words="embeddings",
    positions="position_embeddings",
    embedding_norm="layer_norm_emb",
    layers="attentions",
    q="q_lin",
    k="k_lin",
    v="v_lin",
    out="out_lin",
    attention_norm="layer_norm1",
    up="ffns.lin1",
    down="ffns.lin2",
    mlp_norm="layer_norm2",
    norm="",
)
# The reference's classes with heads, by the names that others have for these.
CLASSES = {
    "WithLMHeadModel": "ForMaskedLM",
    "ForQuestionAnswering": "",  # it searches for the ends of answers
    "ForQuestionAnsweringSimple": "ForQuestionAnswering",
}


@dataclass
class Config:
    """The keys of config.json; sinusoidal positions are stored like learned ones."""

    neutral = {
        **dict.fromkeys(
            ("sinusoidal_embeddings", "embed_init_std", "unk_index", "mask_index", "mask_token_id",
             "lang_id", "layerdrop", "start_n_top", "end_n_top", "bos_index", "eos_index",
             "pad_index"), ()
        ),
        "causal": (False,),
        "asm": (False,),
        "is_encoder": (True,),
    }  # fmt: skip

    vocab_size: int
    emb_dim: int
    n_layers: int
    n_heads: int
    max_position_embeddings: int = 512
    gelu_activation: bool = True
    pre_norm: bool = False
    n_langs: int = 1
    use_lang_emb: bool = True
    dropout: float = 0.1
    layer_norm_eps: float = 1e-12
    tie_word_embeddings: bool = True
    model_type: str = "xlm"


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    return EncoderSpec(
        c.vocab_size,
        c.emb_dim,
        c.max_position_embeddings,
        c.n_layers,
        c.n_heads,
        4 * c.emb_dim,
        "gelu" if c.gelu_activation else "relu",
        NormSpec("layer", c.layer_norm_eps),
        "before" if c.pre_norm else "after",
        types=0,
        pooler=False,
        dropout=c.dropout,
        names=NAMES,
        layer=BlockOf(ScatteredLayer),
    )


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device.

    It keeps the embeddings of languages, which it does not use.
    """
    named = config.get("architectures")
    heads = HEADS
    for end, other in CLASSES.items():
        for base in ("XLM", "Flaubert"):
            if named == [base + end] and other:
                config = config | {"architectures": [base + other]}
            elif named == [base + end]:
                heads = replace(heads, ends="")
    if head_of(config, ARCHITECTURES) == "ForSequenceClassification":
        for key, default, supported in (
            ("summary_type", "first", ("first",)),
            ("summary_use_proj", True, (True,)),
            ("summary_activation", None, (None,)),
            ("summary_proj_to_labels", True, (True,)),
        ):
            choose(key, config.get(key, default), supported)
    model = encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)
    for i, path in enumerate(model.spec.paths):
        layer: Any = model.get_submodule(path)
        layer.scatter(model, i)
    known: Any = model.config
    if known.n_langs > 1 and known.use_lang_emb:
        put(model, "lang_embeddings", nn.Embedding(known.n_langs, known.emb_dim))
    return model


FAMILY = Family(
    model_types=("xlm", "flaubert"),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
    refused=("asm_cutoffs", "asm_div_value"),
)
