"""What the files of encoder families share: the keys of config.json, and `build`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.models.config_schema import choose, read_config
from rushlight.models.layers.encoder import Encoder, EncoderSpec
from rushlight.models.layers.heads import HeadedEncoder, HeadNames, head_of
from rushlight.models.layers.norms import NormSpec


@dataclass
class BertConfig:
    """The keys of config.json that BERT and its kin share."""

    neutral = {"embedding_size": (), "is_causal": ()}  # of a width that is checked, of decoders

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    position_embedding_type: str = "absolute"
    tie_word_embeddings: bool = True  # concerns a head that the base model does not have
    model_type: str = "bert"


def bert_spec(c: Any, **changes: Any) -> EncoderSpec:
    """The encoder of a `BertConfig`, with other values of the description's fields."""
    choose("position_embedding_type", c.position_embedding_type, ("absolute",))
    fields: dict[str, Any] = {
        "vocab": c.vocab_size,
        "width": c.hidden_size,
        "context": c.max_position_embeddings,
        "layers": c.num_hidden_layers,
        "heads": c.num_attention_heads,
        "inner": c.intermediate_size,
        "activation": c.hidden_act,
        "norm": NormSpec("layer", c.layer_norm_eps),
        "types": c.type_vocab_size,
        "dropout": c.hidden_dropout_prob,
    }
    return EncoderSpec(**{**fields, **changes})


def encoder_builder(
    kind: type,
    describe: Callable[[Any, bool], EncoderSpec],
    architectures: Sequence[str],
    prefix: str,
    heads: HeadNames | None = None,
) -> Callable[[dict[str, Any], Collection[str]], Encoder]:
    """`build` of a family: the encoder that describe(config, pooler) gives.

    prefix: of the base model's names in a checkpoint with a head. heads: the names of the
    heads' parts; None: the family has none here.
    """

    def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
        """The model of a checkpoint with these tensor names, on the meta device."""
        head = head_of(config, architectures) if heads is not None else ""
        head = head if heads is not None and head and heads.has(head) else ""
        if head:  # the classes' names and number are the head's
            plain_config = {n: v for n, v in config.items() if n != "architectures"}
            known: Any = read_config(kind, plain_config)
        else:
            known = read_config(kind, config, architectures)
        pooler = any(n.removeprefix(prefix).startswith("pooler.") for n in names)
        if heads is None or not head:
            return Encoder(known, describe(known, pooler or not names))
        pooler = pooler or (head == "ForSequenceClassification" and not heads.inner)
        return HeadedEncoder(known, describe(known, pooler), head, heads, prefix, config)

    return build
