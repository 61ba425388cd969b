"""TinyViT (Wu et al., 2022) as MobileSAM's encoder of images (Zhang et al., 2023)."""

from __future__ import annotations

import re
from typing import Any

from rushlight.core import nn
from rushlight.core.functional.network.attention import scaled_dot_product_attention
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.attention.windows import (
    distance_biases,
    filled,
    joined,
    parted,
)
from rushlight.models.layers.vision.conv import CONV_BN, ConvNorm
from rushlight.models.layers.vision.masks.encoder import Neck

# The stages of the model of 5 million parameters; the last one keeps the size.
WIDTHS, DEPTHS, HEADS, WINDOWS = (64, 128, 160, 320), (2, 2, 6, 2), (2, 4, 5, 10), (7, 7, 14, 7)
STRIDES = (1, 2, 2, 1)
_LAYER = re.compile(r"image_encoder\.layers\.(\d)\.(.+)")
_UNUSED = ("image_encoder.norm_head.", "image_encoder.head.")


def _conv(
    inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: str = ""
) -> ConvNorm:
    return ConvNorm(inputs, outputs, kernel, stride, groups=groups, act=act, names=CONV_BN)


class _Convolutions(nn.Module):
    """Three convolutions; with their input added, of inverted residuals."""

    def __init__(self, inputs: int, outputs: int, stride: int, wide: int, adds: bool) -> None:
        self.adds = adds
        self.conv1 = _conv(inputs, wide, act="gelu")
        self.conv2 = _conv(wide, wide, 3, stride, wide, act="gelu")
        self.conv3 = _conv(wide, outputs)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv3(self.conv2(self.conv1(x)))
        return ACTIVATIONS["gelu"](y + x) if self.adds else y


class _Attention(nn.Module):
    """Attention within a window, with a bias for each distance."""

    def __init__(self, width: int, heads: int, window: int) -> None:
        self.heads, self.window = heads, window
        self.norm = nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.attention_biases = parameter(heads, window * window)

    def forward(self, x: Tensor) -> Tensor:
        """x (windows, places, width)."""
        windows, count, width = x.shape
        qkv = self.qkv(self.norm(x)).reshape(windows, count, self.heads, 3, -1)
        q, k, v = qkv.permute(3, 0, 2, 1, 4).unbind(0)
        mask = distance_biases(self.attention_biases, self.window).unsqueeze(0)
        seen = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        projected: Tensor = self.proj(seen.transpose(1, 2).reshape(windows, count, width))
        return projected


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, window: int) -> None:
        self.window = window
        self.attn = _Attention(width, heads, window)
        put(self, "mlp.norm", nn.LayerNorm(width))
        put(self, "mlp.fc1", nn.Linear(width, 4 * width))
        put(self, "mlp.fc2", nn.Linear(4 * width, width))
        self.local_conv = _conv(width, width, 3, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        """x (batch, height, width, channels)."""
        n, (tall, wide) = self.window, x.shape[1:3]
        y = filled(x, n)
        grid = y.shape[1], y.shape[2]
        y = self.attn(parted(y, n).flatten(1, 2)).unflatten(1, (n, n))
        y = joined(y, grid)[:, :tall, :wide]
        x = self.local_conv((x + y).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        mlp: Any = self.get_submodule("mlp")
        mlp_out: Tensor = mlp.fc2(ACTIVATIONS["gelu"](mlp.fc1(mlp.norm(x))))
        return x + mlp_out


class TinyViT(nn.Module):
    """Pixels -> (batch, outputs, side / 16, side / 16), in timm's names and SAM's of the neck."""

    def __init__(self, c: Any) -> None:
        first = WIDTHS[0]
        put(self, "patch_embed.conv1", _conv(c.num_channels, first // 2, 3, 2, act="gelu"))
        put(self, "patch_embed.conv2", _conv(first // 2, first, 3, 2))
        before = first
        for i, width in enumerate(WIDTHS):
            path = f"stages.{i}"
            if i:
                merged = _Convolutions(before, width, STRIDES[i], width, False)
                put(self, f"{path}.downsample", merged)
            for j in range(DEPTHS[i]):
                block = (
                    _Block(width, HEADS[i], WINDOWS[i])
                    if i
                    else _Convolutions(width, width, 1, 4 * width, True)
                )
                put(self, f"{path}.blocks.{j}", block)
            before = width
        self.neck = Neck(before, c.output_channels)

    def forward(self, pixels: Tensor) -> Tensor:
        stem: Any = self.get_submodule("patch_embed")
        x = stem.conv2(stem.conv1(pixels))
        for i, stage in enumerate(self.get_submodule("stages").children()):
            x = stage.get_submodule("downsample")(x) if i else x
            x = x.permute(0, 2, 3, 1) if i else x
            for block in stage.get_submodule("blocks").children():
                x = block(x)
            x = x.permute(0, 3, 1, 2) if i else x
        out: Tensor = self.neck(x.permute(0, 2, 3, 1))
        return out


def adopt_tiny(name: str, t: Tensor) -> dict[str, Tensor]:
    """A tensor of MobileSAM's image_encoder under the model's name; none for what is not used."""
    if name.startswith(_UNUSED) or name.endswith("attention_bias_idxs"):
        return {}
    name = re.sub(r"\.c\.(\w+)$", r".conv.\1", name)
    name = name.replace("image_encoder.patch_embed.seq.0.", "vision_encoder.patch_embed.conv1.")
    name = name.replace("image_encoder.patch_embed.seq.2.", "vision_encoder.patch_embed.conv2.")
    if match := _LAYER.fullmatch(name):
        stage = int(match[1]) + match[2].startswith("downsample.")
        name = f"vision_encoder.stages.{stage}.{match[2]}"
    return {name: t}
