"""Pooling layers with fixed options; the functions say what they compute."""

from __future__ import annotations

from typing import Any

from rushlight.core.functional.network.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from rushlight.core.functional.network.unpooling import (
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from rushlight.core.nn.layers.fixed import Fixed

Size = int | tuple[int, ...]

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d",
    "LPPool2d", "MaxPool1d", "MaxPool2d", "MaxPool3d",
]  # fmt: skip


class _MaxPool(Fixed):
    def __init__(
        self, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
        dilation: Size = 1, return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        self._fix(
            kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation,
            return_indices=return_indices, ceil_mode=ceil_mode,
        )  # fmt: skip


class _Adaptive(Fixed):
    def __init__(self, output_size: Any) -> None:
        self._fix(output_size=output_size)


class _LPPool(Fixed):
    def __init__(
        self, norm_type: float, kernel_size: Size, stride: Size | None = None,
        ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        self._fix(norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode)


class AvgPool1d(Fixed):
    """`avg_pool1d` with fixed options."""

    function = staticmethod(avg_pool1d)

    def __init__(
        self, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        self._fix(
            kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )  # fmt: skip


class AvgPool2d(AvgPool1d):
    """`avg_pool2d` with fixed options."""

    function = staticmethod(avg_pool2d)

    def __init__(
        self, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override
        self._given += ("divisor_override",)


class AvgPool3d(AvgPool2d):
    """`avg_pool3d` with fixed options."""

    function = staticmethod(avg_pool3d)


class MaxPool1d(_MaxPool):
    """`max_pool1d` with fixed options."""

    function = staticmethod(max_pool1d)


class AdaptiveAvgPool1d(_Adaptive):
    """`adaptive_avg_pool1d` to a fixed size."""

    function = staticmethod(adaptive_avg_pool1d)


class AdaptiveMaxPool1d(_Adaptive):
    """`adaptive_max_pool1d` to a fixed size."""

    function = staticmethod(adaptive_max_pool1d)


class MaxPool2d(_MaxPool):
    """`max_pool2d` with fixed options."""

    function = staticmethod(max_pool2d)


class AdaptiveAvgPool2d(_Adaptive):
    """`adaptive_avg_pool2d` to a fixed size."""

    function = staticmethod(adaptive_avg_pool2d)


class AdaptiveMaxPool2d(_Adaptive):
    """`adaptive_max_pool2d` to a fixed size."""

    function = staticmethod(adaptive_max_pool2d)


class MaxPool3d(_MaxPool):
    """`max_pool3d` with fixed options."""

    function = staticmethod(max_pool3d)


class AdaptiveAvgPool3d(_Adaptive):
    """`adaptive_avg_pool3d` to a fixed size."""

    function = staticmethod(adaptive_avg_pool3d)


class AdaptiveMaxPool3d(_Adaptive):
    """`adaptive_max_pool3d` to a fixed size."""

    function = staticmethod(adaptive_max_pool3d)


class LPPool1d(_LPPool):
    """`lp_pool1d` with fixed options."""

    function = staticmethod(lp_pool1d)


class LPPool2d(_LPPool):
    """`lp_pool2d` with fixed options."""

    function = staticmethod(lp_pool2d)
