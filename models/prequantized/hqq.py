"""HQQ (Badri and Shaji, 2023): groups of a weight's numbers with a scale and a fractional zero.

The numbers lie as rows of groups (axis 1) or as columns (axis 0), packed so that each part of the
rows has the same bits of the bytes, or of words of 32 bits for three bits. The sizes and names of a
layer are stored as tensors beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
_PARTS = frozenset(
    """
    W_q nbits group_size shape scale zero axis packing unpack_view_dtype view_as_float quant_scale
    quant_zero compute_dtype offload_meta encoded_state_dict stores_quant_config channel_wise
    optimize round_zero
""".split()
)
# Bits of a number, and bits of the words that hold them.
_PACKINGS = {
    "8bit_u8": (8, 8),
    "4bit_u8": (4, 8),
    "3bit_32": (3, 30),
    "2bit_u8": (2, 8),
    "1bit_u8": (1, 8),
}


def hqq(
    tensors: Mapping[str, Tensor], given: Mapping[str, Any], dtype: DType
) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a checkpoint, its packed weights as plain ones."""
    for name, t in tensors.items():
        stem, _, kind = name.rpartition(".")
        if kind == "W_q":
            yield f"{stem}.weight", _weight(stem, tensors, dtype)
        elif kind not in _PARTS or f"{stem}.W_q" not in tensors:
            yield name, t


def _weight(stem: str, tensors: Mapping[str, Tensor], dtype: DType) -> Tensor:
    """(numbers - zero) * scale in the dtype of the weight, as hqq computes it."""

    def stored(part: str) -> Tensor:
        if f"{stem}.{part}" not in tensors:
            raise FormatError(f"the checkpoint has {stem}.W_q, but no {stem}.{part}")
        return tensors[f"{stem}.{part}"]

    def number(part: str, default: int) -> int:
        t = tensors.get(f"{stem}.{part}")
        if t is None:
            return default
        if t.numel() != 1:
            raise FormatError(f"{stem}.{part} is {t.shape}, not one number")
        return int(t.reshape(1)[0].item())

    for kind in ("quant_scale", "quant_zero"):
        if number(kind, 0):
            raise FormatError(f"{stem}.{kind} is true, which is not supported; supported: false")
    shape = [int(n) for n in stored("shape").reshape(-1).tolist()]
    count = 1
    for n in shape:
        count *= n
    name = bytes(np.asarray(stored("packing").numpy(), np.uint8)).decode("ascii", "replace")
    if name not in _PACKINGS or len(shape) != 2 or not 0 < count < 1 << 48:
        raise FormatError(
            f"{stem}: packing {brief(name)} of shape {brief(shape)} is not supported; supported: "
            f"{', '.join(_PACKINGS)} of two sizes"
        )
    words = stored("W_q")
    raw = np.frombuffer(words.raw_bytes(), np.uint32 if name == "3bit_32" else np.uint8)
    axis, group = number("axis", 1), number("group_size", 0)
    if not number("channel_wise", 1) or not 0 < group <= count or count % group:
        group = shape[0] if axis == 0 else shape[1]  # one group of each column or row
    rows, columns = (group, count // group) if axis == 0 else (count // group, group)
    bits, word_bits = _PACKINGS[name]
    each = word_bits // bits
    if raw.size != -(-rows // each) * columns:
        raise FormatError(
            f"{stem}.W_q has {raw.size} words; {rows} rows of {columns} numbers in {name} take "
            f"{-(-rows // each) * columns}"
        )
    matrix = raw.reshape(-1, columns)
    q = np.concatenate(
        [
            matrix >> np.array(word_bits - bits * (i + 1), raw.dtype)
            & raw.dtype.type((1 << bits) - 1)
            for i in range(each)
        ]
    )[:rows]
    numbers = tensor(np.ascontiguousarray(q, np.float32)).to(dtype=dtype)
    zero, scale = (stored(suffix).to(dtype=dtype) for suffix in ("zero", "scale"))
    fits = {(1, columns), (rows, 1), (1, 1), ()}
    if zero.shape not in fits or scale.shape not in fits:
        raise FormatError(
            f"{stem}: zero {zero.shape} and scale {scale.shape} do not fit numbers ({rows}, "
            f"{columns})"
        )
    return ((numbers - zero) * scale).reshape(shape)
