"""Methods of Tensor that are not declared by an op: dtype conversions, and sizes and strides.

The methods that ops declare (core/ops/declare.py) are inherited.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core import ops
from rushlight.core.backends import HOST
from rushlight.core.basis import dtype as _d
from rushlight.core.basis.layout import Size
from rushlight.core.functional.declared import Declared
from rushlight.core.functional.fourier.parts import real
from rushlight.core.ops.complex import imag
from rushlight.core.ops.unary import turned

if TYPE_CHECKING:
    from rushlight.core.basis.layout import Shape
    from rushlight.core.tensor.tensor import Tensor


def _reversed(x: Tensor) -> Tensor:
    """A view with all dims in reverse order."""
    return ops.permute(x, *range(x.ndim - 1, -1, -1))


def _swapped(x: Tensor) -> Tensor:
    """A view with the last two dims exchanged."""
    return ops.transpose(x, -1, -2)


def _cpu(x: Tensor) -> Tensor:
    """On the cpu device."""
    return x.to("cpu")


def _dequantized(x: Tensor) -> Tensor:
    """Quantized blocks as float32; other dtypes give the tensor itself."""
    return ops.cast(x, _d.float32) if x.dtype.kind == "q" else x


def _as(dtype: _d.DType) -> Callable[[Tensor], Tensor]:
    def call(x: Tensor, memory_format: Any = None) -> Tensor:
        return x if x.dtype is dtype else ops.cast(x, dtype)

    call.__doc__ = f"The elements as {dtype.name}; the tensor itself if that is its dtype."
    return call


class Methods(Declared):
    """Sizes and strides of a tensor, and conversions to other dtypes."""

    __slots__ = ()

    @property
    def shape(self) -> Size:
        """Sizes of the dims."""
        return Size(self.layout.shape)

    @property
    def nbytes(self) -> builtins.int:
        """Bytes that the elements take."""
        return self.dtype.nbytes(self.numel())

    cpu, dequantize = _cpu, _dequantized
    T, mT = property(_reversed), property(_swapped)
    mH = H = property(lambda x: turned(_swapped(x)))
    real, imag = property(real), property(imag)

    # Conversions to another dtype.
    double, half, bfloat16 = _as(_d.float64), _as(_d.float16), _as(_d.bfloat16)
    long, short = _as(_d.int64), _as(_d.int16)
    float, int, bool = _as(_d.float32), _as(_d.int32), _as(_d.bool_)
    cfloat, cdouble = _as(_d.complex64), _as(_d.complex128)
    byte, char = _as(_d.uint8), _as(_d.int8)

    # What programs ask of the device and the layout.
    is_cpu = property(lambda x: x.device is HOST, doc="Whether the device is cpu.")
    is_meta = property(lambda x: x.device.type == "meta", doc="Whether it has no memory.")
    is_cuda = is_mps = is_xpu = is_sparse = is_nested = is_mkldnn = property(
        lambda x: False, doc="False: no tensor is."
    )
    is_quantized = property(lambda x: x.dtype.kind == "q", doc="Whether it holds GGUF's blocks.")
    itemsize = property(lambda x: x.dtype.itemsize, doc="Bytes of an element.")

    def dim(self) -> builtins.int:
        """Number of dims."""
        return self.ndim

    def size(self, dim: builtins.int | None = None) -> Any:
        """The shape, or the size of one dim."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self) -> Shape:
        """The step to the next element of each dim, in elements."""
        return self.layout.strides

    def storage_offset(self) -> builtins.int:
        """The position of the first element in the storage, in elements."""
        return self.layout.offset

    def is_contiguous(self) -> builtins.bool:
        """Whether the elements lie row-major without gaps."""
        return self.layout.is_contiguous
