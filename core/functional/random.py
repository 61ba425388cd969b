"""Random permutations, random tensors like another one, and dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.backends import Device, Generator
from rushlight.core.basis.dtype import DType, uint32
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.inplace import copy_
from rushlight.core.ops.random import rand, randint, randn

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


@public
def randperm(
    n: int, *, device: Device | str | None = None, generator: Generator | None = None
) -> Tensor:
    """The numbers 0 to n - 1 (int64) in random order: the stable order of n random words."""
    words = randint(0, 2**32, (n,), dtype=uint32, device=device, generator=generator)
    return words.argsort()


@public
def rand_like(
    x: Tensor, *, dtype: DType | str | None = None, device: Device | str | None = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform numbers in [0, 1) with the shape and, unless given, dtype and device of `x`."""
    return rand(x.shape, dtype=dtype or x.dtype, device=device or x.device, generator=generator,
                requires_grad=requires_grad)  # fmt: skip


@public
def randn_like(
    x: Tensor, *, dtype: DType | str | None = None, device: Device | str | None = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normal numbers with the shape and, unless given, dtype and device of `x`."""
    return randn(x.shape, dtype=dtype or x.dtype, device=device or x.device, generator=generator,
                 requires_grad=requires_grad)  # fmt: skip


@public
@network
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability `p` and scale the others by 1 / (1 - p), in training.

    inplace: the result is written over the input.
    """
    out = _dropped(input, p, training)
    return copy_(input, out) if inplace and out is not input else out


def _dropped(x: Tensor, p: float, training: bool) -> Tensor:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is {p}; it must be from 0 to 1")
    if not training or p == 0:
        return x
    if p == 1:
        return x * 0
    keep = rand(x.shape, device=x.device) >= p
    return x * (keep.to(x.dtype) * (1 / (1 - p)))
