"""Lowerings of ops over block-quantized weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from rushlight.core.backends.cpu.simd import CODES, Record
from rushlight.core.backends.modes import get_linear_mode
from rushlight.core.basis.dtype import DType, float32, uint8
from rushlight.core.basis.graph import TensorView
from rushlight.core.basis.layout import Layout
from rushlight.core.basis.unpacking import codebook_of

# The quantized types with C kernels.
KERNELS = frozenset(dtype for dtype in CODES if dtype.kind == "q")


class _Codes:
    """The storage of a codebook's codes, a byte each."""

    def __init__(self, codes: Any) -> None:
        self.buffer = codes.astype(np.uint8)
        self.address: int = self.buffer.__array_interface__["data"][0]


@cache
def _codes(dtype: DType) -> TensorView | None:
    """The codebook of a type as an operand, the same at every call; None if it has none."""
    codebook = codebook_of(dtype)
    if codebook is None:
        return None
    codes = codebook.codes
    return TensorView(_Codes(codes), Layout.contiguous(codes.shape), uint8)


def _plain(x: Any) -> bool:
    """Whether an operand is float32 with a contiguous last dim."""
    layout = x.layout
    return (
        x.dtype is float32
        and 0 < layout.ndim <= 8
        and (layout.strides[-1] == 1 or layout.shape[-1] < 2)
    )


def _linear(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    x, weight, bias = inputs
    return _product("blocks_linear", out, x, weight, bias, None)


def _experts(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    x, weight, index, bias = inputs
    return _product("blocks_linear", out, x, weight, bias, index)


def _linear_t(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    grad, weight, *index = inputs
    return _product("blocks_linear_t", out, grad, weight, None, *index or (None,))


def _product(kernel: str, out: Any, x: Any, weight: Any, bias: Any, index: Any) -> Record | None:
    if (
        weight.dtype not in KERNELS
        or not all(_plain(t) for t in (out, x, bias) if t is not None)
        or any(t is not None and t.storage is out.storage for t in (x, bias, index))
        or (index is not None and index.layout.ndim > 8)
    ):
        return None
    operands = (out, x, weight, bias, index, _codes(weight.dtype))
    return Record(kernel, operands, (int(get_linear_mode() != "exact"),))


def _embedding(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    weight, index = inputs
    fits = weight.dtype in KERNELS and _plain(out) and index.layout.ndim <= 8
    return Record("blocks_widen", (out, weight, index, _codes(weight.dtype))) if fits else None


def _cast(inputs: Sequence[Any], out: Any, attrs: Mapping[str, Any]) -> Record | None:
    x = inputs[0]
    fits = x.dtype in KERNELS and _plain(out) and x.layout.ndim <= 8
    return Record("blocks_widen", (out, x, None, _codes(x.dtype))) if fits else None


LOWERINGS = {
    "linear": _linear,
    "linear_t": _linear_t,
    "linear_experts": _experts,
    "linear_experts_t": _linear_t,
    "embedding": _embedding,
    "cast": _cast,
}
