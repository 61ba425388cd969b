"""Packed rows: rows of floats held as signed bytes with float16 scales, for caches.

A row of n floats, n a multiple of 32, is n signed bytes, then a scale for each 32 of them, then
zeros up to a whole word. The values are those of q8_0 (quantized.py). There a scale stands before
its bytes; here scales follow, so that bytes are read four at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Floats that share a scale.
BLOCK = 32
# A scale of this size or less rounds to zero.
ZERO = np.float32(2.0**-25)


def packed_bytes(features: int) -> int:
    """Bytes of a row of `features` floats. ValueError if that is not a multiple of 32."""
    if features % BLOCK:
        raise ValueError(f"rows of {features} are not packed; a multiple of {BLOCK} is")
    return features + -(-features // BLOCK // 2) * 4


def features_of(nbytes: int) -> int:
    """How many floats a row of `nbytes` holds; ValueError if no packed row has this size."""
    pairs, rest = divmod(nbytes, packed_bytes(2 * BLOCK))
    if rest not in (0, packed_bytes(BLOCK)):
        raise ValueError(f"no packed row has {nbytes} bytes")
    return BLOCK * (2 * pairs + (rest > 0))


def pack(x: Array) -> Array:
    """Rows (..., n) of floats as packed rows (..., bytes). NaN makes its whole block NaN."""
    features = x.shape[-1]
    out = np.zeros((*x.shape[:-1], packed_bytes(features)), np.uint8)
    blocks = x.astype(np.float32).reshape(*x.shape[:-1], features // BLOCK, BLOCK)
    with np.errstate(all="ignore"):
        d = np.max(np.abs(blocks), axis=-1, keepdims=True, initial=0) / np.float32(127)
        scaled = blocks * np.where(d > ZERO, 1 / d, 0)
        codes = np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5))
        scales = np.where(np.isnan(d), np.float32(np.nan), d)[..., 0].astype(np.float16)
    out[..., :features] = np.nan_to_num(codes).astype(np.int8).reshape(x.shape).view(np.uint8)
    end = features + features // BLOCK * 2
    out[..., features:end] = np.ascontiguousarray(scales).view(np.uint8)
    return out


def unpack(stored: Array) -> Array:
    """Packed rows (..., bytes) as float32 (..., n)."""
    features = features_of(stored.shape[-1])
    blocks = features // BLOCK
    codes = np.ascontiguousarray(stored[..., :features]).view(np.int8)
    scales = np.ascontiguousarray(stored[..., features : features + 2 * blocks]).view(np.float16)
    values = codes.reshape(*codes.shape[:-1], blocks, BLOCK) * scales.astype(np.float32)[..., None]
    floats: Array = values.reshape(codes.shape)
    return floats
