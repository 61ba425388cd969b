"""FastViT's network (Vasu et al., 2023), its tensors' branches, and what these say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import read_config
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import depths_of, put
from rushlight.models.layers.vision.conv import CONV_BN, ConvNorm
from rushlight.models.layers.vision.convnext import ChannelNorm
from rushlight.models.layers.vision.convolutional.fused import FusedConv, fused, identity, normed
from rushlight.models.layers.vision.model import ImageModel, numbered_classes
from rushlight.models.layers.vision.transformer import put_parameter

_HEAD = 32  # channels of a head


@dataclass
class Config:
    """The keys of a config.json.

    stages: [width, depth, hidden, squeezed, merged, placed, attends] of each. hidden: of the MLP;
    squeezed: of the convolution before; the last three are 0 or 1. large_act: whether that has an
    activation; layer_norm: whether attention has a LayerNorm before it.
    """

    stem: int
    stages: list[Any]
    final: int
    squeezed: int
    mixer: int = 3
    large: int = 7
    large_act: bool = False
    layer_norm: bool = False
    num_channels: int = 3
    num_labels: int = 1000
    model_type: str = "fastvit"


class _Mlp(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        self.conv = ConvNorm(width, width, 7, groups=width, act="", names=CONV_BN)
        self.fc1, self.fc2 = nn.Conv2d(width, hidden, 1), nn.Conv2d(hidden, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(ACTIVATIONS["gelu"](self.fc1(self.conv(x))))
        return out


class _Block(nn.Module):
    """A mixer, which is one convolution, or attention over all places; and an MLP."""

    def __init__(self, c: Config, width: int, hidden: int, attends: bool) -> None:
        self.attends, self.mlp = attends, _Mlp(width, hidden)
        if not attends:
            put(self, "token_mixer", FusedConv(width, width, c.mixer, groups=width, act=""))
            put_parameter(self, "layer_scale.gamma", width, 1, 1)
            return
        if width % _HEAD:
            raise FormatError(f"config.json: {width} channels are no multiple of {_HEAD}")
        self.norm = ChannelNorm(width, 1e-5) if c.layer_norm else nn.BatchNorm2d(width)
        put(self, "token_mixer.qkv", nn.Linear(width, 3 * width, bias=False))
        put(self, "token_mixer.proj", nn.Linear(width, width))
        put_parameter(self, "layer_scale_1.gamma", width, 1, 1)
        put_parameter(self, "layer_scale_2.gamma", width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        layer: Any = self
        if not self.attends:
            x = layer.token_mixer(x)
            out: Tensor = x + layer.layer_scale.gamma * self.mlp(x)
            return out
        x = x + layer.layer_scale_1.gamma * self._attention(self.norm(x))
        out = x + layer.layer_scale_2.gamma * self.mlp(x)
        return out

    def _attention(self, x: Tensor) -> Tensor:
        mixer: Any = self.get_submodule("token_mixer")
        batch, width, tall, wide = x.shape
        qkv = mixer.qkv(x.flatten(2).transpose(1, 2))
        q, k, v = qkv.reshape(batch, tall * wide, 3, -1, _HEAD).permute(2, 0, 3, 1, 4).unbind(0)
        seen = scaled_dot_product_attention(q, k, v)
        projected: Tensor = mixer.proj(seen.transpose(1, 2).reshape(batch, tall * wide, width))
        return projected.transpose(1, 2).reshape(batch, width, tall, wide)


class FastViT(ImageModel):
    """FastViT under timm's names of fused layers."""

    classifier_path = "head.fc"

    @nn.layers_on("meta")
    def __init__(self, c: Config) -> None:
        self.config, self.labels = c, numbered_classes(c.num_labels, "num_labels")
        before = c.stem
        self.stem = nn.Sequential(
            FusedConv(c.num_channels, before, 3, 2, act="gelu"),
            FusedConv(before, before, 3, 2, before, act="gelu"),
            FusedConv(before, before, 1, act="gelu"),
        )
        for i, (width, depth, hidden, squeezed, merged, placed, attends) in enumerate(c.stages):
            path = f"stages.{i}"
            if merged:
                act = "gelu" if c.large_act else ""
                put(
                    self,
                    f"{path}.downsample.proj",
                    nn.Sequential(
                        FusedConv(before, width, c.large, 2, before, squeezed, act, "se"),
                        FusedConv(width, width, 1, act="gelu"),
                    ),
                )
            if placed:
                put(self, f"{path}.pos_emb", FusedConv(width, width, 7, groups=width, act=""))
            blocks = [_Block(c, width, hidden, bool(attends)) for _ in range(depth)]
            put(self, f"{path}.blocks", nn.Sequential(*blocks))
            before = width
        self.final_conv = FusedConv(before, c.final, 3, 1, before, c.squeezed, "gelu", "se")
        if self.labels:
            put(self, "head.fc", nn.Linear(c.final, c.num_labels))

    def hidden(self, pixels: Tensor) -> Tensor:
        x: Tensor = self.stem(self.checked(pixels, self.config.num_channels))
        for stage, told in zip(
            self.get_submodule("stages").children(), self.config.stages, strict=True
        ):
            modules: Any = stage
            x = modules.downsample.proj(x) if told[4] else x
            x = modules.pos_emb(x) if told[5] else x
            x = modules.blocks(x)
        final_map: Tensor = self.final_conv(x)
        return final_map


def network(config: Mapping[str, Any]) -> FastViT:
    """The network of a configuration, on the meta device."""
    c = read_config(Config, {**config, "architectures": None})
    sizes_fit = all(type(n) is int and 0 <= n <= 1 << 16 for stage in c.stages for n in stage)
    if not c.stages or not sizes_fit or any(len(stage) != 7 for stage in c.stages):
        raise FormatError(f"config.json: stages is {c.stages!r:.60}; each has seven numbers")
    return FastViT(c)


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with one convolution for the branches of each."""
    by_name = fused(tensors)
    for path in [n[: -len(".pos_enc.weight")] for n in by_name if n.endswith(".pos_enc.weight")]:
        weight = by_name.pop(f"{path}.pos_enc.weight")
        by_name[f"{path}.reparam_conv.weight"] = weight + identity(weight).to(weight.dtype)
        by_name[f"{path}.reparam_conv.bias"] = by_name.pop(f"{path}.pos_enc.bias")
    tail = ".norm.identity.weight"
    for path in [n[: -len(tail)] for n in by_name if n.endswith(f".token_mixer{tail}")]:
        try:
            weight, bias = _mixer(by_name, path)
        except (KeyError, ValueError) as error:
            raise FormatError(f"the branches of {path!r} do not fit: {error}") from None
        by_name = {n: t for n, t in by_name.items() if not n.startswith(f"{path}.")}
        by_name |= {f"{path}.reparam_conv.weight": weight, f"{path}.reparam_conv.bias": bias}
    return by_name


def _mixer(found: Mapping[str, Tensor], path: str) -> tuple[Tensor, Tensor]:
    """The kernel and bias of x + scale * (mixer(x) - norm(x))."""
    weight = found[f"{path}.mixer.reparam_conv.weight"]
    scale, offset = normed(found, f"{path}.norm.identity.")
    keep = identity(weight)
    gain = found[f"{path}.layer_scale.gamma"].float().reshape(-1, 1, 1, 1)
    kernel = keep + gain * (weight.float() - keep * scale.reshape(-1, 1, 1, 1))
    bias = gain.reshape(-1) * (found[f"{path}.mixer.reparam_conv.bias"].float() - offset)
    return kernel.to(weight.dtype), bias.to(weight.dtype)


def sizes(tensors: Mapping[str, Tensor], name: str) -> dict[str, Any]:
    """The config.json of timm's model `name` with these tensors."""
    by_name = rename_tensors(tensors)
    try:
        stem = by_name["stem.0.reparam_conv.weight"].shape
        final = by_name["final_conv.reparam_conv.weight"].shape
        gate = by_name["final_conv.se.fc1.weight"].shape
        stages, mixer, large = [], 3, 7
        for i, depth in enumerate(depths_of(by_name, "stages.", "blocks")):
            base = f"stages.{i}"
            up = by_name[f"{base}.blocks.0.mlp.fc1.weight"].shape
            down = by_name.get(f"{base}.downsample.proj.0.reparam_conv.weight")
            squeeze = by_name.get(f"{base}.downsample.proj.0.se.fc1.weight")
            mix = by_name.get(f"{base}.blocks.0.token_mixer.reparam_conv.weight")
            mixer = mixer if mix is None else mix.shape[-1]
            large = large if down is None else down.shape[-1]
            stages.append(
                [
                    up[1],
                    depth,
                    up[0],
                    0 if squeeze is None else squeeze.shape[0],
                    int(down is not None),
                    int(f"{base}.pos_emb.reparam_conv.weight" in by_name),
                    int(mix is None),
                ]
            )
    except (KeyError, IndexError):
        raise FormatError("the checkpoint is no FastViT of timm") from None
    head = by_name.get("head.fc.weight")
    norms = [n for n in by_name if n.endswith(".norm.weight") and ".blocks." in n]
    return {
        "model_type": "fastvit",
        "stem": stem[0],
        "num_channels": stem[1],
        "stages": stages,
        "final": final[0],
        "squeezed": gate[0],
        "mixer": mixer,
        "large": large,
        "large_act": "_mci" in name,
        "layer_norm": any(n.replace("weight", "running_var") not in by_name for n in norms),
        "num_labels": 0 if head is None else head.shape[0],
    }
