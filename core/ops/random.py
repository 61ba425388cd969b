"""Random tensors: Philox draws, the same on every device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import Device, Generator, drawing
from rushlight.core.backends import device as _device
from rushlight.core.basis.dtype import PARTS, DType, as_dtype, int64
from rushlight.core.basis.errors import TypeMismatch
from rushlight.core.basis.layout import Layout
from rushlight.core.jit import capture
from rushlight.core.ops.complex import view_as_complex
from rushlight.core.ops.creation import sizes
from rushlight.core.ops.declare import public
from rushlight.core.tensor import interpreter_stack
from rushlight.core.tensor.op import Meta, Op

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _infer(*, shape: tuple[int, ...], dtype: DType, seed: int, offset: int) -> Meta:
    return Meta(dtype, Layout.contiguous(shape))


def _infer_int(
    *, low: int, high: int, shape: tuple[int, ...], dtype: DType, seed: int, offset: int
) -> Meta:
    return Meta(dtype, Layout.contiguous(shape))


RAND = Op("rand", infer=_infer, differentiable=False, varies=True)
RANDN = Op("randn", infer=_infer, differentiable=False, varies=True)
RANDINT = Op("randint", infer=_infer_int, differentiable=False, varies=True)


def _draw(
    op: Op,
    shape: tuple[int, ...],
    words: int,
    dtype: DType,
    device: Device | str | None,
    generator: Generator | None,
    **attrs: Any,
) -> Tensor:
    if interpreter_stack.active and interpreter_stack.innermost() is not None:
        return interpreter_stack.draw_per_sample(
            lambda shape: _draw(op, shape, words, dtype, device, generator, **attrs), shape
        )
    where = _device(device)
    count = words
    for n in shape:
        count *= n
    source = generator or drawing.generator or where.generator
    if capture.active:
        capture.numbers_drawn(source, count)
    seed, offset = source.reserve(count)
    try:
        return op(device=where, shape=shape, dtype=dtype, seed=seed, offset=offset, **attrs)
    except BaseException:  # such as a lack of memory: the next call draws these words
        source.give_back(offset, count)
        raise


def _pairs(shape: tuple[int, ...], dtype: DType | str | None) -> tuple[tuple[int, ...], Any]:
    """The shape and dtype of the parts, where a complex dtype is asked for."""
    kind = as_dtype(dtype)
    return ((*shape, 2), PARTS[kind]) if kind in PARTS else (shape, kind)


def _float(name: str, dtype: DType | str | None) -> DType:
    result = as_dtype(dtype)
    if not result.is_floating_point:
        raise TypeMismatch(f"{name}: {result.name} is not a floating dtype; use randint")
    return result


@public
def rand(
    *size: Any,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers in [0, 1): the top 24 bits of one Philox word per element.

    Complex ones have such parts.

    `size`: ints, or one sequence. `generator` draws the numbers, the device's unless set. `dtype`
    and `device` are the result's; `requires_grad`: it needs a gradient. Raises TypeError for
    integers, ValueError for a negative size.
    """
    shape, kind = _pairs(sizes("rand", size), dtype)
    out = _draw(RAND, shape, 1, _float("rand", kind), device, generator)
    out = view_as_complex(out) if as_dtype(dtype) in PARTS else out
    return out.requires_grad_() if requires_grad else out


@public
def randn(
    *size: Any,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers of mean 0 and variance 1 (Box and Muller, 1958), two words per element.

    The parts of complex ones have variance 1/2.

    `size`: ints, or one sequence. `generator` draws the numbers, the device's unless set. `dtype`
    and `device` are the result's; `requires_grad`: it needs a gradient. Raises TypeError for
    integers, ValueError for a negative size.
    """
    shape, kind = _pairs(sizes("randn", size), dtype)
    out = _draw(RANDN, shape, 2, _float("randn", kind), device, generator)
    out = view_as_complex(out * 0.5**0.5) if as_dtype(dtype) in PARTS else out
    return out.requires_grad_() if requires_grad else out


@public
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    dtype: DType | str | None = int64,
    device: Device | str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers low <= n < high, low 0 by default: a word each, scaled by a 32 x 32 bit product.

    ValueError if high <= low, the range is over 2**32, or the dtype does not hold it.

    `size` is a sequence of ints. `generator` draws the numbers, the device's unless set. `device`
    has the result; `requires_grad`: it needs a gradient.
    """
    if size is None:  # randint(high, size)
        high, size, low = (low, high, 0) if low is not None else (None, high, None)
    if high is None:  # randint(high, size=size)
        low, high = None, low
    if high is None or size is None:
        raise TypeError("randint: give high and size, or low, high and size")
    low = 0 if low is None else low
    if not 0 < high - low <= 2**32:
        raise ValueError(f"randint: [{low}, {high}) must hold 1 to 2**32 numbers")
    shape = sizes("randint", (tuple(size),))
    kind = int64 if dtype is None else as_dtype(dtype)
    if kind.kind in "ui":
        limits = np.iinfo(kind.numpy)
        if low < limits.min or high - 1 > limits.max:
            raise ValueError(f"randint: [{low}, {high}) does not fit {kind.name}")
    out = _draw(RANDINT, shape, 1, kind, device, generator, low=low, high=high)
    return out.requires_grad_() if requires_grad else out
