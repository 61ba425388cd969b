"""OLMo 2 and 3 (OLMo Team, 2025): LLaMA with norms after each part, and of all q and all k."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core.basis.errors import LoadError
from rushlight.models.families.family import Family
from rushlight.models.families.text import llama
from rushlight.models.gguf.architecture import Architecture, listed
from rushlight.models.layers.attention import AttentionSpec
from rushlight.models.layers.building import (
    FULL,
    SLIDING,
    decoder_builder,
    each_attention,
    kinds_of,
)
from rushlight.models.layers.decoder import DecoderNames, DecoderSpec
from rushlight.models.layers.positions.rotary import rotary_of_kind

ARCHITECTURES = ("Olmo2ForCausalLM", "Olmo3ForCausalLM")
NAMES = DecoderNames(
    before_attention=None,
    after_attention="post_attention_layernorm",
    before_mlp=None,
    after_mlp="post_feedforward_layernorm",
)


@dataclass
class Config(llama.Config):
    """The keys of config.json that the model depends on."""

    rms_norm_eps: float = 1e-5
    sliding_window: int | None = 4096  # OLMo 3
    layer_types: Any = None
    model_type: str = "olmo2"


def describe(c: Config) -> DecoderSpec:
    """The description of the decoder that a configuration asks for."""
    plain = llama.describe(c)
    third = c.model_type == "olmo3"
    within = kinds_of(c.layer_types, c.num_hidden_layers, lambda i: third and (i + 1) % 4 != 0)

    def changed(layer: int, a: AttentionSpec) -> AttentionSpec:
        kind = SLIDING if within[layer] else FULL
        rotary = rotary_of_kind(vars(c), a.head_dim, kind, c.rope_theta, kind == FULL)
        return replace(
            a,
            norm=plain.norm,
            norm_over="all",
            rotary=rotary if third else a.rotary,
            window=c.sliding_window if within[layer] else None,
        )

    return replace(each_attention(plain, changed), names=NAMES)


def gguf() -> Architecture:
    """OLMo 3 has windows; there positions are not scaled."""

    def adjust(c: dict[str, Any]) -> None:
        within = listed(
            "olmo2.attention.sliding_window_pattern",
            c.get("pattern"),
            bool,
            [(i + 1) % 4 != 0 for i in range(c["num_hidden_layers"])],
        )
        if c.get("window"):
            kinds = [SLIDING if is_sliding else FULL for is_sliding in within]
            c.update(model_type="olmo3", sliding_window=c["window"], layer_types=kinds)

    def tell(model: Any) -> dict[str, Any]:
        each = [layer.attention for layer in model.spec.layers]
        near = [a for a in each if a.window is not None]
        if any(
            json.loads(a.rotary.scaling or "{}").get("rope_type", "default") != "default"
            for a in near
        ):
            raise LoadError("scaled positions of layers with windows cannot be written as GGUF")
        return (
            {
                "attention.sliding_window": near[0].window,
                "attention.sliding_window_pattern": np.array([a.window is not None for a in each]),
            }
            if near
            else {}
        )

    return Architecture(
        "olmo2",
        "Olmo2ForCausalLM",
        keys={
            "rms_norm_eps": "attention.layer_norm_rms_epsilon",
            "window": "attention.sliding_window",
            "pattern": "attention.sliding_window_pattern",
        },
        adjust=adjust,
        decoder=NAMES,
        metadata=tell,
    )


FAMILY = Family(
    model_types=("olmo2", "olmo3"),
    tasks=("text-generation", "chat"),
    architectures=ARCHITECTURES,
    base_prefix="model.",
    config=Config,
    build=decoder_builder(Config, describe, ARCHITECTURES),
    gguf_types=("olmo2",),
    gguf=gguf(),
)
