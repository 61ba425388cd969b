"""Arrays, numbers and dtypes of NumPy in a pickle, made from their checked bytes.

The layout of the states is that of numpy/_core/src/multiarray (versions 1 to 4 of a dtype's).
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from rushlight.core.basis.errors import brief
from rushlight.core.io.weights.pickles.objects import Named
from rushlight.core.io.weights.pickles.plain import Maker, raw_bytes

_PLAIN = re.compile("b1|[iu][1248]|f[248]|c8|c16|[mM]8|[SUV][0-9]{1,7}|O[48]?")
_UNIT = re.compile("Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as|generic")
_LARGEST = 1 << 24  # bytes of an element
_MOST_FIELDS, _DEEP, _MOST_DIMS = 1000, 8, 32
_MOST_EMPTY = 1 << 20  # elements without bytes


class NumpyType:
    """A dtype of NumPy in a pickle: complete once it has its state. dtype: the one of NumPy."""

    def __init__(self, code: str) -> None:
        self.code, self.depth = code, 0
        self.dtype = np.dtype(f"S{code[1:]}" if code == "S0" else code)

    @property
    def objects(self) -> bool:
        """Whether the elements are objects, or texts of any length."""
        return self.code[0] in "OT"

    def with_state(self, state: Any) -> NumpyType:
        """Order of bytes, fields, and units of time."""
        if type(state) is not tuple or not 5 <= len(state) <= 9:
            raise ValueError(f"a dtype of NumPy with the state {brief(state)}")
        order, inner, names, fields = state[1:5]
        if order not in ("<", ">", "|", "="):
            raise ValueError(f"a dtype of NumPy with the state {brief(state)}")
        if names is not None:
            self.dtype = self._of_fields(names, fields, state[5])
        elif inner is not None:
            self.dtype = self._of_array(inner)
        elif self.code in ("M8", "m8"):
            self.dtype = np.dtype(f"{order}{self.code}{_unit(state)}")
        elif self.code[0] in "iufcU" and order in "<>":
            self.dtype = self.dtype.newbyteorder(order)
        return self

    def _inside(self, kind: Any) -> np.dtype[Any]:
        if type(kind) is not NumpyType or kind.objects or kind.depth >= _DEEP:
            raise ValueError("a field that is not of numbers or text")
        self.depth = max(self.depth, kind.depth + 1)
        return kind.dtype

    def _of_fields(self, names: Any, fields: Any, size: Any) -> np.dtype[Any]:
        if type(names) is not tuple or type(fields) is not dict or len(names) > _MOST_FIELDS:
            raise ValueError("not names and fields")
        rows = [fields[name] for name in names]
        if not all(
            type(row) is tuple and len(row) in (2, 3) and type(row[1]) is int for row in rows
        ):
            raise ValueError("not fields")
        kinds = [self._inside(row[0]) for row in rows]
        texts = [n.decode("latin-1") if type(n) is bytes else n for n in names]
        if (
            type(size) is not int
            or not 0 <= size <= _LARGEST
            or not all(
                type(n) is str and 0 <= row[1] <= _LARGEST
                for n, row in zip(texts, rows, strict=True)
            )
        ):
            raise ValueError("not fields")
        return np.dtype(
            {
                "names": texts,
                "formats": kinds,
                "offsets": [row[1] for row in rows],
                "itemsize": size,
            }
        )

    def _of_array(self, inner: Any) -> np.dtype[Any]:
        kind, shape = inner
        sizes = (shape,) if type(shape) is int else shape
        base = self._inside(kind)
        _check_shape(sizes)
        if math.prod(sizes) * max(1, base.itemsize) > _LARGEST:
            raise ValueError("an element of too many bytes")
        return np.dtype((base, sizes))


def _unit(state: Any) -> str:
    """The unit of dates, such as [25s]; nothing where the state has none."""
    date_unit = state[8] if len(state) == 9 else None
    if type(date_unit) is not tuple or len(date_unit) != 2 or type(date_unit[1]) is not tuple:
        return ""
    unit, count = raw_bytes(date_unit[1][0]).decode("latin-1"), date_unit[1][1]
    if not _UNIT.fullmatch(unit) or type(count) is not int or not 0 < count < 2**31:
        raise ValueError("a unit of time that is not known")
    return "" if unit == "generic" else f"[{count}{unit}]"


def _check_shape(shape: Any) -> None:
    fits = type(shape) is tuple and len(shape) <= _MOST_DIMS
    if not fits or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
        raise ValueError("not a shape")


class ArrayRef:
    """An array of NumPy in a pickle: complete once it has its state."""

    shape: tuple[int, ...] = (0,)
    kind = NumpyType("V0")
    data: Any = b""  # bytes, or a list of objects
    fortran = False
    mask: bytes | None = None

    def with_state(self, state: Any) -> ArrayRef:
        """(version, shape, dtype, whether columns come first, bytes), and a mask's bytes."""
        if type(state) is not tuple or len(state) not in (4, 5, 7):
            raise ValueError("not an array")
        shape, kind, fortran, data = state[1:5] if len(state) != 4 else state
        _check_shape(shape)
        if type(kind) is not NumpyType:
            raise ValueError("not an array of numbers, text or objects")
        count = math.prod(shape)
        if kind.objects:
            if type(data) is not list or len(data) != count:
                raise ValueError(f"no {count} objects")
        else:
            data = raw_bytes(data)
            if count * kind.dtype.itemsize != len(data) or (not data and count > _MOST_EMPTY):
                raise ValueError(f"{len(data)} bytes are no array of {shape}")
        if len(state) == 7:
            self.mask = raw_bytes(state[5])
            if kind.dtype.names is not None or len(self.mask) != count:
                raise ValueError("a mask that does not fit")
        self.shape, self.kind, self.fortran, self.data = shape, kind, fortran is True, data
        return self

    @property
    def order(self) -> Any:
        """NumPy's letter for the order of dims in memory."""
        return "F" if self.fortran else "C"

    def values(self, objects: Any = None) -> Any:
        """The array; objects: the finished ones in place of those that the pickle holds."""
        if self.kind.objects:
            array: Any = np.empty(len(self.data), object)
            array[:] = self.data if objects is None else objects
            if self.kind.code == "T" and all(type(text) is str for text in array):
                array = array.astype(self.kind.dtype)
        elif not self.kind.dtype.itemsize:
            array = np.zeros(math.prod(self.shape), self.kind.dtype)
        else:
            array = np.frombuffer(self.data, self.kind.dtype).copy()
        array = array.reshape(self.shape, order=self.order)
        if self.mask is None:
            return array
        mask = np.frombuffer(self.mask, np.bool_).reshape(self.shape, order=self.order)
        return np.ma.MaskedArray(array, mask.copy())


def _numpy_type(code: Any, *_: Any) -> NumpyType:
    if type(code) is Named and code.name.startswith("numpy.rec"):
        code = "V0"
    if type(code) is not str or not _PLAIN.fullmatch(code) or int(code[1:] or 8) > _LARGEST:
        raise ValueError("not the dtype of numbers, text or records")
    return NumpyType(code)


def _text_type(*_: Any) -> NumpyType:
    """A dtype of texts of any length."""
    text_type = NumpyType("O")
    text_type.code = "T"
    text_type.dtype = getattr(np.dtypes, "StringDType", lambda: np.dtype(object))()
    return text_type


def _scalar(kind: Any, raw: Any = b"") -> Any:
    """A number or text of NumPy as one of Python; a date or record as it is."""
    if type(kind) is not NumpyType or kind.objects:
        raise ValueError("not a number of NumPy")
    data = raw_bytes(raw)
    if len(data) != kind.dtype.itemsize or not data:
        if kind.code[0] in "SU" and not data:
            return b"" if kind.code[0] == "S" else ""
        raise ValueError("not a number of NumPy")
    scalar = np.frombuffer(data, kind.dtype)[0]
    return scalar.copy() if kind.code[0] in "mMV" else scalar.item()


def _of_buffer(data: Any, kind: Any, shape: Any, order: Any = "C") -> ArrayRef:
    return ArrayRef().with_state((1, shape, kind, order == "F", data))


_CALLS: dict[str, Any] = {
    "numpy.dtype": _numpy_type,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy._core.multiarray._reconstruct": lambda *_: ArrayRef(),
    "numpy._core.numeric._frombuffer": _of_buffer,
    "numpy.ma.core._mareconstruct": lambda *_: ArrayRef(),
    "numpy._core._internal._convert_to_stringdtype_kwargs": _text_type,
}
_TYPES = (
    "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128", "str_", "bytes_", "datetime64", "timedelta64",
)  # fmt: skip
NUMPY: dict[str, Any] = {
    **{name: Maker(name, make, strict=False) for name, make in _CALLS.items()},
    **{f"numpy.{name}": Named(f"numpy.{name}", getattr(np, name)) for name in _TYPES},
    "numpy.bool": Named("numpy.bool", np.bool_),
}
