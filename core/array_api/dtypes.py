"""Dtypes, and what `__array_namespace_info__` says of them and of devices."""

from __future__ import annotations

from typing import Any

from rushlight.core.array_api.common import F, result_type
from rushlight.core.backends import HOST, Device
from rushlight.core.backends import device as _device
from rushlight.core.backends import devices as _devices
from rushlight.core.basis import limits
from rushlight.core.basis.dtype import DTYPES, PARTS, DType, as_dtype, promote_types
from rushlight.core.tensor.tensor import Tensor

__all__ = ["__array_namespace_info__", "astype", "can_cast", "finfo", "iinfo", "isdtype",
           "result_type"]  # fmt: skip
_STANDARD = "bool int8 int16 int32 int64 uint8 uint32 float32 float64 complex64 complex128"
_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
    "real floating": "f", "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a dtype is `kind`: a dtype, the name of a kind, or one of a tuple of these.

    ValueError for an unknown kind, with those that there are.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: no kind {kind!r}; supported: {', '.join(_KINDS)}")
        return dtype.kind in _KINDS[kind]
    return dtype is as_dtype(kind)


def finfo(type: Any, /) -> limits.finfo:
    """The limits of a floating dtype, of a complex one's parts, or of a tensor's."""
    dtype = type.dtype if isinstance(type, Tensor) else as_dtype(type)
    return limits.finfo(PARTS.get(dtype, dtype))


def iinfo(type: Any, /) -> limits.iinfo:
    """The limits of an integer dtype, or of a tensor's."""
    return limits.iinfo(type.dtype if isinstance(type, Tensor) else type)


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The elements in another dtype, and on another device; copy=False keeps x where it can."""
    if x.dtype.kind == "c" and as_dtype(dtype).kind not in "cb":
        raise TypeError(f"astype: {x.dtype.name} to {as_dtype(dtype).name}; take real or imag")
    return x.to(dtype=dtype, device=device, copy=copy)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype, or a tensor's, promotes to `to`; never from one kind of number to another,
    but from real to complex."""
    a, b = (v.dtype if isinstance(v, Tensor) else as_dtype(v) for v in (from_, to))
    kinds = {a.kind, b.kind}
    return (len(kinds) == 1 or kinds in ({"u", "i"}, {"f", "c"})) and promote_types(a, b) is b


class _Info:
    """What the namespace can do; https://data-apis.org/array-api has the methods."""

    def capabilities(self) -> dict[str, Any]:
        """Masks and results of unknown shape are there; a tensor has any number of dims."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Device:
        """The device of tensors from numbers."""
        return HOST

    def devices(self) -> list[Device]:
        """The devices that this process can use."""
        return _devices()

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of Python's numbers and of indices."""
        names = {"real floating": "float32", "complex floating": "complex64",
                 "integral": "int64", "indexing": "int64"}  # fmt: skip
        return {kind: DTYPES[name] for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The standard's dtypes that a device computes with, of these kinds."""
        found = {}
        for name in _STANDARD.split():
            if kind is None or isdtype(DTYPES[name], kind):
                try:
                    F["empty"]((0,), dtype=name, device=_device(device or HOST))
                except TypeError:
                    continue
                found[name] = DTYPES[name]
        return found


def __array_namespace_info__() -> Any:
    """The object that tells devices, dtypes and capabilities."""
    return _Info()
