"""What the functions of the namespace share: promotion as the standard has it."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from rushlight.core.basis.dtype import DType, as_dtype, promote_types
from rushlight.core.functional import declared as _declared
from rushlight.core.ops.declare import PUBLIC
from rushlight.core.tensor.tensor import Tensor

assert _declared.__all__  # the import has run every declaration
Function = Callable[..., Any]
F: dict[str, Function] = PUBLIC  # the functions of torch's names
_KINDS = {bool: "b", int: "uifc", float: "fc", complex: "c"}


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that tensors and dtypes promote to; a 0-d tensor counts like any other.

    Python numbers take part by their kind only: TypeError for one that the dtype cannot hold, and
    where there is nothing else.
    """
    numbers = [x for x in arrays_and_dtypes if type(x) in _KINDS]
    dtypes = [
        x.dtype if isinstance(x, Tensor) else as_dtype(x)
        for x in arrays_and_dtypes
        if type(x) not in _KINDS
    ]
    if not dtypes:
        raise TypeError("result_type: needs a tensor or a dtype beside Python's numbers")
    found = reduce(promote_types, dtypes)
    for number in numbers:
        if found.kind not in _KINDS[type(number)]:
            if found.kind == "f" and type(number) is complex:
                found = promote_types(found, as_dtype("complex64"))
            else:
                raise TypeError(f"result_type: {number!r} does not go with {found.name}")
    return found


def promoted(*values: Any) -> tuple[Tensor, ...]:
    """Tensors of one dtype; a Python number becomes a 0-d tensor on the device of the others."""
    dtype = result_type(*values)
    place = next(v.device for v in values if isinstance(v, Tensor))
    return tuple(
        v.to(dtype) if isinstance(v, Tensor) else F["full"]((), v, dtype=dtype, device=place)
        for v in values
    )


def dims(axis: Any, ndim: int) -> tuple[int, ...]:
    """`axis` as dims that count from zero; None for all."""
    listed = range(ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    for d in listed:
        if not -ndim <= d < ndim:
            raise IndexError(f"axis {d} is out of range for {ndim} dims")
    return tuple(d % ndim for d in listed)
