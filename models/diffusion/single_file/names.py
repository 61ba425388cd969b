"""Names of the authors' single files of Stable Diffusion, by those of diffusers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_TIMES = {"linear_1": "0", "linear_2": "2"}
_RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
_ATTENTION = {
    "group_norm": "norm",
    "to_q": "q",
    "to_k": "k",
    "to_v": "v",
    "to_out.0": "proj_out",
}


def unet_names(names: Iterable[str], config: Mapping[str, Any]) -> dict[str, str]:
    """The authors' name, below `model.diffusion_model.`, of each parameter of a UNet.

    config: of the UNet, whose blocks it numbers.
    """
    layers = config["layers_per_block"]
    count = len(config["block_out_channels"])
    seeing = ["CrossAttn" in kind for kind in config["up_block_types"]]
    return {name: _unet_name(name, layers, count, seeing) for name in names}


def _unet_name(name: str, layers: int, count: int, seeing: list[bool]) -> str:
    for ours, theirs in (
        ("conv_in.", "input_blocks.0.0."),
        ("conv_norm_out.", "out.0."),
        ("conv_out.", "out.2."),
    ):
        if name.startswith(ours):
            return theirs + name[len(ours) :]
    if match := re.match(r"(time|add)_embedding\.(linear_\d)\.", name):
        base = "time_embed." if match[1] == "time" else "label_emb.0."
        return base + _TIMES[match[2]] + "." + name[match.end() :]
    if match := re.match(r"(down|up)_blocks\.(\d+)\.(\w+)\.(\d+)\.", name):
        side, block, kind, number = match[1], int(match[2]), match[3], int(match[4])
        rest = name[match.end() :]
        if kind == "downsamplers":
            return f"input_blocks.{(block + 1) * (layers + 1)}.0.op.{rest.partition('.')[2]}"
        if kind == "upsamplers":
            place = 2 if seeing[block] else 1
            return f"output_blocks.{block * (layers + 1) + layers}.{place}.{rest}"
        first = 1 if side == "down" else 0
        place = first + block * (layers + 1) + number
        base = f"{'input' if side == 'down' else 'output'}_blocks.{place}"
        return f"{base}.1.{rest}" if kind == "attentions" else f"{base}.0.{_resnet(rest)}"
    if match := re.match(r"mid_block\.(resnets|attentions)\.(\d)\.", name):
        rest = name[match.end() :]
        if match[1] == "attentions":
            return f"middle_block.1.{rest}"
        return f"middle_block.{2 * int(match[2])}.{_resnet(rest)}"
    return name


def _resnet(rest: str) -> str:
    part, _, kind = rest.rpartition(".")
    return f"{_RESNET.get(part, part)}.{kind}"


def vae_names(names: Iterable[str], config: Mapping[str, Any]) -> dict[str, str]:
    """The authors' name, below `first_stage_model.`, of each parameter of an AutoencoderKL."""
    last = len(config["block_out_channels"]) - 1
    return {name: _vae_name(name, last) for name in names}


def _vae_name(name: str, last: int) -> str:
    side, _, rest = name.partition(".")
    if side not in ("encoder", "decoder"):
        return name
    if match := re.match(
        r"(down|up)_blocks\.(\d+)\.(resnets|downsamplers|upsamplers)\.(\d+)\.", rest
    ):
        level = int(match[2]) if match[1] == "down" else last - int(match[2])
        tail = rest[match.end() :]
        base = f"{side}.{match[1]}.{level}."
        if match[3] == "resnets":
            return f"{base}block.{match[4]}.{tail.replace('conv_shortcut', 'nin_shortcut')}"
        return f"{base}{match[3].removesuffix('rs').removesuffix('e')}e.{tail}"
    if match := re.match(r"mid_block\.resnets\.(\d)\.", rest):
        return f"{side}.mid.block_{int(match[1]) + 1}.{rest[match.end() :]}"
    if match := re.match(r"mid_block\.attentions\.0\.(.+)\.(\w+)$", rest):
        return f"{side}.mid.attn_1.{_ATTENTION[match[1]]}.{match[2]}"
    return f"{side}.{rest.replace('conv_norm_out', 'norm_out')}"
