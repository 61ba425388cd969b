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
    each,
    fractional_max_pool2d,
    fractional_max_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from rushlight.core.functional.network.unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from rushlight.core.nn.layers.fixed import Fixed
from rushlight.core.tensor.tensor import Tensor

Size = int | tuple[int, ...]

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _MaxPool(Fixed):
    _unshown = ("return_indices",)

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
            stride=kernel_size if stride is None else stride,
            padding=padding,
            dilation=dilation,
            return_indices=return_indices,
            ceil_mode=ceil_mode,
        )


class _Adaptive(Fixed):
    def __init__(self, output_size: Any) -> None:
        self._fix(output_size=output_size)


class _AdaptiveMax(Fixed):
    _unshown = ("return_indices",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        self._fix(output_size=output_size, return_indices=return_indices)


class _Fractional(Fixed):
    _unshown = ("kernel_size", "output_size", "output_ratio", "return_indices")

    rank = 2

    def __init__(
        self,
        kernel_size: Size,
        output_size: Size | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        name, ratios, count = type(self).__name__, output_ratio, self.rank
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{name}: give one of output_size and output_ratio, not "
                f"{output_size} and {output_ratio}"
            )
        ratios = (ratios,) * count if isinstance(ratios, float) else ratios or ()
        if any(not 0 < ratio < 1 for ratio in ratios):
            raise ValueError(f"{name}: output_ratio is {output_ratio}; it must be between 0 and 1")
        self._fix(
            kernel_size=each(name, kernel_size, count),
            output_size=None if output_size is None else each(name, output_size, count),
            output_ratio=tuple(ratios) or None,
            return_indices=return_indices,
        )
        self.register_buffer("_random_samples", _random_samples)
        self._given += ("_random_samples",)


class _Unpool(Fixed):
    rank = 1

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        sizes = (kernel_size, kernel_size if stride is None else stride, padding)
        names = ("kernel_size", "stride", "padding")
        self._fix(**{n: each(n, v, self.rank) for n, v in zip(names, sizes, strict=True)})


class _LPPool(Fixed):
    def __init__(
        self,
        norm_type: float,
        kernel_size: Size,
        stride: Size | None = None,
        ceil_mode: bool = False,
    ) -> None:
        self._fix(norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode)


class _AvgPool(Fixed):
    _unshown = ("ceil_mode", "count_include_pad", "divisor_override")

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
            stride=kernel_size if stride is None else stride,
            padding=padding,
            ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )


class AvgPool1d(_AvgPool):
    """`avg_pool1d` with fixed options, which are tuples, as in torch.

    `kernel_size`, `stride` (the kernel's unless set) and `padding` are ints. `ceil_mode`: a
    window may hang over the end. `count_include_pad`: padding counts in the mean. The call
    raises ValueError for a padding of more than half the window, or where no window fits.
    """

    function = staticmethod(avg_pool1d)

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        k, s, p = (
            each("AvgPool1d", n, 1)
            for n in (kernel_size, kernel_size if stride is None else stride, padding)
        )
        super().__init__(k, s, p, ceil_mode, count_include_pad)


class AvgPool2d(_AvgPool):
    """`avg_pool2d` with fixed options.

    `kernel_size`, `stride` (the kernel's unless set) and `padding` are an int or one per dim.
    `ceil_mode`: a window may hang over the end. `count_include_pad`: padding counts in the
    mean. `divisor_override` divides in place of the count. The call raises ValueError for a
    padding of more than half the window, or where no window fits.
    """

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
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override
        self._given += ("divisor_override",)


class AvgPool3d(AvgPool2d):
    """`avg_pool3d` with fixed options.

    `kernel_size`, `stride` (the kernel's unless set) and `padding` are an int or one per dim.
    `ceil_mode`: a window may hang over the end. `count_include_pad`: padding counts in the
    mean. `divisor_override` divides in place of the count. The call raises ValueError for a
    padding of more than half the window, or where no window fits.
    """

    function = staticmethod(avg_pool3d)


class MaxPool1d(_MaxPool):
    """`max_pool1d` with fixed options.

    `kernel_size`, `stride` (the kernel's unless set), `padding` and `dilation` are ints.
    `return_indices`: also where each maximum was. `ceil_mode`: a window may hang over the end.
    The call raises ValueError for a padding of more than half the window, or where no window
    fits.
    """

    function = staticmethod(max_pool1d)


class AdaptiveAvgPool1d(_Adaptive):
    """`adaptive_avg_pool1d` to a fixed size."""

    function = staticmethod(adaptive_avg_pool1d)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """`adaptive_max_pool1d` to a fixed size."""

    function = staticmethod(adaptive_max_pool1d)


class MaxPool2d(_MaxPool):
    """`max_pool2d` with fixed options.

    `kernel_size`, `stride` (the kernel's unless set), `padding` and `dilation` are an int or
    one per dim. `return_indices`: also where each maximum was. `ceil_mode`: a window may hang
    over the end. The call raises ValueError for a padding of more than half the window, or
    where no window fits.
    """

    function = staticmethod(max_pool2d)


class AdaptiveAvgPool2d(_Adaptive):
    """`adaptive_avg_pool2d` to a fixed size."""

    function = staticmethod(adaptive_avg_pool2d)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """`adaptive_max_pool2d` to a fixed size."""

    function = staticmethod(adaptive_max_pool2d)


class MaxPool3d(_MaxPool):
    """`max_pool3d` with fixed options.

    `kernel_size`, `stride` (the kernel's unless set), `padding` and `dilation` are an int or
    one per dim. `return_indices`: also where each maximum was. `ceil_mode`: a window may hang
    over the end. The call raises ValueError for a padding of more than half the window, or
    where no window fits.
    """

    function = staticmethod(max_pool3d)


class AdaptiveAvgPool3d(_Adaptive):
    """`adaptive_avg_pool3d` to a fixed size."""

    function = staticmethod(adaptive_avg_pool3d)


class AdaptiveMaxPool3d(_AdaptiveMax):
    """`adaptive_max_pool3d` to a fixed size."""

    function = staticmethod(adaptive_max_pool3d)


class LPPool1d(_LPPool):
    """`lp_pool1d` with fixed options.

    `norm_type` is the power. `kernel_size` and `stride` (the kernel's unless set) are ints.
    `ceil_mode`: a window may hang over the end. The call raises ValueError where no window
    fits.
    """

    function = staticmethod(lp_pool1d)


class LPPool2d(_LPPool):
    """`lp_pool2d` with fixed options.

    `norm_type` is the power. `kernel_size` and `stride` (the kernel's unless set) are an int or
    one per dim. `ceil_mode`: a window may hang over the end. The call raises ValueError where
    no window fits.
    """

    function = staticmethod(lp_pool2d)


class LPPool3d(_LPPool):
    """`lp_pool3d` with fixed options.

    `norm_type` is the power. `kernel_size` and `stride` (the kernel's unless set) are an int or
    one per dim. `ceil_mode`: a window may hang over the end. The call raises ValueError where
    no window fits.
    """

    function = staticmethod(lp_pool3d)


class FractionalMaxPool2d(_Fractional):
    """`fractional_max_pool2d` with fixed options.

    Windows of `kernel_size` at random places (Graham, 2015). Set either `output_size` or
    `output_ratio`, a share of each dim. `return_indices`: also where each maximum was. Raises
    ValueError for both or none, and for a ratio outside 0 to 1.
    """

    function = staticmethod(fractional_max_pool2d)


class FractionalMaxPool3d(_Fractional):
    """`fractional_max_pool3d` with fixed options.

    Windows of `kernel_size` at random places (Graham, 2015). Set either `output_size` or
    `output_ratio`, a share of each dim. `return_indices`: also where each maximum was. Raises
    ValueError for both or none, and for a ratio outside 0 to 1.
    """

    rank, function = 3, staticmethod(fractional_max_pool3d)


class MaxUnpool1d(_Unpool):
    """`max_unpool1d` with fixed options; called on values, indices and perhaps output_size.

    `kernel_size`, `stride` (the kernel's unless set) and `padding` are those of the pooling.
    The call raises ValueError for a size that they do not allow.
    """

    function = staticmethod(max_unpool1d)


class MaxUnpool2d(_Unpool):
    """`max_unpool2d` with fixed options; called on values, indices and perhaps output_size.

    `kernel_size`, `stride` (the kernel's unless set) and `padding` are those of the pooling.
    The call raises ValueError for a size that they do not allow.
    """

    rank, function = 2, staticmethod(max_unpool2d)


class MaxUnpool3d(_Unpool):
    """`max_unpool3d` with fixed options; called on values, indices and perhaps output_size.

    `kernel_size`, `stride` (the kernel's unless set) and `padding` are those of the pooling.
    The call raises ValueError for a size that they do not allow.
    """

    rank, function = 3, staticmethod(max_unpool3d)
