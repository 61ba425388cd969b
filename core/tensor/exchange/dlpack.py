"""DLPack's capsules of dtypes that NumPy has not: bfloat16 and float8 pass as integers.

NumPy makes and reads the capsules; here only the name of the dtype in one is changed. The structs
and the codes are those of dlpack.h, versions 0.8 and 1.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import DType, bfloat16, float8_e4m3fn, float8_e5m2

CPU = 1
_HOST = (CPU, 3, 11, 13)  # plain memory, and what CUDA and ROCm share with the process
_INTEGER, _CODES = 0, {bfloat16: 4, float8_e4m3fn: 10, float8_e5m2: 12}
_WORD = ctypes.sizeof(ctypes.c_void_p)
# The dtype lies behind the address, the device and the number of dims; from version 1 on all of
# this lies behind the version, two pointers and the flags.
_AT = {b"dltensor": _WORD + 12, b"dltensor_versioned": 3 * _WORD + 28}

_COPIED: Any = {"device": "cpu"}


def dtype_of(capsule: Any) -> Any:
    """The code of the dtype in a capsule, as a byte to read or to write."""
    api = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))(capsule)
    if name not in _AT:
        raise BufferError(f"from_dlpack: the capsule is {name!r}; each can be read once")
    find = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return ctypes.c_uint8.from_address(
        find(("PyCapsule_GetPointer", api))(capsule, name) + _AT[name]
    )


def exported(array: np.ndarray[Any, Any], dtype: DType, max_version: Any) -> Any:
    """A capsule of the stored elements of a tensor of `dtype`.

    `array` has the elements, `max_version` is what the reader knows. Raises BufferError for
    read-only memory and a reader of the first version.
    """
    if max_version is None and not array.flags.writeable:
        raise BufferError(
            "__dlpack__: the memory is read-only, which DLPack says from version 1 on; "
            "use max_version=(1, 0) or copy=True"
        )
    capsule = array.__dlpack__(**({} if max_version is None else {"max_version": max_version}))
    if dtype.encoded:
        dtype_of(capsule).value = _CODES[dtype]
    return capsule


class Source:
    """An object with `__dlpack__`, or a capsule, for NumPy to read.

    dtype: what NumPy has no name for and reads as integers, or None.
    """

    def __init__(self, source: Any) -> None:
        self.source = source
        self.dtype: DType | None = None
        self.old = False  # of a version that cannot say what is read-only
        self.is_capsule = type(source).__name__ == "PyCapsule"
        if not self.is_capsule and not hasattr(source, "__dlpack__"):
            raise TypeError(f"from_dlpack: {type(source).__name__} has no __dlpack__")

    @property
    def on_host(self) -> bool:
        """Whether the memory is the process's own."""
        try:
            return self.is_capsule or self.source.__dlpack_device__()[0] in _HOST
        except BufferError:  # a device that DLPack has no number for
            return False

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.source if self.is_capsule else self.source.__dlpack__(**options)
        code = dtype_of(capsule)
        self.old = '"dltensor"' in repr(capsule)
        for dtype, number in _CODES.items():
            if code.value == number:
                self.dtype, code.value = dtype, _INTEGER
        return capsule

    def read(self) -> np.ndarray[Any, Any]:
        """The memory as an array; of another device a copy."""
        array: Any = np.from_dlpack(self, **({} if self.on_host else _COPIED))
        return np.asarray(_Writable(array)) if self.old and array.size else array


class _Writable:
    """An array that NumPy took for read-only since its capsule is of an old version."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array, interface = array, array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}
