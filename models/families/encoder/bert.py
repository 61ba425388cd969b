"""BERT (Devlin et al., 2018): a bidirectional encoder with absolute positions, post-norm.

Jina's embeddings of version 2 (Guenther et al., 2023) say bert too: ALiBi in place of position
embeddings, gated MLPs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import LoadError
from rushlight.core.ops import cat
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.gguf.architecture import Regroup, floats
from rushlight.models.gguf.encoders import encoder_architecture
from rushlight.models.layers.encoder import Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, bert_spec, encoder_builder
from rushlight.models.layers.heads import HeadNames
from rushlight.models.layers.naming import put

ARCHITECTURES = ("BertModel", "JinaBertModel")
BASE_PREFIX = "bert."
HEADS = HeadNames()
# A vector of each token passes a projection, and no text has one of its own.
COLBERT, PROJECTION = "HF_ColBERT", "linear.weight"
# Gate and up of Jina's MLP are one matrix.
GATED = EncoderNames(gate_up="mlp.gated_layers", down="mlp.wo", mlp_norm="mlp.layernorm")


@dataclass
class Config(BertConfig):
    """The keys of config.json. emb_pooler: how Jina's own code pools; modules.json says it here."""

    own = ("position_embedding_type", "feed_forward_type", "emb_pooler")

    feed_forward_type: str = "original"
    emb_pooler: str | None = None


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    choose("position_embedding_type", c.position_embedding_type, ("absolute", "alibi"))
    choose("feed_forward_type", c.feed_forward_type, ("original", "geglu"))
    choose("emb_pooler", c.emb_pooler, (None, "mean"))  # what is used where no file says it
    alibi, gated = c.position_embedding_type == "alibi", c.feed_forward_type == "geglu"
    spec = bert_spec(replace(c, position_embedding_type="absolute"), pooler=pooler)
    spec = replace(spec, alibi=alibi, absolute=not alibi)
    if not gated:
        return spec
    # The gated layers have the activation "gelu", whatever hidden_act is.
    return replace(
        spec, gated=True, activation="gelu", biases=(True, True, False, True), names=GATED
    )


_build = encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, HEADS)


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    late = config.get("architectures") == [COLBERT]
    model = _build(config | {"architectures": ["BertModel"]} if late else config, names)
    if late:
        if PROJECTION not in names:
            raise LoadError(f'the checkpoint has no tensor "{PROJECTION}" of {COLBERT}')
        stored: Any = names
        features = getattr(stored[PROJECTION], "shape", stored[PROJECTION])[0]
        put(model, "linear", nn.Linear(model.width, features, bias=False))
        model.late, model.pooling = True, ()
    return model


# Gate and up are apart in older files.
JINA_PARTS = {"blk.{}.ffn_gate": "encoder.layer.{}.mlp.gate"}


def jina(config: dict[str, Any]) -> None:
    """What a file of jina-bert-v2 means and does not say."""
    config |= {"position_embedding_type": "alibi", "feed_forward_type": "geglu"}


KEYS = {"layer_norm_eps": "attention.layer_norm_epsilon"}
GGUF = encoder_architecture("bert", "BertModel", EncoderNames(), keys=KEYS)
JINA = encoder_architecture(
    "bert",
    "JinaBertModel",
    GATED,
    keys=KEYS,
    parts=JINA_PARTS,
    adjust=jina,
    regroups=(
        Regroup(
            (".mlp.gated_layers.weight",),
            (".mlp.gate.weight", ".mlp.gated_layers.weight"),
            lambda config, gate, up: (cat([floats(gate), floats(up)]),),
            None,
        ),
    ),
    fits=lambda model: model.spec.alibi and model.spec.gated,
)

# What ranks texts: the pooler may be of another family's head, as of XLM-RoBERTa's rerankers.
RANK = encoder_architecture(
    "bert",
    "BertForSequenceClassification",
    EncoderNames(),
    keys=KEYS,
    parts={"cls": "pooler.dense", "cls.output": "classifier"},
)
RANK = replace(RANK, rows={**RANK.rows, "num_labels": "classifier.weight"})

FAMILY = Family(
    model_types=("bert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
    gguf_types=("bert", "bert/rank", "jina-bert-v2"),
    gguf=GGUF,
    gguf_others={"bert/rank": RANK, "jina-bert-v2": JINA},
)
