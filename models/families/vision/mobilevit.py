"""MobileViT (Mehta and Rastegari, 2021), of transformers and timm."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.ops.join import cat
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.config_schema import choose, read_config
from rushlight.models.families.family import Family
from rushlight.models.image.preprocessor_config import KINDS
from rushlight.models.layers.mlp import ACTIVATIONS
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import ConvNorm
from rushlight.models.layers.vision.mobilenet_v2 import InvertedResidual
from rushlight.models.layers.vision.model import ImageModel, classes_of
from rushlight.models.layers.vision.transformer import Layer, LayerSpec

_LAYERS = (2, 4, 3)  # of the transformers
_PLAIN = (1, 3)  # inverted residuals of the first stages
_STAGE = re.compile(r"stages\.([0-4])\.(\d)\.(.+)")
_CONV = {"conv": "convolution", "bn": "normalization"}
_RESIDUAL = {"conv1_1x1": "expand_1x1", "conv2_kxk": "conv_3x3", "conv3_1x1": "reduce_1x1"}
_BLOCK = {"conv_kxk": "conv_kxk", "conv_proj": "conv_projection", "conv_fusion": "fusion"}
_PARTS = {
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "attn.proj": "attention.output.dense",
    "mlp.fc1": "intermediate.dense",
    "mlp.fc2": "output.dense",
}


@dataclass
class Config:
    """The keys of config.json."""

    num_channels: int = 3
    image_size: Any = 256
    patch_size: int = 2
    hidden_sizes: list[int] = field(default_factory=lambda: [144, 192, 240])
    neck_hidden_sizes: list[int] = field(default_factory=lambda: [16, 32, 64, 96, 128, 160, 640])
    num_attention_heads: int = 4
    mlp_ratio: float = 2.0
    expand_ratio: float = 4.0
    hidden_act: str = "silu"
    conv_kernel_size: int = 3
    output_stride: int = 32
    classifier_dropout_prob: float = 0.1
    layer_norm_eps: float = 1e-5
    qkv_bias: bool = True
    aspp_out_channels: int = 256  # of segmentation
    atrous_rates: list[int] = field(default_factory=lambda: [6, 12, 18])
    aspp_dropout_prob: float = 0.1
    semantic_loss_ignore_index: int = 255
    model_type: str = "mobilevit"


def _residual(c: Config, inputs: int, outputs: int, stride: int, dilation: int = 1) -> nn.Module:
    told = SimpleNamespace(
        hidden_act=c.hidden_act,
        layer_norm_eps=1e-5,
        tf_padding=False,
        min_depth=8,
        expand_ratio=c.expand_ratio,
        depth_divisible_by=8,
    )
    return InvertedResidual(told, inputs, outputs, stride, dilation)


class _Block(nn.Module):
    """A transformer over the places of a picture that are alike within their patches."""

    def __init__(
        self, c: Config, inputs: int, outputs: int, width: int, layers: int, dilation: int
    ) -> None:
        stride, here = (2, 1) if dilation == 1 else (1, dilation // 2)
        self.downsampling_layer = _residual(c, inputs, outputs, stride, here)
        k, act, self.patch = c.conv_kernel_size, c.hidden_act, c.patch_size
        self.conv_kxk = ConvNorm(outputs, outputs, k, act=act)
        put(self, "conv_1x1.convolution", nn.Conv2d(outputs, width, 1, bias=False))
        spec = LayerSpec(
            width,
            c.num_attention_heads,
            int(width * c.mlp_ratio),
            act,
            c.layer_norm_eps,
            (c.qkv_bias,) * 3,
        )
        put(self, "transformer.layer", nn.ModuleList([Layer(spec) for _ in range(layers)]))
        self.layernorm = nn.LayerNorm(width, c.layer_norm_eps)
        self.conv_projection = ConvNorm(width, outputs, 1, act=act)
        self.fusion = ConvNorm(2 * outputs, outputs, k, act=act)

    def forward(self, x: Tensor) -> Tensor:
        before = x = self.downsampling_layer(x)
        x = self.get_submodule("conv_1x1.convolution")(self.conv_kxk(x))
        p, (batch, width, tall, wide) = self.patch, x.shape
        rows, columns = -(-tall // p), -(-wide // p)
        fits = (rows * p, columns * p) == (tall, wide)
        x = x if fits else interpolate(x, size=(rows * p, columns * p), mode="bilinear")
        x = x.reshape(batch, width, rows, p, columns, p).permute(0, 3, 5, 2, 4, 1)
        x = x.reshape(batch * p * p, rows * columns, width)
        for layer in self.get_submodule("transformer.layer").children():
            x = layer(x)
        x = self.layernorm(x).reshape(batch, p, p, rows, columns, width)
        x = x.permute(0, 5, 3, 1, 4, 2).reshape(batch, width, rows * p, columns * p)
        x = x if fits else interpolate(x, size=(tall, wide), mode="bilinear")
        fused: Tensor = self.fusion(cat([before, self.conv_projection(x)], 1))
        return fused


class MobileViT(ImageModel):
    """MobileViT under transformers' names."""

    def __init__(self, c: Config, labels: tuple[str, ...]) -> None:
        self.config, self.labels, self.processor = c, labels, KINDS["MobileViT"]
        neck, base = c.neck_hidden_sizes, "mobilevit."
        stem = ConvNorm(c.num_channels, neck[0], 3, 2, act=c.hidden_act)
        put(self, f"{base}conv_stem", stem)
        for i, count in enumerate(_PLAIN):
            layers, before = [], neck[i]
            for j in range(count):
                layers.append(_residual(c, before, neck[i + 1], 2 if i and j == 0 else 1))
                before = neck[i + 1]
            put(self, f"{base}encoder.layer.{i}.layer", nn.ModuleList(layers))
        dilation = 1
        for i, (width, layers_) in enumerate(zip(c.hidden_sizes, _LAYERS, strict=True), 2):
            dilation *= 2 if c.output_stride < 2 << i else 1
            block = _Block(c, neck[i], neck[i + 1], width, layers_, dilation)
            put(self, f"{base}encoder.layer.{i}", block)
        put(self, f"{base}conv_1x1_exp", ConvNorm(neck[5], neck[6], 1, act=c.hidden_act))
        if labels:
            self.classifier = nn.Linear(neck[6], len(labels))

    def hidden(self, pixels: Tensor) -> Tensor:
        net: Any = self.mobilevit
        x: Tensor = net.conv_stem(self.checked(pixels, self.config.num_channels))
        for i, stage in enumerate(net.encoder.layer.children()):
            if i < len(_PLAIN):
                for layer in stage.layer:
                    x = layer(x)
            else:
                x = stage(x)
        out: Tensor = net.conv_1x1_exp(x)
        return out


@nn.layers_on("meta")
def build(config: dict[str, Any], names: Collection[str]) -> MobileViT:
    """The model of a checkpoint with these tensor names, on the meta device."""
    c = read_config(Config, config | {"architectures": None})
    choose("hidden_act", c.hidden_act, tuple(ACTIVATIONS))
    choose("output_stride", c.output_stride, (8, 16, 32))
    if c.patch_size < 1:
        raise FormatError(f"config.json: patch_size {c.patch_size} must be at least 1")
    if len(c.hidden_sizes) != 3 or len(c.neck_hidden_sizes) != 7:
        raise FormatError(
            f"config.json: hidden_sizes {c.hidden_sizes} must be three, neck_hidden_sizes "
            f"{c.neck_hidden_sizes} seven"
        )
    return MobileViT(c, classes_of(config, "MobileViT"))


def rename_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of timm under transformers' names."""
    if "stem.conv.weight" not in tensors:
        return dict(tensors)
    by_name: dict[str, Tensor] = {}
    for name, t in tensors.items():
        new = _renamed(name)
        if ".qkv." not in new:
            by_name[new] = t
            continue
        if t.shape[0] % 3:
            raise FormatError(f"tensor {name!r} {t.shape} does not divide into q, k and v")
        for projection, piece in zip(("query", "key", "value"), t.chunk(3, 0), strict=True):
            by_name[new.replace(".qkv.", f".attention.{projection}.")] = piece.contiguous()
    return by_name


def _renamed(name: str) -> str:
    module, _, kind = name.rpartition(".")
    path, _, module_name = module.rpartition(".")
    top = {"stem": "conv_stem", "final_conv": "conv_1x1_exp"}
    if path in top:
        return f"mobilevit.{top[path]}.{_CONV.get(module_name, module_name)}.{kind}"
    if not (match := _STAGE.fullmatch(module)):
        return f"classifier.{kind}" if module == "head.fc" else name
    stage, number, rest = int(match[1]), match[2], match[3]
    base = f"mobilevit.encoder.layer.{stage}"
    first, _, last = rest.rpartition(".")
    if first in _RESIDUAL:
        where = f"layer.{number}" if stage < len(_PLAIN) else "downsampling_layer"
        return f"{base}.{where}.{_RESIDUAL[first]}.{_CONV.get(last, last)}.{kind}"
    if first in _BLOCK:
        return f"{base}.{_BLOCK[first]}.{_CONV.get(last, last)}.{kind}"
    if rest in ("conv_1x1", "norm"):
        return f"{base}.{'layernorm' if rest == 'norm' else 'conv_1x1.convolution'}.{kind}"
    layer = re.fullmatch(r"transformer\.(\d)\.(.+)", rest)
    if layer is None:
        return name
    inner = "attention.qkv" if layer[2] == "attn.qkv" else _PARTS.get(layer[2], layer[2])
    return f"{base}.transformer.layer.{layer[1]}.{inner}.{kind}"


def timm_config(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The config.json for timm's."""
    by_name = rename_tensors(tensors)
    base = "mobilevit.encoder.layer."
    try:
        stem = by_name["mobilevit.conv_stem.convolution.weight"].shape
        neck = [
            by_name[f"{base}{i}.layer.0.reduce_1x1.convolution.weight"].shape[0] for i in range(2)
        ]
        wide = by_name[f"{base}1.layer.0.expand_1x1.convolution.weight"].shape
        inner = by_name[f"{base}2.transformer.layer.0.intermediate.dense.weight"].shape
        paths = [f"{base}{i}.conv_1x1.convolution.weight" for i in (2, 3, 4)]
        widths, outputs = zip(*(by_name[path].shape[:2] for path in paths), strict=True)
        last = by_name["mobilevit.conv_1x1_exp.convolution.weight"].shape[0]
    except (KeyError, ValueError):
        raise FormatError("the checkpoint is no MobileViT of timm") from None
    classes = by_name["classifier.weight"].shape[0] if "classifier.weight" in by_name else 0
    return {
        "model_type": "mobilevit",
        "num_labels": classes,
        "num_channels": stem[1],
        "architectures": [f"MobileViT{'ForImageClassification' if classes else 'Model'}"],
        "neck_hidden_sizes": [stem[0], *neck, *outputs, last],
        "hidden_sizes": list(widths),
        "expand_ratio": wide[0] / wide[1],
        "mlp_ratio": inner[0] / inner[1],
    }


FAMILY = Family(
    model_types=("mobilevit",),
    tasks=("image-classification", "image-feature-extraction"),
    base_prefix="mobilevit.",
    config=Config,
    build=build,
    rename_tensors=rename_tensors,
    timm=("mobilevit_xxs", "mobilevit_xs", "mobilevit_s"),
    timm_config=timm_config,
)
