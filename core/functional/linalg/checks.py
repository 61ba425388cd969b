"""Checks of the arguments of linear algebra, and broadcasting of batches of matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.basis.dtype import PARTS
from rushlight.core.basis.errors import LinalgError, ShapeError, TypeMismatch
from rushlight.core.basis.layout import broadcast_shapes
from rushlight.core.ops.autocast import is_autocast_enabled
from rushlight.core.ops.matmul import matmul

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def product_of(name: str, a: Tensor, b: Tensor) -> Tensor:
    """The product of two tensors of one dtype; TypeMismatch for two dtypes, but in autocast."""
    if a.dtype is not b.dtype and not is_autocast_enabled(a.device.type):
        raise TypeMismatch(
            f"{name}: {a.dtype.name} and {b.dtype.name} differ; convert one with .to()"
        )
    return matmul(a, b)


_MOST_EMPTY = 1 << 20  # matrices without elements, whose number no memory bounds


def matrices(name: str, *tensors: Tensor) -> None:
    """Raise unless each has two dims or more and is float32, float64 or complex, all the same."""
    for x in tensors:
        if x.ndim < 2:
            raise ShapeError(f"{name}: a tensor of shape {x.shape} is no matrix; it needs two dims")
        if x.dtype not in PARTS and x.dtype not in PARTS.values():
            raise TypeMismatch(f"{name}: {x.dtype.name} is not supported; use .float()")
        if x.dtype is not tensors[0].dtype:
            raise TypeMismatch(
                f"{name}: {tensors[0].dtype.name} and {x.dtype.name} differ; convert one with .to()"
            )
        batch = math.prod(x.shape[:-2])
        if batch > _MOST_EMPTY and not x.numel():
            raise ShapeError(
                f"{name}: {batch} matrices without elements, of shape {x.shape}, are "
                f"too many; at most {_MOST_EMPTY} are supported"
            )


def square(name: str, *tensors: Tensor) -> None:
    """`matrices`, and the last two dims must be equal."""
    matrices(name, *tensors)
    for x in tensors:
        if x.shape[-1] != x.shape[-2]:
            raise ShapeError(f"{name}: matrices of shape {x.shape} must be square")


def together(name: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the same leading dims."""
    batch = broadcast_shapes(name, a.shape[:-2], b.shape[:-2])
    return a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])


def failed(name: str, info: Tensor, why: str) -> None:
    """Raise LinalgError for the first matrix whose `info` is not zero; reads the values."""
    codes = info.reshape(-1).tolist()
    for i, n in enumerate(codes):
        if n:
            which = f" (matrix {i} of the batch)" if info.ndim else ""
            raise LinalgError(f"linalg.{name}: {why}{which}: at {n}")
