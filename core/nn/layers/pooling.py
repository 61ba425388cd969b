"""Pooling layers with fixed options; the functions say what they compute."""

from __future__ import annotations

from typing import Any

from rushlight.core.functional.network.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from rushlight.core.nn.layers.fixed import Fixed

Size = int | tuple[int, ...]

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d",
    "LPPool2d", "MaxPool1d", "MaxPool2d", "MaxPool3d",
]  # fmt: skip


class MaxPool1d(Fixed):
    """`max_pool1d` with fixed options."""

    function = staticmethod(max_pool1d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self._fix(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            return_indices=return_indices,
            ceil_mode=ceil_mode,
        )


class AvgPool1d(Fixed):
    """`avg_pool1d` with fixed options."""

    function = staticmethod(avg_pool1d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self._fix(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )


class AdaptiveAvgPool1d(Fixed):
    """`adaptive_avg_pool1d` to a fixed size."""

    function = staticmethod(adaptive_avg_pool1d)

    def __init__(self, output_size: Any) -> None:
        self._fix(output_size=output_size)


class AdaptiveMaxPool1d(Fixed):
    """`adaptive_max_pool1d` to a fixed size."""

    function = staticmethod(adaptive_max_pool1d)

    def __init__(self, output_size: Any) -> None:
        self._fix(output_size=output_size)


class MaxPool2d(Fixed):
    """`max_pool2d` with fixed options."""

    function = staticmethod(max_pool2d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self._fix(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            return_indices=return_indices,
            ceil_mode=ceil_mode,
        )


class AvgPool2d(Fixed):
    """`avg_pool2d` with fixed options."""

    function = staticmethod(avg_pool2d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self._fix(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            divisor_override=divisor_override,
        )


class AdaptiveAvgPool2d(Fixed):
    """`adaptive_avg_pool2d` to a fixed size."""

    function = staticmethod(adaptive_avg_pool2d)

    def __init__(self, output_size: Any) -> None:
        self._fix(output_size=output_size)


class AdaptiveMaxPool2d(Fixed):
    """`adaptive_max_pool2d` to a fixed size."""

    function = staticmethod(adaptive_max_pool2d)

    def __init__(self, output_size: Any) -> None:
        self._fix(output_size=output_size)


class MaxPool3d(Fixed):
    """`max_pool3d` with fixed options."""

    function = staticmethod(max_pool3d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self._fix(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            return_indices=return_indices,
            ceil_mode=ceil_mode,
        )


class AvgPool3d(Fixed):
    """`avg_pool3d` with fixed options."""

    function = staticmethod(avg_pool3d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self._fix(
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
            divisor_override=divisor_override,
        )


class AdaptiveAvgPool3d(Fixed):
    """`adaptive_avg_pool3d` to a fixed size."""

    function = staticmethod(adaptive_avg_pool3d)

    def __init__(self, output_size: Any) -> None:
        self._fix(output_size=output_size)


class AdaptiveMaxPool3d(Fixed):
    """`adaptive_max_pool3d` to a fixed size."""

    function = staticmethod(adaptive_max_pool3d)

    def __init__(self, output_size: Any) -> None:
        self._fix(output_size=output_size)


class LPPool1d(Fixed):
    """`lp_pool1d` with fixed options."""

    function = staticmethod(lp_pool1d)

    def __init__(
        self,
        norm_type: float,
        kernel_size: Size,
        stride: Size | None = None,
        ceil_mode: bool = False,
    ) -> None:
        self._fix(norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode)


class LPPool2d(Fixed):
    """`lp_pool2d` with fixed options."""

    function = staticmethod(lp_pool2d)

    def __init__(
        self,
        norm_type: float,
        kernel_size: Size,
        stride: Size | None = None,
        ceil_mode: bool = False,
    ) -> None:
        self._fix(norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode)
