"""Tensors whose bytes are in the order of the other kind of machine: reversed number by number."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.element import FIELD_BYTES
from rushlight.core.basis.errors import FormatError

# Fields that a row lists as bytes, and the bytes of the numbers that ggml has there: members of the
# structs in ggml-common.h, and the fifth bits of q5, which ggml-quants.c copies from a uint32.
_WIDE = {
    "q5_0": {"qh": 4},
    "q5_1": {"qh": 4},
    "q8_k": {"bsums": 2},
    "iq1_s": {"qh": 2},
    "iq2_xs": {"qs": 2},
    "iq4_xs": {"high": 2},
}
# Their bytes are read as numbers of two sizes, and no tool writes them for the other order.
_UNCLEAR = ("iq1_m", "iq2_xxs", "iq3_xxs")


def check_swappable(where: str, dtype: DType) -> None:
    """Raise FormatError, which `where` begins, for blocks with no layout in the other order."""
    if dtype.name in _UNCLEAR:
        raise FormatError(
            f"{where}: {dtype.name} in the other byte order is not supported",
            hint="convert the file on the machine that wrote it",
        )


def swap_bytes(data: np.ndarray[Any, Any], dtype: DType) -> None:
    """Reverse the bytes of every number of `data`, in place: bytes of whole elements of `dtype`."""
    if dtype.kind != "q":
        data.view(dtype.numpy).byteswap(inplace=True)
        return
    blocks = data.reshape(-1, dtype.itemsize)
    for name, field in dtype.fields.items():
        size = _WIDE.get(dtype.name, {}).get(name) or FIELD_BYTES[field.kind]
        nbytes = FIELD_BYTES[field.kind] * (field.count or 1)
        for first in range(field.offset, field.offset + nbytes, size) if size > 1 else ():
            blocks[:, first : first + size] = blocks[:, first : first + size][:, ::-1].copy()
