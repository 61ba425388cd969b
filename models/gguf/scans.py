"""How GGUF files hold models of state spaces: names, keys and changes that families share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.models.gguf.architecture import Architecture, Transform
from rushlight.models.layers.decoder import DecoderNames

# A convolution of each channel is (channels, 1, k) and decays are logarithms in a checkpoint. Of
# Mamba2, GGUF has what is one number for a head as rows, and the norm's weight by groups.
CHANNELS = Transform(lambda t, config: t.unsqueeze(1), lambda t, config: t.squeeze(1))
DECAY = Transform(lambda t, config: (-t).log(), lambda t, config: -t.float().exp())
ROWS = Transform(lambda t, config: t.squeeze(1), lambda t, config: t.unsqueeze(1))
DECAY_ROWS = Transform(
    lambda t, config: (-t.squeeze(1)).log(), lambda t, config: -t.float().exp().unsqueeze(1)
)
GROUPED = Transform(
    lambda t, config: t.reshape(-1), lambda t, config: t.reshape(config["n_groups"], -1)
)
_KEYS = {
    "layer_norm_epsilon": "attention.layer_norm_rms_epsilon",
    "conv_kernel": "ssm.conv_kernel",
    "inner": "ssm.inner_size",
    "state_size": "ssm.state_size",
    "rank": "ssm.time_step_rank",
}


def ssm(
    kind: str, architecture: str, names: DecoderNames, adjust: Callable[[dict[str, Any]], None]
) -> Architecture:
    """The architecture of a family of Mamba's blocks, or of Mamba2's."""
    inside = f"{names.base}.{names.layers}.{{}}.{names.attention}."
    parts = {
        "ssm_in.weight": "in_proj.weight",
        "ssm_conv1d": "conv1d",
        "ssm_a": "A_log",
        "ssm_d": "D",
        "ssm_out.weight": "out_proj.weight",
    }
    keys, changes = _KEYS, {"conv1d.weight": CHANNELS, "A_log": DECAY}
    if kind == "mamba":
        parts |= {"ssm_x.weight": "x_proj.weight", "ssm_dt": "dt_proj"}
    else:
        parts |= {"ssm_dt.bias": "dt_bias", "ssm_norm": "norm"}
        keys = keys | {
            "rank": "",
            "head_dim": "",
            "num_heads": "ssm.time_step_rank",
            "n_groups": "ssm.group_count",
        }
        changes |= {"A_log": DECAY_ROWS, "D": ROWS, f"{names.attention}.norm": GROUPED}
    return Architecture(
        kind,
        architecture,
        keys=keys,
        transforms=changes,
        adjust=adjust,
        decoder=names,
        parts={f"blk.{{}}.{theirs}": inside + ours for theirs, ours in parts.items()},
    )
