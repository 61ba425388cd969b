"""Weights of quantized numbers: some rows at a time in float32, or blocks that hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.basis.quantized import mxfp4, q4_0, q4_1, q8_0
from rushlight.core.ops import cat
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
PIECE = 1 << 22  # elements that are made at a time
_BLOCK = 32
# Of numbers of so many bits: the type, and the least number.
_TYPES = {4: (q4_0, -8), 8: (q8_0, -128)}


def wrong(key: str, value: Any, needed: str) -> FormatError:
    """The error about a value of quantization_config."""
    return FormatError(
        f"config.json: quantization_config.{key} is {brief(value)}; it must be {needed}"
    )


def made(
    shape: tuple[int, ...], dtype: DType, rows: Callable[[int, int], Array], multiple: int = 1
) -> Tensor:
    """A weight (out, ...) of a dtype from the float32 rows that `rows(first, end)` gives.

    multiple: a piece begins at a row number that it divides.
    """
    count, each = shape[0], max(int(np.prod(shape[1:])), 1)
    step = -(-max(PIECE // each, 1) // multiple) * multiple
    pieces = [
        tensor(np.ascontiguousarray(rows(first, min(first + step, count)), np.float32)).to(
            dtype=dtype
        )
        for first in range(0, count, step)
    ]
    if not pieces:
        return tensor(np.zeros(shape, np.float32)).to(dtype=dtype)
    return pieces[0] if len(pieces) == 1 else cat(pieces)


def integer_blocks(
    name: str, bits: int, scales: Array, inside: int, rows: Callable[[int, int], Array]
) -> Tensor | None:
    """Blocks of signed integers with a scale for each group of inputs, or None if none hold them.

    scales: (out, groups) float32. rows(first, end): the integers (end - first, inside). Blocks have
    float16 scales of 32 inputs. Stacks of experts are made of single ones, which blocks are not.
    """
    outside, groups = scales.shape
    if bits not in _TYPES or not groups or inside % (groups * _BLOCK) or ".experts." in name:
        return None
    with np.errstate(over="ignore"):
        short = scales.astype(np.float16)
    if not np.array_equal(short.astype(np.float32), scales):
        return None
    dtype, least = _TYPES[bits]
    blocks = inside // _BLOCK
    packed = np.empty((outside, blocks, dtype.itemsize), np.uint8)
    each = np.repeat(short, blocks // groups, axis=1)
    packed[:, :, :2] = each.view(np.uint8).reshape(outside, blocks, 2)
    step = max(PIECE // inside, 1)
    for first in range(0, outside, step):
        end = min(first + step, outside)
        q = rows(first, end).reshape(end - first, blocks, _BLOCK)
        if q.min(initial=0) < least or q.max(initial=0) >= -least:
            return None
        if bits == 8:
            packed[first:end, :, 2:] = q.astype(np.int8).view(np.uint8)
        else:
            codes = (q + 8).astype(np.uint8)
            packed[first:end, :, 2:] = codes[..., :16] | codes[..., 16:] << 4
    return Tensor.from_buffer(packed.reshape(-1), dtype, (outside, inside))


def minimum_blocks(name: str, q: Array, scales: Array, least: Array) -> Tensor | None:
    """Blocks of q4_1: numbers 0 to 15 (out, in) times a scale plus a least value for each group.

    scales, least: (groups, 1), the groups row by row. None where float16 does not hold them, and
    for single experts.
    """
    outside, inside = q.shape
    pair = np.concatenate([scales, least], axis=1)
    if inside % _BLOCK or ".experts." in name or not np.abs(pair).max(initial=0) < 65504:
        return None
    blocks = outside * inside // _BLOCK
    packed = np.empty((blocks, q4_1.itemsize), np.uint8)
    each = np.repeat(pair.astype(np.float16), blocks // len(pair), axis=0)
    packed[:, :4] = each.view(np.uint8)
    codes = q.reshape(blocks, _BLOCK).astype(np.uint8)
    packed[:, 4:] = codes[:, :16] | codes[:, 16:] << 4
    return Tensor.from_buffer(packed.reshape(-1), q4_1, (outside, inside))


def mxfp4_blocks(name: str, packed: Array, scales: Array) -> Tensor | None:
    """MXFP4 of bytes (out, in / 2), the even inputs in their low halves, and exponents (out, in /
    32); None for single experts.
    """
    if ".experts." in name or packed.shape[1] % 16:
        return None
    halves = packed.reshape(-1, 16)
    blocks = np.empty((len(halves), mxfp4.itemsize), np.uint8)
    blocks[:, 0] = scales.reshape(-1)
    blocks[:, 1::2] = halves[:, :8] & 15 | halves[:, 8:] << 4
    blocks[:, 2::2] = halves[:, :8] >> 4 | halves[:, 8:] & 240
    return Tensor.from_buffer(blocks.reshape(-1), mxfp4, (packed.shape[0], packed.shape[1] * 2))


def bit_stream(words: Array, bits: int, count: int) -> Array:
    """The first `count` numbers of each row of words (rows, n), packed without gaps.

    The lowest bits come first, and a number may begin in one word and end in the next.
    """
    raw = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), -1)
    if bits in (1, 2, 4, 8):  # no number is in two bytes
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        split = raw[:, :, None] >> shifts & np.uint8((1 << bits) - 1)
        numbers: Array = split.reshape(len(words), -1)[:, :count]
        return numbers
    single = np.unpackbits(raw, axis=1, bitorder="little")[:, : count * bits]
    numbers = single.reshape(len(words), count, bits) @ (1 << np.arange(bits)).astype(np.uint8)
    return numbers
