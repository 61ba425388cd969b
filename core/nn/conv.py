"""Convolution and pooling layers."""

from __future__ import annotations

from rushlight.core import ops
from rushlight.core.functional.convolution import conv1d, conv3d, conv_transpose1d
from rushlight.core.functional.network.folding import pad
from rushlight.core.nn import init
from rushlight.core.nn.module import Kind, Module, Place
from rushlight.core.nn.parameter import parameter
from rushlight.core.ops.conv import same_pads
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
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        name = type(self).__name__
        modes = ("zeros",) if self.transposed else ("zeros", "reflect", "replicate", "circular")
        if padding_mode not in modes:
            raise ValueError(f"{name}: padding_mode {padding_mode!r} is not supported; supported: "
                             f"{', '.join(modes)}")  # fmt: skip
        self.padding_mode = padding_mode
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{name}: groups={groups} does not divide {in_channels} and {out_channels}"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (
            _tuple(v, self.rank) for v in (kernel_size, stride, dilation)
        )
        self._same = padding if isinstance(padding, str) else ""
        self.padding = _tuple(0 if isinstance(padding, str) else padding, self.rank)
        first, second = out_channels, in_channels // groups
        if self.transposed:
            first, second = in_channels, out_channels // groups
        self.weight = parameter(first, second, *self.kernel_size)
        self.bias = parameter(out_channels) if bias else None
        self._fill(device, dtype)

    def reset_parameters(self) -> None:
        """Uniform in +-1 / sqrt(fan_in)."""
        init.default_(self.weight, self.bias)

    def _padded(self, x: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        """The input with what the convolution does not pad itself, and what it does."""
        none = (0,) * self.rank
        if self._same:
            pads = same_pads(type(self).__name__, self.kernel_size, self.stride, self.dilation,
                             self._same)  # fmt: skip
        elif self.padding_mode == "zeros":
            return x, self.padding
        else:
            pads = [p for n in reversed(self.padding) for p in (n, n)]
        mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
        return (pad(x, pads, mode) if any(pads) else x), none

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
        x, padding = self._padded(x)
        rows = x if x.ndim == 3 else x.unsqueeze(0)
        out = conv1d(
            rows, self.weight, self.bias, self.stride[0], padding[0], self.dilation[0],
            self.groups,
        )  # fmt: skip
        return out if rows is x else out.squeeze(0)


class Conv2d(_Conv):
    """Cross-correlation over two dims: (n, in_channels, h, w) -> (n, out_channels, h', w')."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, in_channels, h, w) -> (n, out_channels, h', w')."""
        x, padding = self._padded(x)
        rows = x if x.ndim == 4 else x.unsqueeze(0)
        out = ops.conv2d(
            rows, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )
        return out if rows is x else out.squeeze(0)


class Conv3d(_Conv):
    """Cross-correlation over three dims: (n, in_channels, d, h, w) -> (n, out_channels, ...)."""

    rank = 3

    def forward(self, x: Tensor) -> Tensor:
        """(n, in_channels, d, h, w) -> (n, out_channels, d', h', w')."""
        x, padding = self._padded(x)
        return conv3d(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class _ConvTranspose(_Conv):
    """The gradient of a convolution as a layer.

    A size becomes (n - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding
    + 1.
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
        padding_mode: str = "zeros",
        device: Place = None,
        dtype: Kind = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip
        self.output_padding = _tuple(output_padding, self.rank)


class ConvTranspose1d(_ConvTranspose):
    """The gradient of Conv1d as a layer: (n, in_channels, length) -> (n, out_channels, length')."""

    rank = 1

    def forward(self, x: Tensor) -> Tensor:
        """(n, in_channels, length) -> (n, out_channels, length')."""
        return conv_transpose1d(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding,
            self.groups, self.dilation,
        )  # fmt: skip


class ConvTranspose2d(_ConvTranspose):
    """The gradient of Conv2d as a layer: (n, in_channels, h, w) -> (n, out_channels, h', w')."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, in_channels, h, w) -> (n, out_channels, h', w')."""
        return ops.conv_transpose2d(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding,
            self.groups, self.dilation,
        )  # fmt: skip
