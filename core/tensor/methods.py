"""Methods of Tensor that are not declared by an op: dtype conversions, and sizes and strides.

The methods that ops declare (core/ops/declare.py) are inherited.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core import ops
from rushlight.core.backends import HOST, Device
from rushlight.core.basis import dtype as _d
from rushlight.core.basis.layout import Size
from rushlight.core.functional.complex import real
from rushlight.core.functional.declared import Declared
from rushlight.core.ops.complex import imag
from rushlight.core.ops.unary import turned

if TYPE_CHECKING:
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


class UntypedStorage:
    """The memory of a tensor, as torch's class of that name tells about it."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self._tensor.device

    def nbytes(self) -> int:
        """Its size in bytes."""
        return int(self._tensor.storage.nbytes)

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """The address on cpu, elsewhere a number; equal for tensors of the same memory."""
        return self._tensor.storage.data_ptr()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other.data_ptr() == self.data_ptr()

    def __hash__(self) -> int:
        return self.data_ptr()


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

    names = property(lambda x: (None,) * x.ndim, doc="No dim has a name.")
    output_nr = property(lambda x: 0, doc="0: a node has one output.")
    _version = property(lambda x: x.storage.version)
    is_mtia = is_ipu = is_hpu = is_maia = is_xla = is_ort = is_vulkan = property(lambda x: False)

    def dim_order(self, ambiguity_check: Any = False) -> tuple[builtins.int, ...]:
        """The dims from the one with the largest step on."""
        strides = self.layout.strides
        return tuple(sorted(range(self.ndim), key=lambda d: -strides[d]))

    def _is_view(self) -> builtins.bool:
        return bool(self.is_view)  # type: ignore[attr-defined]

    def __contains__(self, value: Any) -> builtins.bool:
        return builtins.bool((self == value).any())

    def new(self: Any, *args: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """torch's older form of `new_empty` (sizes) and `new_tensor` (values).

        `args` are sizes or values; `dtype` and `device` are this tensor's unless set. Raises
        TypeError for other arguments.
        """
        from rushlight.core.tensor.convert import of_sizes_or_values  # it imports this module

        host = of_sizes_or_values(dtype or self.dtype, args)
        return host.to(device=device or self.device)

    def untyped_storage(self: Any) -> UntypedStorage:
        """What the tensor's memory is: its size in bytes, and whether another's is the same."""
        return UntypedStorage(self)

    def dim(self) -> builtins.int:
        """Number of dims."""
        return self.ndim

    def size(self, dim: builtins.int | None = None) -> Any:
        """The shape, or the size of one dim."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: builtins.int | None = None) -> Any:
        """The step to the next element of each dim, or of one, in elements."""
        return self.layout.strides if dim is None else self.layout.strides[dim]

    def storage_offset(self) -> builtins.int:
        """The position of the first element in the storage, in elements."""
        return self.layout.offset

    def is_contiguous(self, memory_format: Any = None) -> builtins.bool:
        """Whether the elements lie row-major without gaps, whatever the memory format asked for."""
        return self.layout.is_contiguous
