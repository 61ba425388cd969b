"""Products of matrices, of floats and of exact integers, and determinants."""

from __future__ import annotations

from typing import Any

from rushlight.core.backends import HOST
from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import INT32
from rushlight.core.onnx.registry import Call, operator
from rushlight.core.ops.integers import BYTE_PRODUCT, byte_product
from rushlight.core.ops.matmul import linear_t

_EXACT = 1 << 24  # whole numbers up to which float32 holds each
_FEW_ROWS = 16  # rows up to which the host is faster with a narrow weight than with a wide copy


def product(a: Any, b: Any) -> Any:
    """a @ b in the dtype of a; a narrow weight is used as it is stored where that is faster."""
    if b.dtype is a.dtype:
        return rl.matmul(a, b)
    if b.ndim == 2 and a.ndim:
        if b.t().is_contiguous():
            return rl.linear(a, b.t())
        if a.device is not HOST or a.numel() <= _FEW_ROWS * a.shape[-1]:
            return linear_t(a, b)
    return rl.matmul(a, b.to(a.dtype))


@operator("MatMul", stored=(1,))
def matmul(call: Call, a: Any, b: Any) -> Any:
    """The product of matrices, batches broadcast."""
    return product(a, b) if a.dtype.kind == "f" else integer_product(a, b).to(a.dtype)


@operator("Gemm", stored=(1,))
def gemm(call: Call, a: Any, b: Any, c: Any = None) -> Any:
    """alpha a b + beta c, where `transA` and `transB` exchange dims."""
    alpha, beta = call.float("alpha", 1.0), call.float("beta", 1.0)
    call.ignore("broadcast")  # before opset 7; sizes say the same
    a = a.t() if call.flag("transA") else a
    transposed = call.flag("transB")
    if a.dtype.kind != "f":
        out = integer_product(a, b.t() if transposed else b).to(a.dtype)
        out = out if alpha == 1 else (out * alpha).to(a.dtype)
        return out if c is None else (out + (c if beta == 1 else c * beta)).to(a.dtype)
    if transposed:
        if c is not None and alpha == beta == 1 and c.shape == (b.shape[0],):
            return rl.linear(a, b, c)
        out = rl.linear(a, b)
    else:
        out = product(a, b)
    out = out if alpha == 1 else out * alpha
    return out if c is None else out + (c if beta == 1 else c * beta)


@operator("Einsum")
def einsum(call: Call, *inputs: Any) -> Any:
    """Sums of products by Einstein's notation."""
    return rl.einsum(call.text("equation").replace(" ", ""), *inputs)


@operator("Det")
def determinant(call: Call, x: Any) -> Any:
    """Determinants of square matrices."""
    return rl.det(x)


def integer_product(a: Any, b: Any) -> Any:
    """a @ b of integers, exact: those of 32 bits and more by their own kernels."""
    dtype = "int64" if "64" in a.dtype.name else "int32"
    return rl.matmul(a.to(dtype), b.to(dtype))


def float_product(a: Any, b: Any, most: int = 255 * 255) -> Any:
    """a @ b of floats that hold small whole numbers, exact in int32.

    most: the greatest size of a product of two elements. As many of them are summed in float32 as
    that holds exactly.
    """
    inner, step = a.shape[-1], max(_EXACT // most, 1)
    total = None
    for start in range(0, inner, step):
        length = min(step, inner - start)
        left = a.narrow(-1, start, length)
        right = b.narrow(-2 if b.ndim > 1 else 0, start, length)
        piece = rl.matmul(left, right).to("int32")
        total = piece if total is None else total + piece
    return rl.matmul(a, b).to("int32") if total is None else total


def centered(x: Any, zero: Any, rows: bool) -> Any:
    """Whole numbers less their zero point, as float32: one of all, or of each row or column."""
    wide = x.to("float32")
    if zero is None:
        return wide
    if zero.ndim == 1 and zero.numel() > 1 and rows:
        zero = zero.unsqueeze(-1)
    if zero.ndim == 1 and zero.numel() == 1:
        zero = zero.reshape(())
    return wide - zero.to("float32")


def takes_bytes(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> bool:
    """Whether the device multiplies matrices of bytes as they are."""
    if a.ndim < 2 or b.ndim < 2 or not a.storage.device.backend.supports(BYTE_PRODUCT.name):
        return False
    if any(x.dtype.name not in ("uint8", "int8") for x in (a, b)):
        return False
    for zero, size in ((a_zero, a.shape[-2]), (b_zero, b.shape[-1])):
        if zero is not None and (zero.ndim > 1 or zero.numel() not in (1, size)):
            return False
    return a.ndim == 2 or b.ndim > 2 or a_zero is None or bool(a_zero.numel() == 1)


def of_rows(x: Any) -> Any:
    """One number, or one of each row, as a column."""
    return None if x is None else x.reshape(-1, 1)


def of_columns(x: Any) -> Any:
    """One number, or one of each column, as a row."""
    return None if x is None else x.reshape(1, -1)


def exact_sums(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    """The exact product of integers of eight bits less their zero points, in int32."""
    if takes_bytes(a, b, a_zero, b_zero):
        return byte_product(a, b, of_rows(a_zero), of_columns(b_zero))
    most = _largest(a, a_zero) * _largest(b, b_zero)
    return float_product(centered(a, a_zero, True), centered(b, b_zero, False), most)


@operator("MatMulInteger")
def matmul_integer(call: Call, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    """The exact product of integers of eight bits less their zero points, in int32."""
    call.result_kinds = [INT32]
    return exact_sums(a, b, a_zero, b_zero)


def _largest(x: Any, zero: Any) -> int:
    return 255 if zero is not None or x.dtype.kind == "u" else 128
