"""Tensors of floats as quantized blocks; runs on cpu, in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends import HOST
from rushlight.core.basis.dtype import DType
from rushlight.core.basis.encoding import check_encodable, encode
from rushlight.core.basis.errors import ShapeError
from rushlight.core.jit import capture

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def quantized(x: Tensor, dtype: DType, importance: npt.NDArray[Any] | None = None) -> Tensor:
    """A floating tensor on cpu as blocks of `dtype` along its last dim; without history.

    importance: as `encode` has it, of the last dim (n,), or for each matrix of a stack (count, n).
    Raises as `encode` does, and TypeError for another device or a dtype that is not floating.

    `x` is the tensor.
    """
    check_encodable(dtype)
    if x.dtype.kind != "f":
        way = "dequantize() it" if x.dtype.kind == "q" else "convert it to float32"
        raise TypeError(
            f"to: converting {x.dtype.name} to {dtype.name} is not supported; {way} first"
        )
    if x.device is not HOST:
        raise TypeError(
            f"to: quantizing to {dtype.name} runs on cpu, and the tensor is on {x.device}; use "
            f".cpu().to(rl.{dtype.name}).to('{x.device}'), or .cpu_async() where nothing may block"
        )
    shape = x.shape
    if not shape or shape[-1] % dtype.block:
        raise ShapeError(
            f"to: the last dim of {shape} is not a whole number of {dtype.name} blocks of "
            f"{dtype.block}"
        )
    with np.errstate(over="ignore"):  # encode names what is infinite
        values = x.host_values().astype(np.float32, copy=False)
    if importance is None or importance.ndim == 1:
        blocks = encode(dtype, values.reshape(-1, shape[-1]), importance)
    elif len(shape) < 3 or len(importance) != shape[0]:
        raise ShapeError(f"to: importance {importance.shape} does not fit a stack {shape}")
    else:
        each = zip(values, importance, strict=True)
        blocks = np.stack([encode(dtype, v.reshape(-1, shape[-1]), w) for v, w in each])
    out = x.from_buffer(blocks.reshape(-1), dtype, shape)
    if capture.active:
        capture.made_from_values(out)
    return out
