"""Layers that fold, shuffle, resample and pad; the functions say what they compute."""

from __future__ import annotations

from typing import Any

from rushlight.core.functional.network.convolution import fold, unfold
from rushlight.core.functional.network.padding import pad
from rushlight.core.functional.network.vision import (
    channel_shuffle,
    interpolate,
    pixel_shuffle,
    pixel_unshuffle,
)
from rushlight.core.nn.layers.fixed import Fixed
from rushlight.core.nn.module import Module
from rushlight.core.tensor.tensor import Tensor

Size = int | tuple[int, ...]

__all__ = [
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "Fold", "PixelShuffle", "PixelUnshuffle", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "Unfold", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class Unfold(Fixed):
    """Windows of images as columns.

    (n, c, h, w) -> (n, c * window, windows). `kernel_size`, `dilation`, `padding` and `stride`
    are an int or one per dim. The call raises ValueError where no window fits.
    """

    function = staticmethod(unfold)

    def __init__(
        self,
        kernel_size: Size,
        dilation: Size = 1,
        padding: Size = 0,
        stride: Size = 1,
    ) -> None:
        self._fix(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)


class Fold(Fixed):
    """Columns added up to images.

    (n, c * window, windows) -> (n, c, *output_size), as overlaps add up. `output_size`,
    `kernel_size`, `dilation`, `padding` and `stride` are an int or one per dim. The call raises
    ValueError where the windows do not fit the size.
    """

    function = staticmethod(fold)

    def __init__(
        self,
        output_size: Size,
        kernel_size: Size,
        dilation: Size = 1,
        padding: Size = 0,
        stride: Size = 1,
    ) -> None:
        self._fix(
            output_size=output_size,
            kernel_size=kernel_size,
            dilation=dilation,
            padding=padding,
            stride=stride,
        )


class PixelShuffle(Fixed):
    """Channels as pixels (Shi et al., 2016)."""

    function = staticmethod(pixel_shuffle)

    def __init__(self, upscale_factor: int) -> None:
        self._fix(upscale_factor=upscale_factor)


class PixelUnshuffle(Fixed):
    """Pixels as channels."""

    function = staticmethod(pixel_unshuffle)

    def __init__(self, downscale_factor: int) -> None:
        self._fix(downscale_factor=downscale_factor)


class ChannelShuffle(Fixed):
    """Channels dealt out from groups (Zhang et al., 2018)."""

    function = staticmethod(channel_shuffle)

    def __init__(self, groups: int) -> None:
        self._fix(groups=groups)


class Upsample(Fixed):
    """`interpolate` with fixed options.

    (n, c, ...) -> (n, c, *size). `size`, or `scale_factor`, a factor or one per dim. `mode`:
    "nearest", "linear", "bilinear", "bicubic", "trilinear" or "area". `align_corners`: corners
    of input and output coincide. `recompute_scale_factor`: the factor is that of the rounded
    sizes. The call raises ValueError for both or none of size and factor, and for a mode that
    does not fit the dims.
    """

    function = staticmethod(interpolate)

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        self.name = type(self).__name__
        if scale_factor is not None:
            several = isinstance(scale_factor, tuple)
            scale_factor = tuple(map(float, scale_factor)) if several else float(scale_factor)
        self._fix(
            size=size,
            scale_factor=scale_factor,
            mode=mode,
            align_corners=align_corners,
            recompute_scale_factor=recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """The scale or the size, and the mode, as in torch."""
        attributes = vars(self)
        name = "size" if attributes["scale_factor"] is None else "scale_factor"
        return f"{name}={attributes[name]!r}, mode={attributes['mode']!r}"


class UpsamplingNearest2d(Upsample):
    """`interpolate` to the nearest element."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """`interpolate` between four elements, corners aligned."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class _Padding(Module):
    """Pads the last dims: one number for all sides, or one per side as `pad` takes them."""

    rank, mode = 1, "constant"
    value: float | None = None

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        all_sides = isinstance(padding, int)
        self.padding: Any = (padding,) * (2 * self.rank) if all_sides else padding

    def forward(self, input: Tensor) -> Tensor:
        """(..., sizes) -> the sizes with their padding."""
        return pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """The numbers."""
        return f"{self.padding}"


class ReflectionPad1d(_Padding):
    """Pads with the elements mirrored at the border."""

    rank, mode = 1, "reflect"


class ReflectionPad2d(_Padding):
    """Pads with the elements mirrored at the border."""

    rank, mode = 2, "reflect"


class ReflectionPad3d(_Padding):
    """Pads with the elements mirrored at the border."""

    rank, mode = 3, "reflect"


class ReplicationPad1d(_Padding):
    """Pads with the outermost elements."""

    rank, mode = 1, "replicate"


class ReplicationPad2d(_Padding):
    """Pads with the outermost elements."""

    rank, mode = 2, "replicate"


class ReplicationPad3d(_Padding):
    """Pads with the outermost elements."""

    rank, mode = 3, "replicate"


class CircularPad1d(_Padding):
    """Pads with the elements of the other end."""

    rank, mode = 1, "circular"


class CircularPad2d(_Padding):
    """Pads with the elements of the other end."""

    rank, mode = 2, "circular"


class CircularPad3d(_Padding):
    """Pads with the elements of the other end."""

    rank, mode = 3, "circular"


class _Constant(_Padding):
    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        """The numbers."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_Constant):
    """Pads with one value."""

    rank = 1


class ConstantPad2d(_Constant):
    """Pads with one value."""

    rank = 2


class ConstantPad3d(_Constant):
    """Pads with one value."""

    rank = 3


class ZeroPad1d(_Padding):
    """Pads with zeros."""

    rank, value = 1, 0.0


class ZeroPad2d(_Padding):
    """Pads with zeros."""

    rank, value = 2, 0.0


class ZeroPad3d(_Padding):
    """Pads with zeros."""

    rank, value = 3, 0.0
