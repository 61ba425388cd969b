"""A convolution with its norm and activation, under the names that a checkpoint gives them."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.core import nn
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.layers.mlp import ACTIVATIONS

Names = tuple[str, str]
CONV_BN: Names = ("conv", "bn")
LONG: Names = ("convolution", "normalization")


class ConvNorm(nn.Module):
    """act(norm(conv(x))), a convolution without bias that keeps the size at stride 1.

    names: of the convolution and of the norm. act: a name of ACTIVATIONS, "" for none. padding: on
    every side; None: half of the kernel.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, *, act: str = "relu",
        groups: int = 1, padding: int | None = None, dilation: int = 1, eps: float = 1e-5,
        names: Names = LONG,
    ) -> None:  # fmt: skip
        padding = dilation * (kernel - 1) // 2 if padding is None else padding
        self.names, self.act = names, activation(act)
        self.register_module(names[0], nn.Conv2d(
            inputs, outputs, kernel, stride, padding, dilation, groups, bias=False
        ))  # fmt: skip
        self.register_module(names[1], nn.BatchNorm2d(outputs, eps))

    def forward(self, x: Tensor) -> Tensor:
        conv, norm = (getattr(self, name) for name in self.names)
        made: Tensor = self.act(norm(conv(x)))
        return made


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The function of an activation's name; "" is none."""
    return ACTIVATIONS[name] if name else _same


def _same(x: Tensor) -> Tensor:
    return x
