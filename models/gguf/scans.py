"""How GGUF files hold models of state spaces: names, keys and changes that families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core.ops import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.gguf.architecture import OFFSET, Architecture, Regroup, Transform, listed
from rushlight.models.layers.blocks.gated_delta import GatedDeltaSpec
from rushlight.models.layers.building import FULL, LINEAR
from rushlight.models.layers.decoder import DecoderNames

# A convolution of each channel is (channels, 1, k) and decays are logarithms in a checkpoint. Of
# Mamba2, GGUF has what is one number for a head as rows, and the norm's weight by groups.
CHANNELS = Transform(lambda t, config: t.unsqueeze(1), lambda t, config: t.squeeze(1))
DECAY = Transform(lambda t, config: (-t).log(), lambda t, config: -t.float().exp())
ROWS = Transform(lambda t, config: t.squeeze(1), lambda t, config: t.unsqueeze(1))
DECAY_ROWS = Transform(lambda t, config: (-t.squeeze(1)).log(),
                       lambda t, config: -t.float().exp().unsqueeze(1))  # fmt: skip
GROUPED = Transform(lambda t, config: t.reshape(-1),
                    lambda t, config: t.reshape(config["n_groups"], -1))  # fmt: skip
_KEYS = {
    "layer_norm_epsilon": "attention.layer_norm_rms_epsilon", "conv_kernel": "ssm.conv_kernel",
    "inner": "ssm.inner_size", "state_size": "ssm.state_size", "rank": "ssm.time_step_rank",
}  # fmt: skip


def ssm(
    kind: str, architecture: str, names: DecoderNames, adjust: Callable[[dict[str, Any]], None]
) -> Architecture:
    """The architecture of a family of Mamba's blocks, or of Mamba2's."""
    inside = f"{names.base}.{names.layers}.{{}}.{names.attention}."
    parts = {
        "ssm_in.weight": "in_proj.weight", "ssm_conv1d": "conv1d", "ssm_a": "A_log", "ssm_d": "D",
        "ssm_out.weight": "out_proj.weight",
    }  # fmt: skip
    keys, changes = _KEYS, {"conv1d.weight": CHANNELS, "A_log": DECAY}
    if kind == "mamba":
        parts |= {"ssm_x.weight": "x_proj.weight", "ssm_dt": "dt_proj"}
    else:
        parts |= {"ssm_dt.bias": "dt_bias", "ssm_norm": "norm"}
        keys = keys | {"rank": "", "head_dim": "", "num_heads": "ssm.time_step_rank",
                       "n_groups": "ssm.group_count"}  # fmt: skip
        changes |= {"A_log": DECAY_ROWS, "D": ROWS, f"{names.attention}.norm": GROUPED}
    return Architecture(
        kind, architecture, keys=keys, transforms=changes, adjust=adjust, decoder=names,
        parts={f"blk.{{}}.{theirs}": inside + ours for theirs, ours in parts.items()},
    )  # fmt: skip


def qwen3_next(keys: Mapping[str, str]) -> Architecture:
    """Qwen3-Next's: gated delta layers among those of attention, whose `keys` these are."""

    def adjust(c: dict[str, Any]) -> None:
        count, every = c["num_hidden_layers"], max(c.get("full_attention_interval", 4), 1)
        linear = listed("qwen3next.attention.recurrent_layers", c.get("layer_types"), bool,
                        [(i + 1) % every != 0 for i in range(count)])  # fmt: skip
        c["layer_types"] = [LINEAR if one else FULL for one in linear]
        c["linear_value_head_dim"] = c["linear_key_head_dim"]
        # Older files have one matrix, as the checkpoint.
        c["split"] = not any("in_proj_qkvz" in name for name in c["inside"])

    def tell(model: Any) -> dict[str, Any]:
        linear = [isinstance(layer.attention, GatedDeltaSpec) for layer in model.spec.layers]
        c = model.config
        return {"attention.recurrent_layers": np.array(linear),
                "ssm.inner_size": c.linear_num_value_heads * c.linear_value_head_dim}  # fmt: skip

    def apart(c: Mapping[str, Any], t: Tensor) -> Sequence[Tensor]:
        heads, keys = c["linear_num_key_heads"], c["linear_key_head_dim"]
        values = c["linear_num_value_heads"] // heads * c["linear_value_head_dim"]
        parts = t.reshape(heads, -1, t.shape[-1]).split([keys, keys, values, values], 1)
        q, k, v, z = (part.reshape(-1, t.shape[-1]) for part in parts)
        return [cat([q, k, v]), z]

    inside = "model.layers.{}.linear_attn."
    names = {
        "ssm_in": "in_proj_qkvz", "attn_qkv": "in_proj_qkv", "attn_gate": "in_proj_z",
        "ssm_ba": "in_proj_ba", "ssm_conv1d": "conv1d", "ssm_a": "A_log", "ssm_dt.bias": "dt_bias",
        "ssm_norm": "norm", "ssm_out": "out_proj",
    }  # fmt: skip
    after = "post_attention_layernorm"
    return Architecture(
        "qwen3_next", "Qwen3NextForCausalLM", keys={
            **keys, "linear_conv_kernel_dim": "ssm.conv_kernel",
            "linear_key_head_dim": "ssm.state_size", "linear_num_key_heads": "ssm.group_count",
            "linear_num_value_heads": "ssm.time_step_rank",
            "layer_types": "attention.recurrent_layers",
            "full_attention_interval": "full_attention_interval",
        }, fixed={"norm_topk_prob": True}, adjust=adjust, metadata=tell,
        transforms={
            "conv1d.weight": CHANNELS, "A_log": DECAY, "model.norm": OFFSET,
            **dict.fromkeys(("input_layernorm", after, "q_norm", "k_norm"), OFFSET),
        }, parts={f"blk.{{}}.{theirs}": inside + ours for theirs, ours in names.items()} | {
            "blk.{}.post_attention_norm": f"model.layers.{{}}.{after}",
        }, regroups=(Regroup(
            ("in_proj_qkvz.weight",), ("in_proj_qkv.weight", "in_proj_z.weight"), None, apart,
        ),),
    )  # fmt: skip
