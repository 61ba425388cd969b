"""Samples of the ops of core/ops/random.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rushlight as rl

from .base import Array, Samples, created

SAMPLES: dict[str, Samples] = {}


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 in Python integers, as the paper's figure has it."""
    x, k = list(counter), list(key)
    for _ in range(10):
        low, high = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [high >> 32 ^ x[1] ^ k[0], high % 2**32, low >> 32 ^ x[3] ^ k[1], low % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return x


def words(seed: int, offset: int, count: int) -> list[int]:
    """The first `count` random words from block `offset` on."""
    key, out = [seed % 2**32, seed >> 32], []
    for block in range(offset, offset + -(-count // 4)):
        out += philox([block % 2**32, block >> 32, 0, 0], key)
    return out[:count]


def _draw_count(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


# Narrow floats take as many bits as they hold exactly, so that nothing rounds up to one.
_UNIFORM_BITS = {"float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}


def _rand(*, shape: Any, dtype: Any, seed: int, offset: int) -> Array:
    bits = _UNIFORM_BITS.get(dtype.name, 24)
    found = [(w >> (32 - bits)) * 2.0**-bits for w in words(seed, offset, _draw_count(shape))]
    return np.array(found).reshape(shape)


def _randn(*, shape: Any, dtype: Any, seed: int, offset: int) -> Array:
    n = _draw_count(shape)
    w = [v >> 8 for v in words(seed, offset, 2 * n)]
    out = []
    for a, b in zip(w[::2], w[1::2], strict=True):
        radius = math.sqrt(-2 * math.log((a + 0.5) * 2.0**-24))
        out.append(radius * math.cos(2 * math.pi * b * 2.0**-24))
    return np.array(out).reshape(shape)


def _randint(*, low: int, high: int, shape: Any, dtype: Any, seed: int, offset: int) -> Array:
    found = [low + (w * (high - low) >> 32) for w in words(seed, offset, _draw_count(shape))]
    return np.array(found).reshape(shape)


_SEED = dict(seed=0x123456789ABCDEF, offset=2**32 - 2)
_EMPTY_DRAW = {"nan": "there is no input"}

SAMPLES["rand"] = Samples(
    _rand,
    "exact",
    (
        created("odd", (7, 13), dtype=rl.float32, **_SEED),
        created("empty", (0, 3), dtype=rl.float32, **_SEED),
        created("0-d", (), dtype=rl.float64, **_SEED),
        created("float16", (7, 13), dtype=rl.float16, **_SEED),
        created("bfloat16", (7, 13), dtype=rl.bfloat16, **_SEED),
        created("float8_e4m3fn", (7, 13), dtype=rl.float8_e4m3fn, **_SEED),
        created("float8_e5m2", (7, 13), dtype=rl.float8_e5m2, **_SEED),
    ),
    without=_EMPTY_DRAW,
)

SAMPLES["randn"] = Samples(
    _randn,
    "normal",
    (
        created("odd", (7, 13), dtype=rl.float32, **_SEED),
        created("empty", (0, 3), dtype=rl.float32, **_SEED),
        created("0-d", (), dtype=rl.float64, **_SEED),
        created("bfloat16", (7, 13), dtype=rl.bfloat16, **_SEED),
    ),
    without=_EMPTY_DRAW,
)

SAMPLES["randint"] = Samples(
    _randint,
    "exact",
    (
        created("odd", (7, 13), low=-5, high=8, dtype=rl.int64, **_SEED),
        created("empty", (0, 3), low=0, high=2, dtype=rl.int64, **_SEED),
        created("0-d", (), low=0, high=2**32, dtype=rl.int64, **_SEED),
        created("uint8", (20,), low=0, high=256, dtype=rl.uint8, **_SEED),
    ),
    without=_EMPTY_DRAW,
)
