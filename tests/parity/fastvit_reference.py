"""FastViT-HD, the tower of FastVLM, in float64, from the papers (Vasu et al., 2023 and 2025).

A stand-in for the class of the package timm: a module with timm's names of fused weights, whose
forward follows the papers: a stem of three convolutions, stages of depthwise mixers or attention,
a patch embedding by a large kernel between stages, and a last convolution that squeezes channels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers.modeling_outputs import BaseModelOutputWithPooling

HEAD = 32  # channels of a head


class FastViTHD(nn.Module):  # type: ignore[misc]
    """dims, depths, ratios: of each stage; the last two stages attend."""

    def __init__(self, embed_dims: list[int], layers: list[int], mlp_ratios: list[int]) -> None:
        super().__init__()
        self.dims, self.depths = embed_dims, layers
        first, last = embed_dims[0], embed_dims[-1]
        self._conv("stem.0.reparam_conv", first, 3, 3)
        self._conv("stem.1.reparam_conv", first, 1, 3)
        self._conv("stem.2.reparam_conv", first, first, 1)
        for i, (width, depth, ratio) in enumerate(zip(embed_dims, layers, mlp_ratios, strict=True)):
            stage = f"stages.{i}"
            if i:
                self._conv(f"{stage}.downsample.proj.0.reparam_conv", width, 1, 7)
                self._conv(f"{stage}.downsample.proj.1.reparam_conv", width, width, 1)
            if self._attends(i):
                self._conv(f"{stage}.pos_emb.reparam_conv", width, 1, 7)
            for j in range(depth):
                self._block(f"{stage}.blocks.{j}", width, width * ratio, self._attends(i))
        self._conv("final_conv.reparam_conv", 2 * last, 1, 3)
        self._conv("final_conv.se.fc1", 2 * last // 16, 2 * last, 1)
        self._conv("final_conv.se.fc2", 2 * last, 2 * last // 16, 1)

    def _attends(self, i: int) -> bool:
        return i >= len(self.dims) - 2

    def _put(self, name: str, *shape: int, buffer: bool = False) -> None:
        home: nn.Module = self
        *path, last = f"timm_model.{name}".split(".")
        for part in path:
            if part not in home._modules:
                home.add_module(part, nn.Module())
            home = home._modules[part]
        if buffer:
            home.register_buffer(last, torch.ones(shape))
        else:
            home.register_parameter(last, nn.Parameter(torch.ones(shape)))

    def _conv(self, name: str, out: int, given: int, kernel: int, bias: bool = True) -> None:
        self._put(f"{name}.weight", out, given, kernel, kernel)
        if bias:
            self._put(f"{name}.bias", out)

    def _block(self, name: str, width: int, hidden: int, attends: bool) -> None:
        if attends:
            for part in ("norm.weight", "norm.bias", "token_mixer.proj.bias"):
                self._put(f"{name}.{part}", width)
            self._put(f"{name}.token_mixer.qkv.weight", 3 * width, width)
            self._put(f"{name}.token_mixer.proj.weight", width, width)
            self._put(f"{name}.layer_scale_1.gamma", width, 1, 1)
            self._put(f"{name}.layer_scale_2.gamma", width, 1, 1)
        else:
            self._conv(f"{name}.token_mixer.reparam_conv", width, 1, 3)
            self._put(f"{name}.layer_scale.gamma", width, 1, 1)
        self._conv(f"{name}.mlp.conv.conv", width, 1, 7, bias=False)
        for part in ("weight", "bias"):
            self._put(f"{name}.mlp.conv.bn.{part}", width)
        for part in ("running_mean", "running_var"):
            self._put(f"{name}.mlp.conv.bn.{part}", width, buffer=True)
        self._conv(f"{name}.mlp.fc1", hidden, width, 1)
        self._conv(f"{name}.mlp.fc2", width, hidden, 1)

    def forward(self, pixels: torch.Tensor, **_: Any) -> Any:
        w = {
            name.removeprefix("timm_model."): value.double()
            for name, value in [*self.named_parameters(), *self.named_buffers()]
        }

        def conv(x: torch.Tensor, name: str, stride: int = 1) -> torch.Tensor:
            weight = w[f"{name}.weight"]
            groups = x.shape[1] // weight.shape[1]
            bias = w.get(f"{name}.bias")
            return F.conv2d(x, weight, bias, stride, weight.shape[-1] // 2, groups=groups)

        def mlp(x: torch.Tensor, name: str) -> torch.Tensor:
            x = conv(x, f"{name}.conv.conv")
            bn = f"{name}.conv.bn"
            x = (x - w[f"{bn}.running_mean"].view(-1, 1, 1)) / (
                w[f"{bn}.running_var"].view(-1, 1, 1) + 1e-5
            ).sqrt()
            x = x * w[f"{bn}.weight"].view(-1, 1, 1) + w[f"{bn}.bias"].view(-1, 1, 1)
            return conv(F.gelu(conv(x, f"{name}.fc1")), f"{name}.fc2")

        def attention(x: torch.Tensor, name: str) -> torch.Tensor:
            batch, width, tall, wide = x.shape
            x = x.flatten(2).transpose(1, 2)
            x = F.layer_norm(x, (width,), w[f"{name}.norm.weight"], w[f"{name}.norm.bias"], 1e-5)
            qkv = (x @ w[f"{name}.token_mixer.qkv.weight"].T).view(batch, -1, 3, width)
            q, k, v = (
                part.view(batch, -1, width // HEAD, HEAD).transpose(1, 2) for part in qkv.unbind(2)
            )
            seen = ((q @ k.mT) * HEAD**-0.5).softmax(-1) @ v
            seen = seen.transpose(1, 2).flatten(2) @ w[f"{name}.token_mixer.proj.weight"].T
            seen = seen + w[f"{name}.token_mixer.proj.bias"]
            return seen.transpose(1, 2).view(batch, width, tall, wide)

        x = F.gelu(conv(pixels.double(), "stem.0.reparam_conv", 2))
        x = F.gelu(conv(x, "stem.1.reparam_conv", 2))
        x = F.gelu(conv(x, "stem.2.reparam_conv"))
        for i, depth in enumerate(self.depths):
            stage = f"stages.{i}"
            if i:
                x = F.gelu(conv(x, f"{stage}.downsample.proj.0.reparam_conv", 2))
                x = F.gelu(conv(x, f"{stage}.downsample.proj.1.reparam_conv"))
            if self._attends(i):
                x = conv(x, f"{stage}.pos_emb.reparam_conv")
            for j in range(depth):
                block = f"{stage}.blocks.{j}"
                if self._attends(i):
                    x = x + w[f"{block}.layer_scale_1.gamma"] * attention(x, block)
                    x = x + w[f"{block}.layer_scale_2.gamma"] * mlp(x, f"{block}.mlp")
                else:
                    x = conv(x, f"{block}.token_mixer.reparam_conv")
                    x = x + w[f"{block}.layer_scale.gamma"] * mlp(x, f"{block}.mlp")
        x = conv(x, "final_conv.reparam_conv")
        gate = conv(F.relu(conv(x.mean((2, 3), keepdim=True), "final_conv.se.fc1")),
                    "final_conv.se.fc2")  # fmt: skip
        x = F.gelu(x * gate.sigmoid())
        return BaseModelOutputWithPooling(last_hidden_state=x.to(pixels.dtype))


def stand_in() -> None:
    """Let FastVLM of transformers make this tower where it would make timm's."""
    from transformers.models.fast_vlm import modeling_fast_vlm as home

    usual = home.AutoModel

    class Either:
        """The tower, or what AutoModel makes."""

        @staticmethod
        def from_config(config: Any, **more: Any) -> Any:
            if config.model_type != "timm_wrapper":
                return usual.from_config(config, **more)
            sizes = {k: v for k, v in config.model_args.items() if k != "inference_mode"}
            return FastViTHD(**sizes)

    home.AutoModel = Either
