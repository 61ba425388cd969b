"""Convolution layers of one to three dims, and their transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.core import ops
from rushlight.core.functional.network.convolution import (
    conv1d,
    conv3d,
    conv_transpose1d,
    conv_transpose3d,
)
from rushlight.core.functional.network.padding import pad
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
    function: Callable[..., Tensor]
    output_padding: tuple[int, ...]
    padding: str | tuple[int, ...]

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
            raise ValueError(
                f"{name}: padding_mode {padding_mode!r} is not supported; supported: "
                f"{', '.join(modes)}"
            )
        self.padding_mode = padding_mode
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{name}: groups={groups} does not divide {in_channels} and {out_channels}"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (
            _tuple(v, self.rank) for v in (kernel_size, stride, dilation)
        )
        if isinstance(padding, str):
            same_pads(name, self.kernel_size, self.stride, self.dilation, padding)
        self.padding = padding if isinstance(padding, str) else _tuple(padding, self.rank)
        self.output_padding = (0,) * self.rank
        first, second = out_channels, in_channels // groups
        if self.transposed:
            first, second = in_channels, out_channels // groups
        self.weight = parameter(first, second, *self.kernel_size)
        self.bias = parameter(out_channels) if bias else None
        self._fill(device, dtype)

    def reset_parameters(self) -> None:
        """Uniform in +-1 / sqrt(fan_in)."""
        init.default_(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """(n, in_channels, ...) -> (n, out_channels, ...); also without n."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            if isinstance(padding, str):
                pads = same_pads(
                    type(self).__name__, self.kernel_size, self.stride, self.dilation, padding
                )
            else:
                pads = [p for n in reversed(padding) for p in (n, n)]
            input, padding = pad(input, pads, self.padding_mode) if any(pads) else input, 0
        return self.function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        rest = ""
        for label, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, label)
            rest += f", {label}={value}" if value != (usual,) * self.rank else ""
        rest += f", groups={self.groups}" if self.groups != 1 else ""
        rest += ", bias=False" if self.bias is None else ""
        rest += f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else ""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}{rest}"
        )


class Conv1d(_Conv):
    """Cross-correlation over one dim: (n, in_channels, length) -> (n, out_channels, length').

    `in_channels` and `out_channels` are counts. `kernel_size`, `stride`, `padding` and
    `dilation` are an int or one per dim; `padding` may also be "same" or "valid". `groups`
    parts the channels. `bias`: whether one is learned. `padding_mode`: "zeros", "reflect",
    "replicate" or "circular". `device` and `dtype` are those of the parameters. Raises
    ValueError for another mode, for groups that do not divide the channels, and for "same" with
    a stride above 1.
    """

    rank = 1
    function = staticmethod(conv1d)


class Conv2d(_Conv):
    """Cross-correlation over two dims: (n, in_channels, h, w) -> (n, out_channels, h', w').

    `in_channels` and `out_channels` are counts. `kernel_size`, `stride`, `padding` and
    `dilation` are an int or one per dim; `padding` may also be "same" or "valid". `groups`
    parts the channels. `bias`: whether one is learned. `padding_mode`: "zeros", "reflect",
    "replicate" or "circular". `device` and `dtype` are those of the parameters. Raises
    ValueError for another mode, for groups that do not divide the channels, and for "same" with
    a stride above 1.
    """

    function = staticmethod(ops.conv2d)


class Conv3d(_Conv):
    """Cross-correlation over three dims: (n, in_channels, d, h, w) -> (n, out_channels, ...).

    `in_channels` and `out_channels` are counts. `kernel_size`, `stride`, `padding` and
    `dilation` are an int or one per dim; `padding` may also be "same" or "valid". `groups`
    parts the channels. `bias`: whether one is learned. `padding_mode`: "zeros", "reflect",
    "replicate" or "circular". `device` and `dtype` are those of the parameters. Raises
    ValueError for another mode, for groups that do not divide the channels, and for "same" with
    a stride above 1.
    """

    rank = 3
    function = staticmethod(conv3d)


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
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding = _tuple(output_padding, self.rank)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """(n, in_channels, ...) -> (n, out_channels, ...); also without n.

        output_size: the sizes, with or without the first dims, in place of `output_padding`;
        ValueError for sizes that no output padding gives.
        """
        extra = self.output_padding
        if output_size is not None:
            extra = self._extra(input.shape[-self.rank :], list(output_size), input.ndim)
        return self.function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            extra,
            self.groups,
            self.dilation,
        )

    def _extra(self, sizes: Sequence[int], wanted: list[int], ndim: int) -> tuple[int, ...]:
        pads: Any = self.padding
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                sizes, self.stride, pads, self.dilation, self.kernel_size, strict=True
            )
        ]
        extra = [a - b for a, b in zip(wanted[-self.rank :], least, strict=False)]
        fit = all(0 <= e < s for e, s in zip(extra, self.stride, strict=False))
        if len(wanted) not in (self.rank, ndim) or not fit:
            most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
            raise ValueError(
                f"{type(self).__name__}: output_size is {wanted}; it must be {self.rank} or {ndim} "
                f"sizes, the last from {least} to {most}"
            )
        return tuple(extra)


class ConvTranspose1d(_ConvTranspose):
    """The gradient of Conv1d as a layer: (n, in_channels, length) -> (n, out_channels, length').

    `in_channels` and `out_channels` are counts. `kernel_size`, `stride`, `padding`,
    `output_padding` and `dilation` are an int or one per dim. `groups` parts the channels.
    `bias`: whether one is learned. `padding_mode` must be "zeros". Raises ValueError for
    another mode, and for groups that do not divide the channels. `device` and `dtype` are those
    of the parameters.
    """

    rank = 1
    function = staticmethod(conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """The gradient of Conv2d as a layer: (n, in_channels, h, w) -> (n, out_channels, h', w').

    `in_channels` and `out_channels` are counts. `kernel_size`, `stride`, `padding`,
    `output_padding` and `dilation` are an int or one per dim. `groups` parts the channels.
    `bias`: whether one is learned. `padding_mode` must be "zeros". Raises ValueError for
    another mode, and for groups that do not divide the channels. `device` and `dtype` are those
    of the parameters.
    """

    function = staticmethod(ops.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """The gradient of Conv3d as a layer: (n, in_channels, d, h, w) -> (n, out_channels, ...).

    `in_channels` and `out_channels` are counts. `kernel_size`, `stride`, `padding`,
    `output_padding` and `dilation` are an int or one per dim. `groups` parts the channels.
    `bias`: whether one is learned. `padding_mode` must be "zeros". Raises ValueError for
    another mode, and for groups that do not divide the channels. `device` and `dtype` are those
    of the parameters.
    """

    rank = 3
    function = staticmethod(conv_transpose3d)
