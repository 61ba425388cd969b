"""Longformer (Beltagy et al., 2020): RoBERTa whose layers see windows, and a few tokens all.

The tokens that see all are the first of a text that is classified, a question's of two texts, and
else those of `global_attention_mask`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rushlight.core import ops
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import checked
from rushlight.models.families.encoder import roberta
from rushlight.models.families.family import Family
from rushlight.models.layers.blocks.wide_window import WideWindowLayer
from rushlight.models.layers.encoder import BlockOf, Encoder, EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import ROBERTA, head_of

ARCHITECTURES = ("LongformerModel",)
BASE_PREFIX = "longformer."
HEADS = ROBERTA


@dataclass
class Config(roberta.Config):
    """The keys of config.json; attention_window: of each layer, both sides of a token together."""

    neutral = {**roberta.Config.neutral, "onnx_export": ()}

    attention_window: Any = 512
    model_type: str = "longformer"


def none(ids: Tensor) -> Tensor | None:
    """No token sees all."""
    return None


def first(ids: Tensor) -> Tensor | None:
    """The first token sees all."""
    at = ops.arange(ids.shape[1], device=ids.device).unsqueeze(0)
    return (at == 0).expand(*ids.shape)


def question(ids: Tensor, end: int) -> Tensor | None:
    """The tokens before the first one with the id `end` see all."""
    return (ids == end).to(ids.dtype).cumsum(1) == 0


def describe(c: Config, pooler: bool, widen: Callable[[Tensor], Tensor | None]) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    given, layers = c.attention_window, c.num_hidden_layers
    windows = given if isinstance(given, list) else [given] * layers
    if len(windows) != layers or any(type(w) is not int or w < 2 or w % 2 for w in windows):
        raise FormatError(
            f"config.json: attention_window is {brief(given)}; it must be an even number from 2, "
            f"or one for each of {layers} layers"
        )
    return replace(
        roberta.describe(c, pooler),
        windows=tuple(window // 2 + 1 for window in windows),
        layer=BlockOf(WideWindowLayer),
        widen=widen,
    )


def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    separator = checked("config.json: sep_token_id", "", "int", config.get("sep_token_id", 2))
    choices: dict[str, Callable[[Tensor], Tensor | None]] = {
        "ForSequenceClassification": first,
        "ForQuestionAnswering": partial(question, end=separator),
    }
    told = partial(describe, widen=choices.get(head_of(config, ARCHITECTURES), none))
    return encoder_builder(Config, told, ARCHITECTURES, BASE_PREFIX, HEADS)(config, names)


FAMILY = Family(
    model_types=("longformer",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
