"""Experts as DeepSeek's models have them, by the keys of config.json that many others share."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from rushlight.models.layers.mlp import ExpertsSpec, MLPNames, MLPSpec
from rushlight.models.layers.routing import RoutingSpec

SHARED = MLPNames(shared="shared_experts")


def experts_of(c: Any, routing: RoutingSpec) -> ExpertsSpec:
    """The experts of a configuration with DeepSeek's names, routed so, and the shared ones."""
    always = c.moe_intermediate_size * (c.n_shared_experts or 0)
    return ExpertsSpec(
        c.n_routed_experts,
        c.num_experts_per_tok,
        c.moe_intermediate_size,
        c.hidden_act,
        routing.normalized,
        MLPSpec(always, c.hidden_act) if always else None,
        names=SHARED,
        routing=replace(routing, scale=c.routed_scaling_factor),
    )


def routing_of(c: Any) -> RoutingSpec:
    """The routing of DeepSeek V3 that a configuration asks for."""
    return RoutingSpec(
        "sigmoid",
        normalized=bool(c.norm_topk_prob),
        correction="e_score_correction_bias",
        groups=c.n_group or 1,
        kept=c.topk_group or 1,
        best=2,
    )


def predicts_further(name: str, config: dict[str, Any]) -> bool:
    """Whether a tensor is of the layers past the last that predict several tokens at once."""
    number = re.match(r"model\.layers\.(\d{1,4})\.", name)
    layers, more = config.get("num_hidden_layers"), config.get("num_nextn_predict_layers")
    if number is None or not isinstance(layers, int) or not isinstance(more, int):
        return False
    return layers <= int(number[1]) < layers + more
