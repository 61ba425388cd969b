"""Operators of com.microsoft that older exporters wrote, and those that move or hash elements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import int64
from rushlight.core.functional import declared as rl
from rushlight.core.functional import fft
from rushlight.core.onnx.element_types import INT32, INT64, UINT32
from rushlight.core.onnx.operators.common import as_tensor
from rushlight.core.onnx.operators.microsoft.entering import contrib, like, refuse
from rushlight.core.onnx.proto import Attribute
from rushlight.core.onnx.registry import Call

refuse(
    "BeamSearch", "WhisperBeamSearch", "GreedySearch", "Sampling",
    why="it searches for texts within the graph; run the decoder's own file",
)  # fmt: skip
refuse("Tokenizer", why="it splits texts within the graph; use rl.models' tokenizers")
refuse(
    "QOrderedAttention", "QOrderedGelu", "QOrderedLayerNormalization", "QOrderedMatMul",
    "QOrderedLongformerAttention", "QuantizeWithOrder", "DequantizeWithOrder",
    why="its weights are ordered for one kind of GPU",
)  # fmt: skip
refuse("EPContext", "Snpe", why="it holds a program of one kind of processor")


@contrib("Trilu", host=(1,))
def trilu(call: Call, x: Any, k: Any = None) -> Any:
    """The upper or lower triangle of matrices."""
    return like(call, "Trilu", x, k)


@contrib("Pad", host=(1, 2))
def pad(call: Call, x: Any, pads: Any, value: Any = None) -> Any:
    """Elements added around the edges."""
    return like(call, "Pad", x, pads.reshape(-1), value if value is None else value.reshape(()))


@contrib("Range", host=(0, 1, 2))
def range_of(call: Call, start: Any, limit: Any, delta: Any = None) -> Any:
    """Numbers from a start to before a limit."""
    step = np.ones((), start.dtype) if delta is None else delta.reshape(())
    return like(call, "Range", start.reshape(()), limit.reshape(()), step)


@contrib("GatherND")
def gather_nd(call: Call, data: Any, indices: Any) -> Any:
    """Slices of the data at indices of its first dims."""
    return like(call, "GatherND", data, indices)


@contrib("ExpandDims", host=(1,))
def unsqueeze(call: Call, x: Any, dim: Any) -> Any:
    """The input with a new dim of size one."""
    return x.unsqueeze(int(dim.reshape(-1)[0]))


@contrib("Unique", dynamic=True)
def unique(call: Call, x: Any) -> Any:
    """Each value once in the order of their first places, where each element's is, and counts."""
    given = {"sorted": Attribute("sorted", "int", 0)}
    inner = replace(call, attributes=given, wanted=[True] * 4)
    values, _, places, counts = like(inner, "Unique", x)
    call.result_kinds = [call.kinds[0], INT64, INT64]
    return [values, places, counts]


@contrib("Inverse")
def inverse(call: Call, x: Any) -> Any:
    """The inverse of each matrix."""
    return rl.inverse(x)


@contrib("CDist")
def distances(call: Call, a: Any, b: Any) -> Any:
    """The distance of each row of one matrix from each of another."""
    kind = call.choice("metric", "sqeuclidean", "sqeuclidean", "euclidean")
    less = a.unsqueeze(1) - b.unsqueeze(0)
    squares = rl.sum(less * less, -1)
    return squares if kind == "sqeuclidean" else rl.sqrt(squares)


def _complex_product(a: Any, b: Any, sign: float) -> Any:
    """Products of pairs (real, imaginary) in the last dim; sign: of the second's imaginary part."""
    x, y, u, v = a[..., 0], a[..., 1], b[..., 0], b[..., 1] * sign
    return rl.stack([x * u - y * v, x * v + y * u], -1)


@contrib("ComplexMul")
def complex_mul(call: Call, a: Any, b: Any) -> Any:
    """The product of complex numbers, pairs in the last dim."""
    return _complex_product(a, b, 1.0)


@contrib("ComplexMulConj")
def complex_mul_conj(call: Call, a: Any, b: Any) -> Any:
    """The product of complex numbers with conjugates of others, pairs in the last dim."""
    return _complex_product(a, b, -1.0)


def _signal_dims(call: Call) -> list[int]:
    count = call.int("signal_ndim", 1)
    if call.flag("normalized") or not call.flag("onesided", True) or count < 1:
        raise call.fail("only normalized=0, onesided=1 and signal_ndim of 1 or more are supported")
    return list(range(-count, 0))


@contrib("Rfft")
def rfft(call: Call, x: Any) -> Any:
    """The Fourier transform of real numbers, its first half, as pairs in a new last dim."""
    return rl.view_as_real(fft.rfftn(x, dim=_signal_dims(call)))


@contrib("Irfft")
def irfft(call: Call, x: Any) -> Any:
    """The real numbers whose Fourier transform has this first half."""
    return fft.irfftn(rl.view_as_complex(x.contiguous()), dim=_signal_dims(call))


# Padding of sequences.


@contrib("RemovePadding", host=(1,))
def remove_padding(call: Call, x: Any, counts: Any) -> Any:
    """The tokens that are no padding, one after another; where they were, ends and the longest."""
    batch, length, width = x.shape
    seen = np.arange(length)[None, :] < counts.reshape(batch, 1)
    offsets = np.concatenate([np.flatnonzero(seen), np.flatnonzero(~seen)]).astype(np.int32)
    total = int(seen.sum())
    index = as_tensor(offsets[:total].astype(np.int64), x.device)
    tokens = rl.index_select(x.reshape(batch * length, width), 0, index)
    ends = np.concatenate([[0], np.cumsum(seen.sum(1))]).astype(np.int32)
    longest = np.array([seen.sum(1).max(initial=0)], np.int32)
    call.result_kinds = [call.kinds[0], INT32, INT32, INT32]
    return [tokens, offsets.reshape(batch, length), ends, longest]


@contrib("RestorePadding")
def restore_padding(call: Call, x: Any, offsets: Any) -> Any:
    """Tokens at their places in padded sequences; zeros elsewhere."""
    (count, width), (batch, length) = x.shape, offsets.shape
    flat = rl.zeros((batch * length, width), dtype=x.dtype, device=x.device)
    places = offsets.reshape(-1)[:count].to(int64).unsqueeze(1).expand(count, width)
    return rl.scatter(flat, 0, places, x).reshape(batch, length, width)


# Values that the host computes.


@contrib("DynamicTimeWarping", host=(0,))
def time_warping(call: Call, costs: Any) -> Any:
    """The cheapest path (2, steps) through a matrix of costs, from the first corner to the last."""
    call.result_kinds = [INT32]
    matrix = costs.reshape(costs.shape[-2:]).astype(np.float64)
    rows, columns = matrix.shape
    best = np.full((rows + 1, columns + 1), np.inf)
    came = np.full((rows + 1, columns + 1), -1, np.int8)
    best[0, 0] = 0
    for j in range(1, columns + 1):
        for i in range(1, rows + 1):
            before = best[i - 1, j - 1], best[i - 1, j], best[i, j - 1]
            way = 0 if before[0] < before[1] and before[0] < before[2] else (
                1 if before[1] < before[0] and before[1] < before[2] else 2)  # fmt: skip
            best[i, j], came[i, j] = matrix[i - 1, j - 1] + before[way], way
    came[0, :], came[:, 0] = 2, 1
    path = []
    i, j = rows, columns
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        way = came[i, j]
        i, j = i - (way in (0, 1)), j - (way in (0, 2))
    return np.array(path[::-1], np.int32).T.reshape(2, -1)


def _mixed(h: int, word: int) -> int:
    word = word * 0xCC9E2D51 & 0xFFFFFFFF
    word = (word << 15 | word >> 17) & 0xFFFFFFFF
    h ^= word * 0x1B873593 & 0xFFFFFFFF
    return h


def murmur(data: bytes, seed: int) -> int:
    """MurmurHash3 of 32 bits (Appleby) of some bytes."""
    h = seed & 0xFFFFFFFF
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        h = _mixed(h, int.from_bytes(data[at : at + 4], "little"))
        h = (h << 13 | h >> 19) & 0xFFFFFFFF
        h = h * 5 + 0xE6546B64 & 0xFFFFFFFF
    if data[whole:]:
        h = _mixed(h, int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor & 0xFFFFFFFF
    return h ^ h >> 16


@contrib("MurmurHash3", host=(0,))
def murmur_hash(call: Call, x: Any) -> Any:
    """The hash of each element's bytes, of texts in UTF-8."""
    seed, positive = call.int("seed", 0), call.flag("positive", True)
    texts = x.dtype.kind == "O"
    values = [(str(v).encode() if texts else np.asarray(v).tobytes()) for v in x.reshape(-1)]
    hashes = np.array([murmur(v, seed) for v in values], np.uint32).reshape(x.shape)
    call.result_kinds = [UINT32 if positive else INT32]
    return hashes if positive else hashes.view(np.int32)
