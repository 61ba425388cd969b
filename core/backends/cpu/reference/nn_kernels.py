"""NumPy kernels of matrix products, softmax, normalisation, rotary positions and attention."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends.cpu.reference.blocks import Rows, Stack
from rushlight.core.backends.cpu.reference.integers import whole_product
from rushlight.core.backends.cpu.reference.numpy_kernels import within
from rushlight.core.basis.packed import pack, unpack

Array = npt.NDArray[Any]

# NumPy in the tab has no BLAS; einsum's inner loop is 2.3 times as fast there as matmul's.
_NO_BLAS = sys.platform == "emscripten"
# Rows of scores that attention holds at once, which bounds its memory at any length.
_QUERY_ROWS = 1024


def _product(a: Array, b: Array, out: Array | None = None) -> Array:
    """a @ b, by the fastest function on this platform."""
    if _NO_BLAS and a.ndim == 2 and a.dtype.kind == "f":
        return np.einsum("ik,kj->ij", a, b, out=out)
    product: Array = np.matmul(a, b, out=out)
    return product


def _matmul(out: Array, a: Array, b: Array) -> None:
    if a.dtype == np.bool_:
        out[...] = np.matmul(a.astype(np.uint8), b.astype(np.uint8)) != 0
    elif a.dtype.kind in "iu":
        out[...] = whole_product(a, b)
    elif out.flags.c_contiguous:
        _product(a, b, out)
    else:
        out[...] = _product(a, b)


def _linear(out: Array, x: Array, weight: Array | Rows, bias: Array | None) -> None:
    rows = x.reshape(_rows(x), x.shape[-1])
    flat = out.reshape(rows.shape[0], weight.shape[0])
    if isinstance(weight, Rows):
        # One row, as in every step of generation, has a faster kernel for blocks.
        if rows.shape[0] != 1 or not weight.times_vector(rows[0], flat[0]):
            for some, values in weight.pieces():
                flat[:, some] = _product(rows, values.astype(x.dtype, copy=False).T)
    else:
        _matmul(flat, rows, weight.astype(x.dtype, copy=False).T)
    if bias is not None:
        out += bias


def _linear_t(out: Array, grad: Array, weight: Array | Rows) -> None:
    rows = grad.reshape(_rows(grad), grad.shape[-1])
    flat = out.reshape(rows.shape[0], weight.shape[1])
    if isinstance(weight, Rows):
        flat[...] = 0
        for some, values in weight.pieces():
            flat += _product(rows[:, some], values.astype(grad.dtype, copy=False))
    else:
        _matmul(flat, rows, weight.astype(grad.dtype, copy=False))


def _linear_experts(
    out: Array, x: Array, weight: Array | Stack, index: Array, bias: Array | None
) -> None:
    named = within("linear_experts", index, len(weight)).reshape(index.size)
    rows, flat = x.reshape(index.size, x.shape[-1]), out.reshape(index.size, out.shape[-1])
    for expert in np.unique(named).tolist():
        chosen = named == expert
        product = np.empty((int(chosen.sum()), out.shape[-1]), out.dtype)
        _linear(product, rows[chosen], weight[expert], None if bias is None else bias[expert])
        flat[chosen] = product


def _linear_experts_t(out: Array, grad: Array, weight: Array | Stack, index: Array) -> None:
    named = within("linear_experts_t", index, len(weight)).reshape(index.size)
    rows, flat = grad.reshape(index.size, grad.shape[-1]), out.reshape(index.size, out.shape[-1])
    for expert in np.unique(named).tolist():
        chosen = named == expert
        product = np.empty((int(chosen.sum()), out.shape[-1]), out.dtype)
        _linear_t(product, rows[chosen], weight[expert])
        flat[chosen] = product


def _rows(x: Array) -> int:
    rows = 1
    for n in x.shape[:-1]:
        rows *= n
    return rows


def _softmax(out: Array, x: Array, *, dim: int) -> None:
    if x.shape[dim] == 0:
        return
    e = x - np.max(x, axis=dim, keepdims=True)
    np.exp(e, out=e)
    np.divide(e, np.sum(e, axis=dim, keepdims=True), out=out)


def _log_softmax(out: Array, x: Array, *, dim: int) -> None:
    if x.shape[dim] == 0:
        return
    shifted = x - np.max(x, axis=dim, keepdims=True)
    total = np.sum(np.exp(shifted), axis=dim, keepdims=True)
    np.subtract(shifted, np.log(total), out=out)


def _layer_norm(
    out: Array, x: Array, weight: Array | None, bias: Array | None, *, eps: float
) -> None:
    if x.size == 0:
        return
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(np.square(centred), axis=-1, keepdims=True)
    centred /= np.sqrt(variance + x.dtype.type(eps))
    _affine(out, centred, weight, bias)


def _rms_norm(out: Array, x: Array, weight: Array | None, *, eps: float) -> None:
    if x.size == 0:
        return
    square = np.mean(np.square(x), axis=-1, keepdims=True)
    _affine(out, x / np.sqrt(square + x.dtype.type(eps)), weight, None)


def _affine(out: Array, x: Array, weight: Array | None, bias: Array | None) -> None:
    if weight is not None:
        x *= weight
    if bias is not None:
        x += bias
    out[...] = x


def _rope(out: Array, x: Array, cos: Array, sin: Array, *, interleaved: bool) -> None:
    n = cos.shape[-1]
    a, b = (
        (x[..., 0 : 2 * n : 2], x[..., 1 : 2 * n : 2])
        if interleaved
        else (x[..., :n], x[..., n : 2 * n])
    )
    first, second = a * cos - b * sin, b * cos + a * sin
    if interleaved:
        out[..., 0 : 2 * n : 2], out[..., 1 : 2 * n : 2] = first, second
    else:
        out[..., :n], out[..., n : 2 * n] = first, second
    out[..., 2 * n :] = x[..., 2 * n :]


def _attention(
    out: Array,
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    mask: Array | None,
    q_offset: Array | None,
    kv_lengths: Array | None,
    sinks: Array | None,
    *,
    scale: float,
    causal: bool,
    window: int | None,
    softcap: float | None,
) -> None:
    k, v = (unpack(x) if x.dtype == np.uint8 else x for x in (k, v))
    batch, heads, length, _ = q.shape
    keys = k.shape[2]
    if out.size == 0 or keys == 0:
        out[...] = 0
        return
    groups = heads // k.shape[1]
    if groups > 1:
        k, v = np.repeat(k, groups, axis=1), np.repeat(v, groups, axis=1)
    kt = np.swapaxes(k, -1, -2)
    for start in range(0, length, _QUERY_ROWS):
        rows = slice(start, min(length, start + _QUERY_ROWS))
        scores = np.matmul(q[:, :, rows] * q.dtype.type(scale), kt)
        if softcap is not None:
            scores = np.tanh(scores / q.dtype.type(softcap)) * q.dtype.type(softcap)
        if bias is not None:
            scores += _part(bias, rows)
        seen = _visible(rows, keys, mask, q_offset, kv_lengths, causal, window)
        if seen is not None:
            scores = np.where(seen, scores, q.dtype.type(-np.inf))
        top = np.max(scores, axis=-1, keepdims=True)
        if sinks is not None:
            top = np.maximum(top, sinks)
        # A row that sees no key has the maximum -inf; its result is zeros.
        top = np.where(np.isneginf(top), q.dtype.type(0), top)
        scores -= top
        np.exp(scores, out=scores)
        total = np.sum(scores, axis=-1, keepdims=True)
        if sinks is not None:
            total += np.exp(sinks - top)
        scores /= np.where(total == 0, q.dtype.type(1), total)
        out[:, :, rows] = np.matmul(scores, v)


def _part(x: Array, rows: slice) -> Array:
    return x if x.shape[2] == 1 else x[:, :, rows]


def _visible(
    rows: slice,
    keys: int,
    mask: Array | None,
    q_offset: Array | None,
    kv_lengths: Array | None,
    causal: bool,
    window: int | None,
) -> Array | None:
    at_k = np.arange(keys)
    at_q = np.arange(rows.start, rows.stop)[:, None]
    if q_offset is not None:
        at_q = at_q + q_offset.astype(np.int64).reshape(-1, 1, 1, 1)
    tests: list[Array] = [] if mask is None else [_part(mask, rows)]
    if causal:
        tests.append(at_k <= at_q)
    if window is not None:
        tests.append(at_q - at_k < window)
        if not causal:
            tests.append(at_k - at_q < window)
    if kv_lengths is not None:
        tests.append(at_k < kv_lengths.astype(np.int64).reshape(-1, 1, 1, 1))
    seen: Array | None = None
    for test in tests:
        seen = test if seen is None else seen & test
    return seen


def _cache_write(out: Array, cache: Array, values: Array, offsets: Array) -> None:
    if not np.may_share_memory(out, cache):
        np.copyto(out, cache)
    count, capacity = values.shape[2], out.shape[2]
    for row, offset in enumerate(offsets.tolist()):
        if not 0 <= offset <= capacity - count:
            raise IndexError(
                f"cache_write_: {count} tokens at {offset} do not fit the capacity {capacity}"
            )
        out[row, :, offset : offset + count] = values[row]


def _pack_rows(out: Array, x: Array) -> None:
    out[...] = pack(x)


KERNELS: dict[str, Callable[..., None]] = {
    "matmul": _matmul,
    "linear": _linear,
    "linear_t": _linear_t,
    "linear_experts": _linear_experts,
    "linear_experts_t": _linear_experts_t,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "rope": _rope,
    "attention": _attention,
    "cache_write": _cache_write,
    "pack_rows": _pack_rows,
}
