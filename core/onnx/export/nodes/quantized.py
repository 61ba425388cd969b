"""Weights in quantized blocks: MatMulNBits with the same bits, or eight bits within a bound.

q4_0 and q8_0 keep their bits. Other types are rounded to eight bits in blocks of 32 with a float32
scale, a 127th of the block's largest amount: the error of a weight is at most a 254th of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.onnx.export.graph import FLOAT, Graph
from rushlight.core.onnx.export.joining import Step
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
BLOCK, MICROSOFT = 32, "com.microsoft"
UINT8, INT8, INT4 = 2, 3, 22


def _bytes(tensor: Tensor) -> Array:
    """The blocks as rows of bytes."""
    return np.frombuffer(tensor.detach().raw_bytes(), np.uint8).reshape(-1, tensor.dtype.itemsize)


def _scales(tensor: Tensor) -> Array:
    """The scale of each block of 32."""
    if tensor.dtype.name in ("q4_0", "q8_0"):
        return _bytes(tensor)[:, :2].copy().view(np.float16).astype(np.float32)
    largest = np.abs(_values(tensor)).max(1, keepdims=True)
    return np.asarray(largest / np.float32(127), np.float32)


def _values(tensor: Tensor) -> Array:
    return np.asarray(tensor.detach().dequantize().host_values(), np.float32).reshape(-1, BLOCK)


def _codes(tensor: Tensor) -> Array:
    """The signed integers of each block of 32, as int8."""
    if tensor.dtype.name == "q4_0":
        packed = _bytes(tensor)[:, 2:]
        return np.concatenate([packed & 15, packed >> 4], 1).astype(np.int8) - np.int8(8)
    if tensor.dtype.name == "q8_0":
        return _bytes(tensor)[:, 2:].copy().view(np.int8)
    scales = _scales(tensor)
    return np.rint(_values(tensor) / np.where(scales == 0, 1, scales)).astype(np.int8)


def _nibbles(tensor: Tensor) -> Array:
    """q4_0 with neighbours in one byte, the first in its low bits, 8 for zero."""
    codes = (_codes(tensor) + np.int8(8)).astype(np.uint8)
    return codes[:, 0::2] | codes[:, 1::2] << 4


def _is_narrow(tensor: Tensor) -> bool:
    return tensor.dtype.name == "q4_0"


def _name(g: Graph, tensor: Tensor, suffix: str = "") -> str:
    given = g.given.get(id(tensor))
    name = (g.fresh("constant") if given is None else given) + suffix
    if tensor.dtype.name not in ("q4_0", "q8_0"):
        g.requantized.add(name)
    return name


def _enter(
    g: Graph, name: str, number: int, dims: list[int], nbytes: int, make: Callable[[], Array]
) -> str:
    if name not in g.weights:
        g.weight(name, number, dims, nbytes, lambda: np.ascontiguousarray(make()).tobytes())
    return name


def _scale_weight(g: Graph, tensor: Tensor, dims: list[int], suffix: str = "_scales") -> str:
    count = tensor.numel() // BLOCK
    return _enter(g, _name(g, tensor, suffix), FLOAT, dims, 4 * count, lambda: _scales(tensor))


def product(g: Graph, s: Step, x: int, weight: int, tensor: Tensor, bias: str) -> str:
    """x weight^T + bias by MatMulNBits of com.microsoft."""
    rows, width = tensor.shape
    blocks = width // BLOCK
    bits = 4 if _is_narrow(tensor) else 8
    each = 16 if bits == 4 else 32

    def make() -> Array:
        if bits == 4:
            return _nibbles(tensor)
        return (_codes(tensor).astype(np.int16) + 128).astype(np.uint8)

    name = _name(g, tensor)
    if name in g.weights and g.weights[name].number != UINT8:
        name = _name(g, tensor, "_packed")
    _enter(g, name, UINT8, [rows, blocks, each], rows * blocks * each, make)
    scales = _scale_weight(g, tensor, [rows, blocks])
    out = g.op(
        "MatMulNBits",
        g.get(x),
        name,
        scales,
        domain=MICROSOFT,
        K=width,
        N=rows,
        bits=bits,
        block_size=BLOCK,
    )
    return g.op("Add", out, bias) if bias else out


def rows(g: Graph, value: int, tensor: Tensor, index: str) -> str:
    """The rows of a table at an index: their blocks, unpacked and scaled."""
    count, width = tensor.shape
    blocks = width // BLOCK
    scales = _scale_weight(g, tensor, [count, blocks, 1], "_row_scales")
    factor = g.op("Gather", scales, index, axis=0)
    if _is_narrow(tensor):
        name = _name(g, tensor, "_rows")
        total = count * blocks * 16
        _enter(g, name, UINT8, [count, blocks, 16], total, lambda: _bytes(tensor)[:, 2:])
        packed = g.op("Cast", g.op("Gather", name, index, axis=0), to=6)
        sixteen = g.constant(np.int32(16))
        halves = g.op("Mod", packed, sixteen), g.op("Div", packed, sixteen)
        codes = g.op("Sub", g.op("Concat", *halves, axis=-1), g.constant(np.int32(8)))
    else:
        name = _name(g, tensor, "_rows")
        total = count * blocks * 32
        _enter(g, name, INT8, [count, blocks, 32], total, lambda: _codes(tensor))
        codes = g.op("Gather", name, index, axis=0)
    numbers = g.op("Mul", g.op("Cast", codes, to=FLOAT), factor)
    last = g.constant(np.array([width], np.int64))
    lead = g.op("Shape", index)
    return g.op("Reshape", numbers, g.op("Concat", lead, last, axis=0))


def dequantized(g: Graph, value: int, tensor: Tensor) -> str:
    """The whole weight in float32: its codes in blocks, times their scales."""
    *lead, width = tensor.shape
    dims = [*lead, width // BLOCK, BLOCK]
    name = _name(g, tensor, "_codes")
    _enter(g, name, INT8, dims, tensor.numel(), lambda: _codes(tensor))
    scales = _scale_weight(g, tensor, [*dims[:-1], 1], "_code_scales")
    numbers = g.op("Mul", g.op("Cast", name, to=FLOAT), scales)
    return g.reshape(numbers, tensor.shape)
