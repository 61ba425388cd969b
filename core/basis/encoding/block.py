"""The blocks that an encoder is given, and how the fields of a block are packed.

Arrays are element-major: row i holds element i of every block, column j holds block j. So a sum
over a block adds long rows, which NumPy does with vector instructions, and a number per block
lines up with the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Blocks whose largest element is smaller are zero, as in ggml: no float16 could be their scale.
TINY = np.float32(1e-15)
_NORMAL = np.finfo(np.float32).tiny
_LARGEST = np.float32(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Some blocks of one type.

    x: (block, blocks) float32, finite. importance: the same shape, positive, or None.
    rms: (blocks,) root mean square of each block's row, 1 for zeros; None without importance.
    """

    x: Array
    importance: Array | None
    rms: Array | None

    def unit(self) -> tuple[Array, Array]:
        """The blocks divided by their largest magnitude, and that, (blocks,).

        Sums of squares of these cannot overflow. Both are 0 where the magnitude is negligible.
        """
        largest = np.maximum(self.x.max(axis=0), -self.x.min(axis=0))
        largest = np.where(largest < TINY, np.float32(0), largest)
        return self.x * inverse(largest), largest


# The fields of a block by name: (blocks,) for a single number, (count, blocks) for several.
Fields = dict[str, Array]
Encoder = Callable[[Blocks], Fields]


def as_f16(scale: Array) -> Array:
    """float32 scales rounded to float16, still as float32; those out of range to the largest."""
    bounded = np.clip(scale, -_LARGEST, _LARGEST) + np.float32(0)  # no zero has a sign
    rounded: Array = bounded.astype(np.float16).astype(np.float32)
    return rounded


def inverse(scale: Array) -> Array:
    """1 / scale, and 0 where the scale is 0 or so small that this is no float32."""
    out = np.zeros_like(scale)
    np.divide(np.float32(1), scale, out=out, where=np.abs(scale) >= _NORMAL)
    return out


def codes(y: Array, least: int, most: int) -> Array:
    """The nearest integers within bounds, in place."""
    np.rint(y, out=y)
    np.clip(y, np.float32(least), np.float32(most), out=y)
    return y


def packed(q: Array, groups: int, bits: int) -> Array:
    """Codes (n, blocks) of `bits` bits, several to a byte: (n * bits / 8, blocks) of uint8.

    The rows are cut into `groups`, and each of these into 8 / bits parts. Element i of every part
    of a group lies in the same byte, that of the first part in the lowest bits.
    """
    count = 8 // bits
    parts = q.astype(np.uint8).reshape(groups, count, -1, q.shape[-1])
    out = parts[:, 0].copy()
    for k in range(1, count):
        out |= parts[:, k] << np.uint8(k * bits)
    return out.reshape(-1, q.shape[-1])


def split(x: Array, parts: int) -> Array:
    """(n, blocks) as blocks of n / parts elements: (n / parts, parts * blocks).

    Numbers per such block, reshaped to (parts, blocks), are of part and block.
    """
    rows = len(x) // parts
    cut = x.reshape(parts, rows, -1).swapaxes(0, 1)
    return np.ascontiguousarray(cut).reshape(rows, -1)
