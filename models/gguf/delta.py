"""GGUF of gated delta layers among those of attention: Qwen3-Next and Qwen3.5."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.models.gguf.architecture import OFFSET, listed
from rushlight.models.layers.blocks.gated_delta import GatedDeltaSpec
from rushlight.models.layers.building import FULL, LINEAR


def adjust_layers(c: dict[str, Any]) -> None:
    """A file says which layers are linear, or how many are not."""
    count, every = c["num_hidden_layers"], max(c.get("full_attention_interval", 4), 1)
    linear = listed(
        "attention.recurrent_layers",
        c.get("layer_types"),
        bool,
        [(i + 1) % every != 0 for i in range(count)],
    )
    c["layer_types"] = [LINEAR if is_linear else FULL for is_linear in linear]
    c["linear_value_head_dim"] = c["linear_key_head_dim"]


def tell_layers(model: Any) -> dict[str, Any]:
    """What a file says of the linear layers."""
    linear = [isinstance(layer.attention, GatedDeltaSpec) for layer in model.spec.layers]
    c = model.config
    return {
        "attention.recurrent_layers": np.array(linear),
        "ssm.inner_size": c.linear_num_value_heads * c.linear_value_head_dim,
    }


INSIDE = "model.layers.{}.linear_attn."
KEYS = {
    "linear_conv_kernel_dim": "ssm.conv_kernel",
    "linear_key_head_dim": "ssm.state_size",
    "linear_num_key_heads": "ssm.group_count",
    "linear_num_value_heads": "ssm.time_step_rank",
    "layer_types": "attention.recurrent_layers",
    "full_attention_interval": "full_attention_interval",
}
AFTER = "post_attention_layernorm"
OFFSETS = {
    "model.norm": OFFSET,
    **dict.fromkeys(("input_layernorm", AFTER, "q_norm", "k_norm"), OFFSET),
}
