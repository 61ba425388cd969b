"""UltraBERT (DMIS Lab, 2026): EuroBERT's layers with windows in two of three, as in ModernBERT."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import checked, choose
from rushlight.models.families.encoder import eurobert
from rushlight.models.families.family import Family
from rushlight.models.layers.building import FULL, SLIDING, kinds_of
from rushlight.models.layers.encoder import Encoder, EncoderSpec
from rushlight.models.layers.encoding import encoder_builder
from rushlight.models.layers.heads import HeadNames, head_of
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.positions.rotary import rotary_of_kind

ARCHITECTURES = ("UltrabertModel",)
BASE_PREFIX = "ultrabert."
HEADS = HeadNames(
    "head.linear1", "head.linear2", "cls", "cls.bias", "gelu_pytorch_tanh",
    biases=(False, False), ends="",
)  # fmt: skip
SIZE = "prediction_head_size"


@dataclass
class Config(eurobert.Config):
    """The keys of config.json; sliding_window: how far a token sees on each side."""

    neutral = {**eurobert.Config.neutral, SIZE: (), "attention_windows": ()}  # `build` reads them

    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 32768
    sliding_window: int = 128
    layer_types: list[Any] | None = None
    classifier_pooling: str = "cls"
    model_type: str = "ultrabert"


class Activated(nn.Linear):
    """A projection, and the activation of the head."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return ACTIVATIONS[HEADS.act](super().forward(x))


def describe(c: Config, pooler: bool) -> EncoderSpec:
    """The description of the encoder that a configuration asks for."""
    spec = eurobert.describe(replace(c, rope_parameters=None, rope_theta=None), pooler)
    local = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: (i + 1) % 3 != 0)
    wide, near = (
        rotary_of_kind(asdict(c), spec.head_dim, kind, theta)
        for kind, theta in ((FULL, 2_560_000.0), (SLIDING, 10_000.0))
    )
    return replace(
        spec,
        rotary=tuple(near if kind else wide for kind in local),
        windows=tuple(c.sliding_window + 1 if kind else None for kind in local),
    )


def newer(config: dict[str, Any]) -> dict[str, Any]:
    """config.json with the keys of today for a window and a theta of each layer."""
    config = dict(config)
    windows = config.pop("attention_windows", None)
    if isinstance(windows, list):
        config["sliding_window"] = next(
            (w for w in windows if w), config.get("sliding_window", 128)
        )
        if config.get("layer_types") is None:
            config["layer_types"] = [SLIDING if window else FULL for window in windows]
    thetas = config.get("rope_theta")
    if isinstance(thetas, list):
        del config["rope_theta"]
        if config.get("rope_parameters") is None:
            kinds = config.get("layer_types") or [
                SLIDING if (i + 1) % 3 else FULL for i in range(len(thetas))
            ]
            config["rope_parameters"] = {
                kind: {"rope_type": "default", "rope_theta": theta}
                for kind, theta in zip(kinds, thetas, strict=False)
            }
    return config


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> Encoder:
    """The model of a checkpoint with these tensor names, on the meta device."""
    config = {"tie_word_embeddings": False} | newer(config)
    pooled = config.get("classifier_pooling", "cls")
    choose("classifier_pooling", pooled, ("cls", "mean"))
    size = checked(f"config.json: {SIZE}", SIZE, "int", config.get(SIZE, 768))
    heads = replace(HEADS, mean=pooled == "mean")
    model = encoder_builder(Config, describe, ARCHITECTURES, BASE_PREFIX, heads)(config, names)
    if head_of(config, ARCHITECTURES) == "ForMaskedLM":
        put(model, HEADS.dense, nn.Linear(model.width, size, bias=False))
        put(model, HEADS.norm, Activated(size, model.width, bias=False))
    return model


FAMILY = Family(
    model_types=("ultrabert",),
    tasks=("feature-extraction",),
    architectures=ARCHITECTURES,
    base_prefix=BASE_PREFIX,
    config=Config,
    build=build,
    heads=HEADS,
)
