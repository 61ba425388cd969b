"""The array API standard 2024.12: the namespace that `Tensor.__array_namespace__` gives.

Functions have the standard's names and arguments, and its description; tensors keep torch's methods
and operators. docs/array_api.md lists what differs and what is not there.
"""

import sys as _sys
from math import e, inf, nan, pi
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from rushlight.core.array_api import functions as _functions
from rushlight.core.array_api.common import (
    STANDARD as _STANDARD,
)
from rushlight.core.array_api.common import (
    __array_namespace_info__,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)
from rushlight.core.basis.dtype import DTYPES as _DTYPES
from rushlight.core.tensor.exchange.arrays import Exchange as _Exchange

__array_api_version__ = "2024.12"
newaxis = None
_PAGE = "https://data-apis.org/array-api/2024.12/API_specification/generated/array_api."


def _fill(module: _ModuleType, prefix: str, table: dict[str, _Any]) -> None:
    for name, fn in table.items():
        if fn.__module__ == _functions.__name__:
            fn.__name__ = fn.__qualname__ = name
            fn.__doc__ = f"{name} of the array API standard: {_PAGE}{prefix}{name}.html"
        setattr(module, name, fn)


linalg, fft = (_ModuleType(f"{__name__}.{name}") for name in ("linalg", "fft"))
_here = _sys.modules[__name__]
for _module, _prefix, _table in (
    (linalg, "linalg.", _functions.LINALG),
    (fft, "fft.", _functions.FFT),
    (_here, "", _functions.MAIN),
):
    _fill(_module, _prefix, _table)
for _module in (linalg, fft):
    _module.__all__ = [n for n in vars(_module) if n[0] != "_"]  # type: ignore[attr-defined]
globals().update({name: _DTYPES[name] for name in _STANDARD})
__all__ = ["__array_api_version__", "__array_namespace_info__", "can_cast", "e", "fft", "finfo",
           "iinfo", "inf", "isdtype", "linalg", "nan", "newaxis", "pi", "result_type",
           *_STANDARD, *_functions.MAIN]  # fmt: skip
_Exchange._namespace = _here

if _TYPE_CHECKING:

    def __getattr__(name: str) -> _Any: ...
