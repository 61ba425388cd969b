"""Philox4x32-10, the counter-based generator of Salmon et al. (SC 2011), in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
# The number of bits of a uniform number that a dtype holds exactly: more could round up to 1.
UNIFORM_BITS = {"float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}


def philox(counter: list[npt.NDArray[Any]], key: tuple[int, int]) -> list[npt.NDArray[np.uint64]]:
    """Four random words per counter: `counter` is four arrays of 32-bit words, `key` two words."""
    x0, x1, x2, x3 = (c.astype(np.uint64) for c in counter)
    k0, k1 = key
    for _ in range(10):
        p0, p1 = x0 * _M0, x2 * _M1
        x0, x1, x2, x3 = (
            (p1 >> _32) ^ x1 ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _32) ^ x3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return [x0, x1, x2, x3]


def words(seed: int, offset: int, count: int) -> Words:
    """`count` words from block `offset` on: word i is word i % 4 of block offset + i // 4.

    The key is the 64-bit seed, low word first; the counter's low 64 bits are the block number.
    """
    blocks = -(-count // 4)
    block = np.arange(offset, offset + blocks, dtype=np.uint64)
    zero = np.zeros_like(block)
    key = (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF)
    counters = philox([block & _LOW, block >> _32, zero, zero], key)
    return np.stack(counters, axis=1).astype(np.uint32).reshape(-1)[:count]


def word(seed: int, offset: int) -> int:
    """The first of `words(seed, offset, 1)`, without NumPy, whose calls cost more than one word."""
    x0, x1, x2, x3 = offset & 0xFFFFFFFF, offset >> 32 & 0xFFFFFFFF, 0, 0
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = x0 * 0xD2511F53, x2 * 0xCD9E8D57
        x0, x1 = p1 >> 32 ^ x1 ^ k0, p1 & 0xFFFFFFFF
        x2, x3 = p0 >> 32 ^ x3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = k0 + _W0 & 0xFFFFFFFF, k1 + _W1 & 0xFFFFFFFF
    return x0


def uniform(seed: int, offset: int, count: int, bits: int = 24) -> npt.NDArray[np.float32]:
    """float32 in [0, 1) from the top `bits` bits of a word each."""
    top = words(seed, offset, count) >> np.uint32(32 - bits)
    return top.astype(np.float32) * np.float32(2.0**-bits)


def normal(seed: int, offset: int, count: int) -> npt.NDArray[np.float32]:
    """Normal float32 by Box and Muller (1958): element i uses words 2i and 2i + 1."""
    w = (words(seed, offset, 2 * count) >> np.uint32(8)).reshape(-1, 2).astype(np.float32)
    # Adding half a step keeps the logarithm finite.
    radius = np.sqrt(np.float32(-2) * np.log((w[:, 0] + np.float32(0.5)) * np.float32(2**-24)))
    numbers: npt.NDArray[np.float32] = radius * np.cos(w[:, 1] * np.float32(2 * np.pi * 2**-24))
    return numbers
