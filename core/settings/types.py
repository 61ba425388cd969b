"""Types by dtype, as in older programs: `rl.LongTensor([1, 2])`, `isinstance(x, rl.ByteTensor)`.

And torch's memory formats, which arguments may name: memory is row-major all the same.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.functional.attributes import LEGACY
from rushlight.core.tensor.convert import of_sizes_or_values
from rushlight.core.tensor.tensor import Tensor


class memory_format(str):
    """A memory format; it changes no number and no memory."""

    def __repr__(self) -> str:
        return f"rushlight.{self}"


_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
globals().update({_name: memory_format(_name) for _name in _FORMATS})
__all__ = [*LEGACY.values(), "memory_format", *_FORMATS]


class _Typed(type):
    dtype: DType

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype

    def __call__(cls, *values: Any) -> Tensor:
        return of_sizes_or_values(cls.dtype, values)


for _dtype, _name in LEGACY.items():
    _note = f"Tensors of {_dtype}: call it with sizes, or a sequence; isinstance asks the dtype."
    globals()[_name] = _Typed(_name, (), {"dtype": as_dtype(_dtype), "__doc__": _note})
