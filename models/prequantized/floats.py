"""fp8 with a scale per block as DeepSeek-V3 publishes it (2024), per row, or per tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.prequantized.rows import made, wrong

Array = npt.NDArray[Any]
# Of activations, which stay in floating point here.
UNUSED = (".input_scale", ".activation_scale", ".input_scale_ub")


def fp8(
    tensors: Mapping[str, Tensor], given: Mapping[str, Any], dtype: DType
) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a checkpoint, its float8 ones times their scales."""
    block = given.get("weight_block_size")
    sizes = isinstance(block, list) and len(block) == 2
    if block is not None and not (sizes and all(type(n) is int and n > 0 for n in block)):
        raise wrong("weight_block_size", block, "two positive numbers")
    scales = {f"{name}{end}" for name in tensors for end in ("_scale_inv", "_scale")}
    for name, t in tensors.items():
        if name in scales or name.endswith(UNUSED):
            continue
        if not t.dtype.name.startswith("float8"):
            yield name, t
            continue
        scale = tensors.get(f"{name}_scale_inv", tensors.get(f"{name}_scale"))
        if scale is None:
            yield name, t.to(dtype=dtype)
        else:
            yield name, scaled(name, t, scale.float().numpy(), block, dtype)


def scaled(
    name: str,
    t: Tensor,
    scale: Array,
    block: list[int] | None,
    dtype: DType,
    zero: Array | None = None,
) -> Tensor:
    """A tensor (..., out, in), less `zero`, times a scale for each block, each row, or all.

    FormatError, which begins with the name, where the scales do not fit.
    """
    if scale.size == 1:
        less = 0.0 if zero is None else float(zero.reshape(()))
        factor = np.float32(scale.reshape(()))
        flat = t.reshape(t.shape[0], -1) if t.ndim else t.reshape(1, 1)
        rows = lambda at, end: (flat[at:end].float().numpy() - np.float32(less)) * factor  # noqa: E731
        return made(flat.shape, dtype, rows).reshape(t.shape)
    *outer, rows_, columns = t.shape if t.ndim > 1 else (0, 0)
    tall, wide = block or (1, columns)
    fits = (*outer, -(-rows_ // max(tall, 1)), -(-columns // max(wide, 1)))
    if block is None and scale.shape == (rows_,) and t.ndim == 2:
        scale = scale[:, None]
    if scale.shape != fits or t.ndim < 2 or (zero is not None and zero.size != scale.size):
        raise FormatError(
            f"{name!r:.100} of shape {t.shape} has scales of shape {scale.shape}; blocks of "
            f"{(tall, wide)} need {fits}"
        )
    flat, each = t.reshape(-1, columns), scale.reshape(-1, scale.shape[-1])
    below = None if zero is None else zero.reshape(each.shape).astype(np.float32)
    across = np.arange(columns) // wide

    def piece(at: int, end: int) -> Array:
        row = np.arange(at, end)
        scale_row = row // rows_ * fits[-2] + row % rows_ // tall
        values = flat[at:end].float().numpy()
        if below is not None:
            values = values - below[scale_row][:, across]
        weights: Array = values * each[scale_row][:, across]
        return weights

    return made(flat.shape, dtype, piece).reshape(t.shape)
