"""What programs ask of a tensor: its kind, size and place; and older spellings of conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.backends import HOST
from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.basis.errors import DeviceError, ShapeError
from rushlight.core.ops.common import is_tensor as _is_tensor
from rushlight.core.ops.declare import method, public

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@method()
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype and on the device of `other`."""
    return x.to(dtype=other.dtype, device=other.device)


@public
@method()
def is_nonzero(x: Tensor) -> bool:
    """Whether the one element is not zero; reads it."""
    if x.numel() != 1:
        raise ShapeError(f"is_nonzero: x is {x.shape}; it must have one element")
    return bool(x.item())


@public
def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a Tensor."""
    return _is_tensor(obj)


@public
@method()
def is_floating_point(x: Tensor) -> bool:
    """Whether the dtype is a floating one."""
    return x.dtype.is_floating_point


@public
@method()
def is_signed(x: Tensor) -> bool:
    """Whether the dtype holds negative numbers."""
    return x.dtype.kind in "ifc"


@public
@method()
def is_same_size(x: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    return x.shape == other.shape


@public
@method()
def is_inference(x: Tensor) -> bool:
    """Whether its memory was made in `inference_mode`."""
    return x.storage.inference


@public
def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


@method()
def nelement(x: Tensor) -> int:
    """The number of elements."""
    return x.numel()


@method()
def ndimension(x: Tensor) -> int:
    """The number of dims."""
    return x.ndim


@method()
def element_size(x: Tensor) -> int:
    """Bytes of an element."""
    return x.dtype.itemsize


@public
@method()
def get_device(x: Tensor) -> int:
    """The number of the GPU that holds the tensor; -1 on cpu."""
    return -1 if x.device.index is None else x.device.index


@method()
def data_ptr(x: Tensor) -> int:
    """The address of the first element, on cpu. ValueError on other devices."""
    if x.device is not HOST:
        raise ValueError(f"data_ptr: the tensor is on {x.device}, whose memory has no address here")
    return x.storage.address + x.layout.offset * x.dtype.itemsize


@public
def detach(input: Tensor) -> Tensor:
    """A tensor of the same memory without history."""
    return input.detach()


@public
@method()
def detach_(x: Tensor) -> Tensor:
    """Forget the history of a tensor, which becomes a leaf without gradient; returns it."""
    if x.is_view:
        raise RuntimeError("detach_: the tensor is a view; use detach()")
    x.node, x.needs_grad = None, False
    return x


@method()
def cuda(x: Tensor, *args: Any, **options: Any) -> Tensor:
    """DeviceError: no device here is of CUDA.

    `x`, `args` and `options` are taken as torch takes them.
    """
    raise DeviceError("cuda: there is no such device; a GPU of any maker is x.to('webgpu')")


@method()
def pin_memory(x: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: no device here copies pinned memory faster."""
    return x


@method("is_pinned", "is_shared", "is_coalesced")
def is_pinned(x: Tensor, *ignored: Any) -> bool:
    """False."""
    return False


@method()
def share_memory_(x: Tensor) -> Tensor:
    """The tensor itself; threads share its memory, processes do not."""
    return x


@method()
def type(x: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the type, such as "torch.FloatTensor"; with a dtype or type, the tensor as it.

    `x` is returned where it is of it; `non_blocking` changes nothing. Raises TypeError for no type.
    """
    if dtype is None:
        name = LEGACY.get(x.dtype.name)
        return f"torch.{name}" if name else x.dtype.name
    return x.to(legacy_dtype(dtype))


# The dtypes that had a type of their own in torch.
LEGACY = {
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
    "float16": "HalfTensor",
    "bfloat16": "BFloat16Tensor",
    "int64": "LongTensor",
    "int32": "IntTensor",
    "int16": "ShortTensor",
    "int8": "CharTensor",
    "uint8": "ByteTensor",
    "bool": "BoolTensor",
}


def legacy_dtype(kind: Any) -> DType:
    """The dtype of a type such as rl.FloatTensor or "torch.FloatTensor", or of what names one."""
    if isinstance(kind, str):
        short = kind.removeprefix("torch.")
        return as_dtype(next((d for d, name in LEGACY.items() if name == short), kind))
    return as_dtype(getattr(kind, "dtype", kind))


@method()
def to_dense(x: Tensor, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
    """The tensor itself, as none is sparse; in another dtype where one is given.

    `x` is returned; `masked_grad` changes nothing. Raises TypeError for a dtype that is not known.
    """
    return x if dtype is None else x.to(dtype)
