"""Tensors as a pickle of PyTorch describes them: storages, layouts, and what is made of others.

The calls are those of torch/_utils.py and torch/_tensor.py of PyTorch 2.14.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import DTYPES, DType
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.layout import MOST_ELEMENTS, Layout, count_elements
from rushlight.core.io.weights.pickles.numpy_values import NUMPY, ArrayRef
from rushlight.core.io.weights.pickles.objects import LeftOut, Named, Record
from rushlight.core.io.weights.pickles.plain import PLAIN, Maker
from rushlight.core.tensor.tensor import Tensor, from_numpy

MAX_DIMS = 32
STORAGES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16",
    "Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8",
    "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128", "Untyped": "uint8",
}  # fmt: skip
_INTEGERS = {"QInt8": "int8", "QUInt8": "uint8", "QInt32": "int32"}  # of quantized tensors
_SPREAD = 1 << 24  # elements that a tensor may have beyond those that its storage has


@dataclass(frozen=True, slots=True, eq=False)
class StorageRef:
    """A storage of `numel` elements of the file, named by its key; begin: a view's first one.

    location: the device that it was saved on, such as cuda:0.
    """

    key: str
    dtype: DType
    numel: int
    begin: int = 0
    location: str = "cpu"


@dataclass(frozen=True, slots=True, eq=False)
class TensorRef:
    """A tensor as the pickle describes it."""

    storage: StorageRef
    dtype: DType
    layout: Layout


@dataclass(frozen=True, slots=True, eq=False)
class DerivedRef:
    """A tensor that is computed from others of the file: how, and of what."""

    how: str
    parts: tuple[Any, ...]

    @property
    def storage(self) -> StorageRef:
        """The storage of the first part, which says where it was saved."""
        return next(
            (p.storage for p in self.parts if type(p) is TensorRef),
            StorageRef("", DTYPES["uint8"], 0),
        )


def _layout(storage: Any, offset: Any, shape: Any, strides: Any, kind: DType) -> Layout:
    numbers = (offset, *shape, *strides)
    if type(storage) is not StorageRef or not all(type(n) is int and n >= 0 for n in numbers):
        raise ValueError("not a storage and whole numbers")
    if len(shape) != len(strides) or len(shape) > MAX_DIMS:
        raise ValueError(f"a shape of {len(shape)} dims and {len(strides)} strides")
    if count_elements(shape) > MOST_ELEMENTS or max(numbers) > MOST_ELEMENTS:
        raise ValueError("larger than any memory")
    if storage.begin and kind is not storage.dtype:
        raise ValueError("a view of a storage of another dtype")
    layout = Layout(tuple(shape), tuple(strides), storage.begin + offset)
    elements = storage.numel * storage.dtype.itemsize // kind.itemsize
    if layout.extent[1] > storage.begin + elements or offset > elements:
        raise ValueError(f"beyond the {elements} elements of storage {brief(storage.key)}")
    if layout.numel > max(elements, _SPREAD):
        raise ValueError(f"{layout.numel} elements out of {elements}")
    return layout


def _tensor(
    storage: Any,
    offset: Any,
    shape: Any,
    strides: Any,
    grad: Any = False,
    hooks: Any = None,
    bits: Any = None,
    *_: Any,
    dtype: DType | None = None,
) -> TensorRef | DerivedRef:
    """_rebuild_tensor and _rebuild_tensor_v2; gradients and hooks are left out.

    bits: whether the numbers are conjugated or negated when they are read.
    """
    kind: DType = dtype or (storage.dtype if type(storage) is StorageRef else DTYPES["uint8"])
    ref: TensorRef | DerivedRef
    ref = TensorRef(storage, kind, _layout(storage, offset, shape, strides, kind))
    for how in ("conj", "neg"):
        if type(bits) is dict and bits.get(how) is True:
            ref = DerivedRef(how, (ref,))
    return ref


def _tensor_v3(
    storage: Any,
    offset: Any,
    shape: Any,
    strides: Any,
    grad: Any,
    hooks: Any,
    dtype: Any,
    bits: Any = None,
    *_: Any,
) -> TensorRef | DerivedRef | LeftOut:
    if type(dtype) is Named and dtype.name == "torch.complex32":
        pairs = (offset * 2, (*shape, 2), (*(2 * n for n in strides), 1))
        return DerivedRef("complex", (_tensor(storage, *pairs, dtype=DTYPES["float16"]),))
    if type(dtype) is Named:
        return LeftOut(f"a tensor of {dtype.name}")
    if type(dtype) is not DType:
        raise ValueError("not a dtype")
    return _tensor(storage, offset, shape, strides, grad, hooks, bits, dtype=dtype)


def _quantized(
    storage: Any, offset: Any, shape: Any, strides: Any, scheme: Any, *_: Any
) -> DerivedRef:
    """_rebuild_qtensor: the numbers that the steps stand for."""
    steps = _tensor(storage, offset, shape, strides)
    name = scheme[0].name.removeprefix("torch.") if type(scheme[0]) is Named else ""
    scale, zero = scheme[1:3]
    if name == "per_tensor_affine" and type(scale) is float and type(zero) is int:
        return DerivedRef("quantized", (steps, scale, zero, None))
    known = name.startswith("per_channel_affine") and type(scheme[3]) is int
    if known and type(scale) is type(zero) is TensorRef and 0 <= scheme[3] < len(shape):
        return DerivedRef("quantized", (steps, scale, zero, scheme[3]))
    raise ValueError("not a scheme of quantization that is known")


def _sparse(layout: Any, data: Any) -> DerivedRef:
    """_rebuild_sparse_tensor: indices, values and the shape, in each of torch's layouts."""
    name = str(layout).removeprefix("torch.sparse_")
    *parts, shape = data[:3] if name == "coo" else data[:4]
    said = name == "coo" and data[3:] == (True,)  # that its indices are in order, each once
    if name not in ("coo", "csr", "csc") or not all(type(tensor) is TensorRef for tensor in parts):
        raise ValueError("not a layout that is known")
    _size(shape)
    if count_elements(shape) > MOST_ELEMENTS or len(shape) > MAX_DIMS or min(shape, default=0) < 0:
        raise ValueError("larger than any memory")
    return DerivedRef("sorted coo" if said else name, (*parts, tuple(shape)))


def _meta(dtype: Any, shape: Any, strides: Any, *_: Any) -> DerivedRef:
    if type(dtype) is not DType or count_elements(_size(shape)) > MOST_ELEMENTS:
        raise ValueError("not a dtype and a shape")
    if min(shape, default=0) < 0 or len(shape) > MAX_DIMS:
        raise ValueError("not a shape")
    return DerivedRef("meta", (dtype, tuple(shape)))


def _of_array(values: Any, dtype: Any, *_: Any) -> DerivedRef:
    """A tensor of a device without storages, which is saved as an array of NumPy."""
    if type(values) is not ArrayRef or type(dtype) is not DType:
        raise ValueError("not an array")
    return DerivedRef("array", (values, dtype))


def _same(tensor: Any, *_: Any) -> Any:
    """A parameter, or a tensor that was copied from another device."""
    if type(tensor) not in (TensorRef, DerivedRef, LeftOut):
        raise ValueError("not a tensor")
    return tensor


def _from_type(rebuild: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A parameter, or a tensor with attributes, which are left out."""
    if type(rebuild) is not Maker or type(arguments) is not tuple or rebuild.make is _from_type:
        raise ValueError("not a tensor")
    return _same(rebuild.make(*arguments))


def _size(items: Any) -> tuple[int, ...]:
    if type(items) not in (tuple, list) or not all(type(n) is int for n in items):
        raise ValueError("not whole numbers")
    return tuple(items)


def _device(kind: Any, index: Any = None) -> str:
    if type(kind) is not str or type(index) not in (int, type(None)):
        raise ValueError("not the name of a device")
    return kind if index is None else f"{kind}:{index}"


def _name(name: Any) -> str:
    if type(name) is not str:
        raise ValueError("not a name")
    return name


_MAKERS: dict[str, Callable[..., Any]] = {
    "_utils._rebuild_tensor": _tensor,
    "_utils._rebuild_tensor_v2": _tensor,
    "_utils._rebuild_tensor_v3": _tensor_v3,
    "_utils._rebuild_qtensor": _quantized,
    "_utils._rebuild_sparse_tensor": _sparse,
    "_utils._rebuild_sparse_csr_tensor": _sparse,
    "_utils._rebuild_meta_tensor_no_storage": _meta,
    "_utils._rebuild_device_tensor_from_numpy": _of_array,
    "_utils._rebuild_device_tensor_from_cpu_tensor": _same,
    "_utils._rebuild_parameter": _same,
    "_utils._rebuild_parameter_with_state": _same,
    "_tensor._rebuild_from_type_v2": _from_type,
    "Size": _size,
    "device": _device,
    "serialization._get_layout": _name,
}
_LOOSE = (_sparse, _quantized, _meta, _from_type)  # left out where they are of another kind
_STRICT = {n: Maker(f"torch.{n}", make, make not in _LOOSE) for n, make in _MAKERS.items()}
# What rushlight has no object for is read as its name.
_TEXTS = (
    "per_tensor_affine", "per_channel_affine", "per_channel_affine_float_qparams",
    "per_tensor_symmetric", "per_channel_symmetric", "contiguous_format", "channels_last",
    "channels_last_3d", "preserve_format", "quint8", "qint8", "qint32", "quint4x2", "quint2x4",
    "complex32", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2",
    *(f"bits{n}" for n in ("1x8", "2x4", "4x2", "8", "16")),
    *(f"{kind}{n}" for kind in ("int", "uint") for n in range(1, 8)),
)  # fmt: skip
NAMES: dict[str, Any] = {
    **{f"torch.{name}": Named(f"torch.{name}", f"torch.{name}") for name in _TEXTS},
    **{f"torch._utils.torch.{name}": Named(f"torch.{name}", f"torch.{name}") for name in _TEXTS},
    **PLAIN,
    **NUMPY,
    **{f"torch.{name}": maker for name, maker in _STRICT.items()},
    **{f"torch.{name}": dtype for name, dtype in DTYPES.items() if dtype.kind != "q"},
    **{f"torch.{name}Storage": DTYPES[dtype] for name, dtype in {**STORAGES, **_INTEGERS}.items()},
    "torch.storage.UntypedStorage": DTYPES["uint8"],
}


# --- what is computed ----------------------------------------------------------------------------


def derive(ref: DerivedRef, leaf: Callable[[TensorRef], Tensor]) -> Tensor | LeftOut:
    """The tensor, on the host; `leaf` reads its parts. Raises FormatError for wrong indices."""
    parts: list[Any] = [leaf(p) if type(p) is TensorRef else p for p in ref.parts]
    if type(parts[0]) is DerivedRef:
        parts[0] = derive(parts[0], leaf)
    match ref.how:
        case "conj":
            return from_numpy(parts[0].numpy().conj())
        case "neg":
            return from_numpy(-parts[0].numpy())
        case "complex":
            pairs = np.ascontiguousarray(parts[0].numpy().astype(np.float32))
            return from_numpy(pairs.view(np.complex64)[..., 0])
        case "array":
            values = parts[0].values()
            if values.dtype.kind not in "biufc":
                return LeftOut(f"a tensor of {values.dtype}")
            return from_numpy(values).to(parts[1])
        case "meta":
            layout = Layout.contiguous(parts[1])
            return (
                Tensor.from_buffer(np.empty(0, "u1"), parts[0], (0,))
                .to("meta")
                .new_empty(layout.shape)
            )
        case "quantized":
            return from_numpy(_dequantized(*parts))
    shape = parts[-1]
    if ref.how.endswith("coo"):
        return _coo(parts[0], parts[1], shape, said=ref.how != "coo")
    if math.prod(shape) > _SPREAD + 64 * parts[-2].numel():
        return LeftOut(f"a sparse tensor of shape {shape!s:.100}")
    ends, other, values = (p.numpy() for p in parts[:-1])
    return from_numpy(_dense(ref.how, ends, other, values, shape))


def _dequantized(steps: Tensor, scale: Any, zero: Any, dim: int | None) -> Any:
    if dim is not None:
        turned = [1] * steps.ndim
        turned[dim] = -1
        scale, zero = (t.numpy().reshape(turned) for t in (scale, zero))
    zero, scale = np.asarray(zero, np.float32), np.asarray(scale, np.float32)
    return (steps.numpy().astype(np.float32) - zero) * scale


def _coo(indices: Tensor, values: Tensor, shape: tuple[int, ...], said: bool) -> Tensor:
    """A sparse tensor; said: whether the file has it that its indices are in order, each once."""
    from rushlight.core.sparse.coo import SparseTensor

    index = indices.numpy()
    dims = index.shape[0] if index.ndim == 2 and index.dtype.kind in "iu" else -1
    if dims < 0 or dims > len(shape) or values.shape != (index.shape[1], *shape[dims:]):
        raise FormatError("a sparse tensor's indices do not fit its values")
    sizes = np.array(shape[:dims], np.int64).reshape(-1, 1)
    if ((index < 0) | (index >= sizes)).any():
        raise FormatError(f"a sparse tensor of shape {shape} has an index out of range")
    steps = np.array([math.prod(shape[i + 1 : dims]) for i in range(dims)], np.int64)
    sorted_ = said and bool((np.diff(steps @ index.astype(np.int64)) > 0).all())
    return SparseTensor(indices.to("int64"), values, shape, sorted_)


def _dense(how: str, ends: Any, other: Any, values: Any, shape: tuple[int, ...]) -> Any:
    """The dense matrix of one with its rows or columns compressed; equal places are added."""
    if ends.ndim != 1 or other.ndim != 1 or len(shape) != 2:
        raise FormatError(f"a sparse tensor of shape {shape} with batches is not supported")
    outer, inner = shape if how == "csr" else shape[::-1]
    counts = np.diff(ends)
    if len(counts) != outer or (counts < 0).any() or ends[0] or ends[-1] != len(other):
        raise FormatError("a sparse tensor's rows are not those of its indices")
    if values.shape != other.shape:
        raise FormatError("a sparse tensor's indices do not fit its values")
    if ((other < 0) | (other >= inner)).any():
        raise FormatError(f"a sparse tensor of shape {shape} has an index out of range")
    rows = np.repeat(np.arange(outer), counts)
    place = (rows, other) if how == "csr" else (other, rows)
    array = np.zeros(shape, values.dtype)
    if values.dtype == np.bool_:
        array[place] = values
    else:
        np.add.at(array, place, values)
    return array


def storage_tensor(ref: StorageRef) -> TensorRef:
    """A storage by itself: its elements in a row."""
    return TensorRef(ref, ref.dtype, Layout((ref.numel,), (1,), ref.begin))


def is_reference(value: Any) -> bool:
    """Whether a value of a pickle stands for a tensor or an object."""
    return type(value) in (TensorRef, DerivedRef, StorageRef, Record, ArrayRef)
