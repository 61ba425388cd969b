"""The array API standard 2024.12: the namespace that `Tensor.__array_namespace__` gives.

Functions have the standard's names and arguments; tensors keep torch's methods and operators.
docs/array_api.md lists what differs and what is not there.
"""

import sys as _sys
from math import e, inf, nan, pi
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from rushlight.core.array_api import creation as _creation
from rushlight.core.array_api import dtypes as _dtypes
from rushlight.core.array_api import elementwise as _elementwise
from rushlight.core.array_api import fft, linalg
from rushlight.core.array_api import reductions as _reductions
from rushlight.core.array_api import shapes as _shapes
from rushlight.core.array_api.dtypes import __array_namespace_info__
from rushlight.core.array_api.linalg import matmul, tensordot, vecdot
from rushlight.core.basis.dtype import (
    bool_ as bool,
)
from rushlight.core.basis.dtype import (
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
)
from rushlight.core.tensor.exchange.arrays import Exchange as _Exchange

__array_api_version__ = "2024.12"
newaxis = None

__all__ = ["__array_api_version__", "__array_namespace_info__", "bool", "complex64", "complex128",
           "e", "fft", "float32", "float64", "inf", "int8", "int16", "int32", "int64", "linalg",
           "matmul", "nan", "newaxis", "pi", "tensordot", "uint8", "uint32",
           "vecdot"]  # fmt: skip
for _part in (_creation, _dtypes, _elementwise, _reductions, _shapes):
    globals().update({name: vars(_part)[name] for name in _part.__all__})
    __all__ += _part.__all__

_Exchange.namespace = _sys.modules[__name__]

if _TYPE_CHECKING:

    def __getattr__(name: str) -> _Any: ...
