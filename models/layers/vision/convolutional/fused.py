"""Convolutions that training holds as branches, and one convolution computes.

RepVGG (Ding et al., 2021), MobileOne (Vasu et al., 2022) and FastViT (Vasu et al., 2023). A model
has the one convolution, under timm's name `reparam_conv`; `fused` makes it of the branches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.padding import pad
from rushlight.core.tensor.tensor import Tensor, from_numpy
from rushlight.models.layers.naming import put
from rushlight.models.layers.vision.conv import activation

EPS = 1e-5
_BRANCH = re.compile(
    r"(.+)\.(conv_kxk(?:\.\d{1,2})?|conv_1x1|conv_scale|large_conv|small_conv)\.(conv|bn)\.(\w+)"
)
_IDENTITY = re.compile(r"(.+)\.identity\.(\w+)")


class FusedConv(nn.Module):
    """act(squeeze(conv(x))) with a bias; squeezed: channels of the squeeze, called `gate`."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        squeezed: int = 0,
        act: str = "relu",
        gate: str = "attn",
    ) -> None:
        if inputs % groups or outputs % groups:
            raise FormatError(f"{inputs} and {outputs} channels do not divide into {groups} groups")
        self.reparam_conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups)
        self.gate, self.act = gate if squeezed else "", activation(act)
        if squeezed:
            put(self, f"{gate}.fc1", nn.Conv2d(outputs, squeezed, 1))
            put(self, f"{gate}.fc2", nn.Conv2d(squeezed, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.reparam_conv(x)
        if self.gate:
            x = squeezed(self.get_submodule(self.gate), x)
        return self.act(x)


def squeezed(gate: nn.Module, x: Tensor) -> Tensor:
    """x with channels weighed by what the picture's mean says (Hu et al., 2017)."""
    small = gate.get_submodule("fc1")(x.mean((2, 3), keepdim=True)).relu()
    weighed: Tensor = x * gate.get_submodule("fc2")(small).sigmoid()
    return weighed


def fused(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with one convolution, PATH.reparam_conv, for the branches at each PATH.

    FormatError where branches are incomplete or do not fit each other.
    """
    branches: dict[str, dict[str, dict[str, Tensor]]] = {}
    by_name: dict[str, Tensor] = {}
    for name, t in tensors.items():
        if match := _BRANCH.fullmatch(name):
            path, branch, module, kind = match.groups()
            branches.setdefault(path, {}).setdefault(branch, {})[f"{module}.{kind}"] = t
        elif match := _IDENTITY.fullmatch(name):
            branches.setdefault(match[1], {}).setdefault("identity", {})[f"bn.{match[2]}"] = t
        else:
            by_name[name] = t
    for path, of_path in branches.items():
        if set(of_path) == {"identity"}:  # of a RepMixer, which has a kernel beside it
            by_name |= {f"{path}.identity.{n[3:]}": t for n, t in of_path["identity"].items()}
            continue
        try:
            weight, bias = _joined(of_path)
        except (KeyError, ValueError, IndexError) as error:
            raise FormatError(f"the branches of {path!r} do not fit each other: {error}") from None
        by_name[f"{path}.reparam_conv.weight"], by_name[f"{path}.reparam_conv.bias"] = weight, bias
    return by_name


def _joined(branches: Mapping[str, Mapping[str, Tensor]]) -> tuple[Tensor, Tensor]:
    """The kernel and bias of the sum of branches."""
    kernels = {
        name: of_branch["conv.weight"] for name, of_branch in branches.items() if name != "identity"
    }
    largest = max(kernels.values(), key=lambda t: int(t.shape[-1]))
    weights, biases = [], []
    for name, branch in branches.items():
        like = identity(largest) if name == "identity" else kernels[name].float()
        scale, offset = normed(branch)
        around = (largest.shape[-1] - like.shape[-1]) // 2
        like = pad(like, (around,) * 4) if around else like
        weights.append(like * scale.reshape(-1, 1, 1, 1))
        biases.append(offset)
    total, bias = sum(weights[1:], weights[0]), sum(biases[1:], biases[0])
    return total.to(largest.dtype), bias.to(largest.dtype)


def normed(held: Mapping[str, Tensor], path: str = "bn.") -> tuple[Tensor, Tensor]:
    """What a batch norm multiplies by and adds."""
    scale = held[f"{path}weight"].float() / (held[f"{path}running_var"].float() + EPS).sqrt()
    return scale, held[f"{path}bias"].float() - held[f"{path}running_mean"].float() * scale


def identity(like: Tensor) -> Tensor:
    """The kernel of `like`'s shape (outputs, inputs / groups, k, k) that gives its input back."""
    outputs, inputs, k, _ = like.shape
    values = np.zeros((outputs, inputs, k, k), np.float32)
    each = np.arange(outputs)
    values[each, each % inputs, k // 2, k // 2] = 1
    return from_numpy(values).to(like.device)
