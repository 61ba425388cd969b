"""Convolution and pooling layers."""

from __future__ import annotations

from rushlight.core import ops
from rushlight.core.functional.convolution import conv1d
from rushlight.core.functional.network.pooling import avg_pool2d, max_pool2d
from rushlight.core.nn import init
from rushlight.core.nn.module import Module, parameter
from rushlight.core.tensor.tensor import Tensor

Size = int | tuple[int, ...]


def _tuple(value: Size, n: int) -> tuple[int, ...]:
    return (value,) * n if isinstance(value, int) else tuple(value)


class _Conv(Module):
    """Base of the convolutions: sizes, the weight's shape, defaults, repr."""

    rank = 2
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        name = type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{name}: groups={groups} does not divide {in_channels} and {out_channels}"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.padding, self.dilation = (
            _tuple(v, self.rank) for v in (kernel_size, stride, padding, dilation)
        )
        first, second = out_channels, in_channels // groups
        if self.transposed:
            first, second = in_channels, out_channels // groups
        self.weight = parameter(first, second, *self.kernel_size)
        self.bias = parameter(out_channels) if bias else None

    def reset_parameters(self) -> None:
        """Uniform in +-1 / sqrt(fan_in)."""
        init.default_(self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        rest = ""
        for label, value, usual in (
            ("padding", self.padding, 0),
            ("dilation", self.dilation, 1),
            ("output_padding", getattr(self, "output_padding", ()), 0),
        ):
            rest += f", {label}={value}" if any(v != usual for v in value) else ""
        rest += f", groups={self.groups}" if self.groups != 1 else ""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}{rest}{', bias=False' if self.bias is None else ''}"
        )


class Conv1d(_Conv):
    """Cross-correlation over one dim: (n, in_channels, length) -> (n, out_channels, length')."""

    rank = 1

    def forward(self, x: Tensor) -> Tensor:
        """(n, in_channels, length) -> (n, out_channels, length')."""
        return conv1d(
            x, self.weight, self.bias, self.stride[0], self.padding[0], self.dilation[0],
            self.groups,
        )  # fmt: skip


class Conv2d(_Conv):
    """Cross-correlation over two dims: (n, in_channels, h, w) -> (n, out_channels, h', w')."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, in_channels, h, w) -> (n, out_channels, h', w')."""
        return ops.conv2d(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )


class ConvTranspose2d(_Conv):
    """The gradient of Conv2d as a layer: (n, in_channels, h, w) -> (n, out_channels, h', w').

    h' = (h - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1.
    """

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
        )
        self.output_padding = _tuple(output_padding, 2)

    def forward(self, x: Tensor) -> Tensor:
        """(n, in_channels, h, w) -> (n, out_channels, h', w')."""
        return ops.conv_transpose2d(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding,
            self.groups, self.dilation,
        )  # fmt: skip


class _Pool(Module):
    """Base of the pooling layers."""

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride

    def extra_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(_Pool):
    """The largest element of each window: (..., h, w) -> (..., h', w')."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., h, w) -> (..., h', w')."""
        found: Tensor = max_pool2d(x, self.kernel_size, self.stride, self.padding)
        return found


class AvgPool2d(_Pool):
    """The mean of each window, padding counted as zeros: (..., h, w) -> (..., h', w')."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., h, w) -> (..., h', w')."""
        return avg_pool2d(x, self.kernel_size, self.stride, self.padding)
