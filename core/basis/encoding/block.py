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

# Blocks whose largest element is below this are zero, as in ggml: no float16 scale could hold them.
TINY = np.float32(1e-15)
_LARGEST = np.float32(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Some blocks of one type.

    x: (block, blocks) float32, finite. importance: the same shape, not negative, or None.
    rms: (blocks,) root mean square of each block's row; zeros are ones; None without importance.
    """

    x: Array
    importance: Array | None
    rms: Array | None


# The fields of a block by name: (blocks,) for a single number, (count, blocks) for several.
Fields = dict[str, Array]
Encoder = Callable[[Blocks], Fields]


def as_f16(scale: Array) -> Array:
    """float32 scales rounded to float16, still as float32; those out of range to the largest."""
    bounded = np.clip(scale, -_LARGEST, _LARGEST)
    rounded: Array = bounded.astype(np.float16).astype(np.float32)
    return rounded


def inverse(scale: Array) -> Array:
    """1 / scale, and 0 where the scale is 0."""
    out = np.zeros_like(scale)
    np.divide(np.float32(1), scale, out=out, where=scale != 0)
    return out


def codes(y: Array, least: int, most: int) -> Array:
    """The nearest integers within bounds, in place."""
    np.rint(y, out=y)
    return np.clip(y, np.float32(least), np.float32(most), out=y)


def halves(q: Array) -> Array:
    """Two codes of four bits to a byte: the first half of the rows low, the second high."""
    q = q.astype(np.uint8)
    n = len(q) // 2
    packed: Array = q[:n] | q[n:] << np.uint8(4)
    return packed
