"""Dtypes as the standard has them: promotion, casts, and what devices compute with."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from rushlight.core.backends import HOST, Device, devices
from rushlight.core.backends import device as _device
from rushlight.core.basis import limits
from rushlight.core.basis.dtype import DTYPES, PARTS, DType, as_dtype, promote_types
from rushlight.core.functional import declared as _declared
from rushlight.core.ops.declare import PUBLIC
from rushlight.core.tensor.tensor import Tensor

assert _declared.__all__  # the import has run every declaration
Function = Callable[..., Any]
F: dict[str, Function] = PUBLIC  # the functions of torch's names
STANDARD = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
).split()
_NUMBERS = {bool: "b", int: "uifc", float: "fc", complex: "c"}
_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def dtype_of(value: Any) -> DType:
    """The dtype of a tensor, or that `value` names."""
    return value.dtype if isinstance(value, Tensor) else as_dtype(value)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that tensors and dtypes promote to; a 0-d tensor counts like any other.

    Python numbers take part by their kind only: TypeError for one that the dtype cannot hold, and
    where there is nothing else.
    """
    dtypes = [dtype_of(x) for x in arrays_and_dtypes if type(x) not in _NUMBERS]
    if not dtypes:
        raise TypeError("result_type: needs a tensor or a dtype beside Python's numbers")
    dtype_of_all = reduce(promote_types, dtypes)
    for x in arrays_and_dtypes:
        if type(x) is complex and dtype_of_all.kind == "f":
            dtype_of_all = promote_types(dtype_of_all, DTYPES["complex64"])
        elif type(x) in _NUMBERS and dtype_of_all.kind not in _NUMBERS[type(x)]:
            raise TypeError(f"result_type: {x!r} does not go with {dtype_of_all.name}")
    return dtype_of_all


def promoted(*values: Any) -> tuple[Tensor, ...]:
    """Tensors of one dtype; a Python number becomes a 0-d tensor on the device of the others."""
    dtype = result_type(*values)
    place = next(v.device for v in values if isinstance(v, Tensor))
    return tuple(
        v.to(dtype) if isinstance(v, Tensor) else F["full"]((), v, dtype=dtype, device=place)
        for v in values
    )


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a dtype is `kind`: a dtype, the name of a kind, or one of a tuple of these.

    ValueError for an unknown kind, with those that there are.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and kind not in _KINDS:
        raise ValueError(f"isdtype: no kind {kind!r}; supported: {', '.join(_KINDS)}")
    return dtype.kind in _KINDS[kind] if isinstance(kind, str) else dtype is as_dtype(kind)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype promotes to `to`; of two kinds of number only from real to complex."""
    a, b = dtype_of(from_), dtype_of(to)
    kinds = {a.kind, b.kind}
    return (len(kinds) == 1 or kinds in ({"u", "i"}, {"f", "c"})) and promote_types(a, b) is b


def finfo(type: Any, /) -> limits.finfo:
    """The limits of a floating dtype, of a complex one's parts, or of a tensor's."""
    return limits.finfo(PARTS.get(dtype_of(type), dtype_of(type)))


def iinfo(type: Any, /) -> limits.iinfo:
    """The limits of an integer dtype, or of a tensor's."""
    return limits.iinfo(dtype_of(type))


class _Info:
    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Device:
        return HOST

    def devices(self) -> list[Device]:
        return devices()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        names = {
            "real floating": "float32",
            "complex floating": "complex64",
            "integral": "int64",
            "indexing": "int64",
        }
        return {kind: DTYPES[name] for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        supported = {}
        for name in STANDARD:
            if kind is None or isdtype(DTYPES[name], kind):
                try:
                    F["empty"]((0,), dtype=name, device=_device(device or HOST))
                except TypeError:  # a dtype that the device has not
                    continue
                supported[name] = DTYPES[name]
        return supported


def __array_namespace_info__() -> Any:
    """The object that tells devices, dtypes and capabilities."""
    return _Info()
