"""A convolution with its norm and activation, under the names that a checkpoint gives them."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.core import nn
from rushlight.core.basis.errors import FormatError
from rushlight.core.functional.network.padding import pad
from rushlight.core.nn.parameter import parameter
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS

Names = tuple[str, str]
CONV_BN: Names = ("conv", "bn")
LONG: Names = ("convolution", "normalization")


class ConvNorm(nn.Module):
    """act(norm(conv(x))), a convolution without bias that keeps the size at stride 1.

    names: of the convolution and of the norm. act: a name of ACTIVATIONS, "" for none. padding: on
    every side; None: half of the kernel. same: TensorFlow's padding instead, whose odd rest is
    below and at the right. norm: what makes the norm of a width, with its own activation or none,
    in place of a BatchNorm.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 3,
        stride: int = 1,
        *,
        act: str = "relu",
        groups: int = 1,
        padding: int | None = None,
        dilation: int = 1,
        eps: float = 1e-5,
        names: Names = LONG,
        same: bool = False,
        norm: Callable[[int, bool], nn.Module] | None = None,
    ) -> None:
        padding = dilation * ((kernel - 1) // 2) if padding is None else padding
        padding = 0 if same else padding
        self.same = (kernel, stride, dilation) if same else None
        self.names, self.act = names, activation("" if norm else act)
        self.register_module(
            names[0],
            nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias=False),
        )
        norm_layer = norm(outputs, bool(act)) if norm else nn.BatchNorm2d(outputs, eps)
        self.register_module(names[1], norm_layer)

    def forward(self, x: Tensor) -> Tensor:
        if self.same is not None:
            x = padded_same(x, *self.same)
        conv, norm = (getattr(self, name) for name in self.names)
        out: Tensor = self.act(norm(conv(x)))
        return out


class EvoNorm(nn.Module):
    """EvoNorm S0 (Liu et al., 2020): x sigmoid(v x) by the deviation of x in groups of channels.

    act: without it there is no v, and x itself is divided.
    """

    def __init__(self, width: int, groups: int, eps: float, act: bool = True) -> None:
        if groups < 1 or width % groups:
            raise FormatError(f"config.json: {width} channels do not divide into {groups} groups")
        self.groups, self.eps, self.act = groups, eps, act
        self.weight, self.bias = parameter(width), parameter(width)
        if act:
            self.v = parameter(width)

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight.reshape(-1, 1, 1), self.bias.reshape(-1, 1, 1)
        parts = x.reshape(len(x), self.groups, -1)
        spread = (parts.var(-1, correction=0, keepdim=True) + self.eps).sqrt()
        x = x * (x * self.v.reshape(-1, 1, 1)).sigmoid() if self.act else x
        x = (x.reshape(parts.shape) / spread).reshape(x.shape)
        return x * weight + bias


def padded_same(x: Tensor, kernel: int, stride: int, dilation: int = 1) -> Tensor:
    """x (batch, channels, height, width) with zeros around it, as TensorFlow's "SAME" adds them."""
    sides = []
    for n in (x.shape[3], x.shape[2]):
        total = max(kernel - (n % stride or stride), 0)
        sides += [total // 2 * dilation, (total - total // 2) * dilation]
    return pad(x, tuple(sides)) if any(sides) else x


def divisible(value: float, divisor: int = 8, least: int | None = None) -> int:
    """A width near `value` that is a multiple of `divisor`, at most a tenth smaller."""
    width = max(divisor if least is None else least, int(value + divisor / 2) // divisor * divisor)
    return width + divisor if width < 0.9 * value else width


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The function of an activation's name; "" is none."""
    return ACTIVATIONS[name] if name else _same


def _same(x: Tensor) -> Tensor:
    return x
