"""ESM-1b and ESM-2 (Rives et al., 2019; Lin et al., 2022): RoBERTa of proteins, norms before."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.inputs import MaskedEmbeddings
from rushlight.models.layers.encoder import BlockOf, Encoder, EncoderNames, EncoderSpec
from rushlight.models.layers.encoding import BertConfig, encoder_builder
from rushlight.models.layers.heads import ROBERTA
from rushlight.models.layers.naming import put
from rushlight.models.layers.norms import NormSpec
from rushlight.models.layers.positions.rotary import RotarySpec

ARCHITECTURES = ("EsmModel",)
BASE_PREFIX = "esm."
HEADS = ROBERTA
CONTACTS = "contact_head.regression"
FREQUENCIES = "rotary_embeddings.inv_freq"
# Older files have them in each layer; the reference writes "*" for its number.
IN_LAYERS = re.compile(rf"encoder\.layer\.[\d*]+\.attention\.self\.({re.escape(FREQUENCIES)})$")
NAMES = EncoderNames(
    attention_norm="attention.LayerNorm", mlp_norm="LayerNorm", norm="encoder.emb_layer_norm_after"
)
TURNED = EncoderNames(
    frequencies=FREQUENCIES,
    attention_norm=NAMES.attention_norm,
    mlp_norm=NAMES.mlp_norm,
    norm=NAMES.norm,
)


@dataclass
class Config(BertConfig):
    """The keys of config.json. Checkpoints that store their frequencies do not use rope_theta."""

    neutral = {**BertConfig.neutral, "vocab_list": (), "esmfold_config": ()}

    max_position_embeddings: int = 1026
    pad_token_id: int | None = None
    mask_token_id: int | None = None
    emb_layer_norm_before: bool | None = None
    token_dropout: bool | None = False
    position_embedding_type: str | None = "absolute"  # type: ignore[assignment]
    is_folding_model: bool | None = False
    rope_theta: float = 10000.0
    model_type: str = "esm"


def describe(c: Config, pooler: bool, stored: bool = True) -> EncoderSpec:
    """The description of the encoder that a configuration asks for.

    stored: whether the checkpoint has the frequencies of rotary positions.
    """
    kind = c.position_embedding_type
    choose("position_embedding_type", kind, ("absolute", "rotary", None))
    choose("is_folding_model", c.is_folding_model, (False, None))
    absolute = kind == "absolute"
    if c.pad_token_id is None:
        raise FormatError("config.json: pad_token_id is null; positions need it")
    first = c.pad_token_id + 1
    mask = (-1 if c.mask_token_id is None else c.mask_token_id) if c.token_dropout else None
    head = c.hidden_size // max(c.num_attention_heads, 1)
    turns = (RotarySpec(head, c.rope_theta),) * c.num_hidden_layers if not stored else ()
    normed = bool(c.emb_layer_norm_before)
    return EncoderSpec(
        c.vocab_size,
        c.hidden_size,
        max(c.max_position_embeddings - first, 1),
        c.num_hidden_layers,
        c.num_attention_heads,
        c.intermediate_size,
        norm=NormSpec("layer", c.layer_norm_eps),
        place="before",
        types=0,
        pooler=pooler,
        absolute=absolute,
        first=first,
        pad=c.pad_token_id,
        names=TURNED if kind == "rotary" and stored else NAMES,
        rotary=turns if kind == "rotary" else (),
        dropout=c.hidden_dropout_prob,
        input=BlockOf(MaskedEmbeddings, mask, normed),
    )


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device.

    It keeps what predicts contacts out of attention, which it does not use.
    """
    stored = not names or any(n.endswith(FREQUENCIES) for n in names)
    told = partial(describe, stored=stored)
    model = encoder_builder(Config, told, ARCHITECTURES, BASE_PREFIX, HEADS)(config, names)
    if not names or any(n.removeprefix(BASE_PREFIX).startswith(CONTACTS) for n in names):
        put(model, CONTACTS, nn.Linear(model.spec.layers * model.spec.heads, 1))
    return model


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A checkpoint's tensors with the frequencies that older files have in each layer."""
    renamed: dict[str, Tensor] = {}
    for name, t in sorted(tensors.items()):
        renamed.setdefault(IN_LAYERS.sub(r"\1", name), t)
    return renamed


FAMILY = Family(
    model_types=("esm",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
    rename_tensors=rename_tensors,
)
