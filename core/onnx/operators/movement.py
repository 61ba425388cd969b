"""Operators that move elements or tell of shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.onnx.registry import Call, as_ints, operator


@operator("Identity")
def identity(call: Call, x: Any) -> Any:
    """The input."""
    return x


@operator("Shape")
def shape(call: Call, x: Any) -> Any:
    """The sizes from `start` to `end`."""
    sizes = list(x.shape)[slice(call.int("start", 0), call.int("end", None))]
    return np.array(sizes, np.int64)


@operator("Reshape", host=(1,))
def reshape(call: Call, x: Any, sizes: Any = None) -> Any:
    """The elements in another shape; 0 keeps a size unless `allowzero`, -1 is what remains."""
    wanted = call.ints("shape") if sizes is None else as_ints(sizes)
    if not call.flag("allowzero"):
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return x.reshape(tuple(wanted))


@operator("Transpose")
def transpose(call: Call, x: Any) -> Any:
    """Dims in the order of `perm`, else reversed."""
    perm = call.ints("perm", None)
    return x.permute(*(perm if perm is not None else range(x.ndim)[::-1])) if x.ndim else x
