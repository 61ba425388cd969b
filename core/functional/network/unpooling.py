"""Maxima of windows given by their places: adaptive and fractional pooling, and unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.creation import of_data
from rushlight.core.functional.network.pooling import Size, each, largest, parts
from rushlight.core.ops.creation import arange, zeros
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.random import rand
from rushlight.core.tensor.autograd import no_grad

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _largest(x: Tensor, axes: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Maxima and their flat indices; axes: per pooled dim the places (..., out, window).

    The leading dims of an axis broadcast against those of `x`.
    """
    rank = len(axes)
    lead, sizes = x.shape[: x.ndim - rank], x.shape[x.ndim - rank :]
    place = None
    for i, axis in enumerate(axes):
        front = axis.shape[:-2]
        ones = [1] * (2 * rank)
        ones[i], ones[rank + i] = axis.shape[-2:]
        part = axis.reshape(*front, *ones)
        place = part if place is None else place * sizes[i] + part
    assert place is not None
    outs, count = place.shape[-2 * rank : -rank], int(np.prod(place.shape[-rank:]))
    index = place.expand(*lead, *place.shape[-2 * rank :]).reshape(*lead, int(np.prod(outs)), count)
    flat = x.reshape(*lead, int(np.prod(sizes)))
    every = index.reshape(*lead, index.shape[-2] * count)
    found = flat.gather(-1, every).reshape(*index.shape)
    with no_grad():
        best = found.detach().argmax(-1, True)
        at = index.gather(-1, best).squeeze(-1).reshape(*lead, *outs)
    return found.gather(-1, best).reshape(*lead, *outs), at


def _adaptive_max(rank: int, indices: bool) -> Any:
    name = f"adaptive_max_pool{rank}d"

    def pooled(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
        given = (output_size,) * rank if isinstance(output_size, int | None) else output_size
        if input.ndim not in (rank + 1, rank + 2) or len(given) != rank:
            raise ShapeError(f"{name}: x {input.shape} and output_size {output_size} do not fit")
        sizes = input.shape[-rank:]
        outs = [n if size is None else size for n, size in zip(sizes, given, strict=True)]
        if min(outs) < 0 or min(sizes) < 1:
            raise ShapeError(f"{name}: x {input.shape} has no {output_size} parts")
        if all(out and n % out == 0 for n, out in zip(sizes, outs, strict=True)):
            return largest(input, [(n // out, n // out, 0, 1, out, n)
                                   for n, out in zip(sizes, outs, strict=True)])  # fmt: skip
        axes = []
        for n, out in zip(sizes, outs, strict=True):
            ends = parts(name, n, out)
            wide = max((b - a for a, b in ends), default=1)
            places = [[min(a + k, b - 1) for k in range(wide)] for a, b in ends]
            table = np.array(places, np.int64).reshape(out, wide)
            axes.append(of_data(table, device=input.device))
        return _largest(input, axes)

    def call(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        values, at = pooled(input, output_size)
        return (values, at) if return_indices or indices else values

    call.__name__ = call.__qualname__ = f"{name}_with_indices" if indices else name
    call.__doc__ = (
        f"The largest of parts of nearly equal size of the last {rank} dims; None keeps a dim. "
        "With `return_indices` (values, flat indices)."
    )
    return network(call)


adaptive_max_pool1d = public(_adaptive_max(1, False))
adaptive_max_pool2d = _adaptive_max(2, False)
adaptive_max_pool3d = _adaptive_max(3, False)
adaptive_max_pool1d_with_indices = _adaptive_max(1, True)
adaptive_max_pool2d_with_indices = _adaptive_max(2, True)
adaptive_max_pool3d_with_indices = _adaptive_max(3, True)


def _fractional(rank: int, indices: bool) -> Any:
    name = f"fractional_max_pool{rank}d"

    def call(
        input: Tensor, kernel_size: Size, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        if input.ndim not in (rank + 1, rank + 2) or (output_size is None) == (
            output_ratio is None
        ):
            raise ShapeError(
                f"{name}: x {input.shape} must have {rank + 1} or {rank + 2} dims; give "
                "output_size or output_ratio"
            )
        k, lead = each(name, kernel_size, rank), input.shape[:-rank]
        if output_size is not None:
            outs = each(name, output_size, rank)
        else:
            ratio = [output_ratio] * rank if isinstance(output_ratio, float) else output_ratio
            outs = tuple(int(n * r) for n, r in zip(input.shape[-rank:], ratio, strict=True))
        samples = _random_samples
        if samples is None:
            samples = rand(*lead, rank, dtype=input.dtype, device=input.device)
        samples = samples.reshape(*lead, rank)
        axes = []
        for i, (n, size, out) in enumerate(zip(input.shape[-rank:], k, outs, strict=True)):
            if out < 1 or size < 1 or out + size - 1 > n:
                raise ShapeError(f"{name}: {out} windows of {size} do not fit {n} of {input.shape}")
            # Graham, 2015: windows start at steps of about alpha, the last one at the end. torch
            # keeps the sample of the last dim first.
            u = samples[..., rank - 1 - i].unsqueeze(-1)
            alpha = (n - size) / (out - 1) if out > 1 else 0.0
            steps = arange(out, device=input.device)
            starts = ((u + steps) * alpha).long() - (u * alpha).long()
            starts = starts.where(steps < out - 1, n - size)
            axes.append(starts.unsqueeze(-1) + arange(size, device=input.device))
        values, at = _largest(input, axes)
        return (values, at) if return_indices or indices else values

    call.__name__ = call.__qualname__ = f"{name}_with_indices" if indices else name
    call.__doc__ = (
        f"The largest of windows at random steps over the last {rank} dims (Graham, 2015); give "
        "output_size or output_ratio. _random_samples: (n, c, dims) in [0, 1)."
    )
    return network(call)


fractional_max_pool2d, fractional_max_pool3d = _fractional(2, False), _fractional(3, False)
fractional_max_pool2d_with_indices = _fractional(2, True)
fractional_max_pool3d_with_indices = _fractional(3, True)


def _unpool(rank: int) -> Any:
    name = f"max_unpool{rank}d"

    def call(
        input: Tensor, indices: Tensor, kernel_size: Size, stride: Size | None = None,
        padding: Size = 0, output_size: Sequence[int] | None = None,
    ) -> Tensor:  # fmt: skip
        k, p = each(name, kernel_size, rank), each(name, padding, rank)
        s = k if stride is None or stride == [] else each(name, stride, rank)
        if input.ndim not in (rank + 1, rank + 2) or input.shape != indices.shape:
            raise ShapeError(
                f"{name}: x is {input.shape} and indices {indices.shape}; they must be equal and "
                f"have {rank + 1} or {rank + 2} dims"
            )
        usual = [(n - 1) * s[i] - 2 * p[i] + k[i] for i, n in enumerate(input.shape[-rank:])]
        sizes = list(output_size)[-rank:] if output_size is not None else usual
        bad = any(abs(a - b) >= step for a, b, step in zip(sizes, usual, s, strict=True))
        if len(sizes) != rank or bad or min(sizes, default=0) < 0:
            raise ShapeError(f"{name}: output_size {output_size} is not near {usual}")
        lead = input.shape[:-rank]
        count = int(np.prod(input.shape[-rank:]))
        empty = zeros(*lead, int(np.prod(sizes)), dtype=input.dtype, device=input.device)
        flat = empty.scatter(-1, indices.reshape(*lead, count), input.reshape(*lead, count))
        return flat.reshape(*lead, *sizes)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = (
        f"Values at the flat indices that max_pool{rank}d returned, zeros elsewhere; output_size "
        "chooses between sizes that were pooled to one."
    )
    return network(call)


max_unpool1d, max_unpool2d, max_unpool3d = _unpool(1), _unpool(2), _unpool(3)
