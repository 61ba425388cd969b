"""Pooling over windows, fixed, adaptive and fractional, with indices."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.basis.errors import ShapeError
from rushlight.core.basis.layout import Shape
from rushlight.core.functional.creation import of_data
from rushlight.core.functional.network.tables import MOST_TERMS, resample
from rushlight.core.ops.autocast import casts
from rushlight.core.ops.binary import where
from rushlight.core.ops.creation import arange
from rushlight.core.ops.declare import network, public
from rushlight.core.ops.movement import pad as _pad
from rushlight.core.ops.random import rand
from rushlight.core.ops.windows import WINDOW_ARGMAX, WINDOW_MAX
from rushlight.core.tensor.autograd import needs_gradient, no_grad

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
        places = axis.reshape(*front, *ones)
        place = places if place is None else place * sizes[i] + places
    assert place is not None
    outs, count = place.shape[-2 * rank : -rank], int(np.prod(place.shape[-rank:]))
    index = place.expand(*lead, *place.shape[-2 * rank :]).reshape(*lead, int(np.prod(outs)), count)
    flat = x.reshape(*lead, int(np.prod(sizes)))
    every = index.reshape(*lead, index.shape[-2] * count)
    values = flat.gather(-1, every).reshape(*index.shape)
    with no_grad():
        best = values.detach().argmax(-1, True)
        indices = index.gather(-1, best).squeeze(-1).reshape(*lead, *outs)
    return values.gather(-1, best).reshape(*lead, *outs), indices


def _adaptive_max(rank: int, indices: bool) -> Any:
    name = f"adaptive_max_pool{rank}d"

    def pooled(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
        out_sizes = (output_size,) * rank if isinstance(output_size, int | None) else output_size
        if input.ndim not in (rank + 1, rank + 2) or len(out_sizes) != rank:
            raise ShapeError(f"{name}: x {input.shape} and output_size {output_size} do not fit")
        sizes = input.shape[-rank:]
        outs = [n if size is None else size for n, size in zip(sizes, out_sizes, strict=True)]
        if min(outs) < 0 or min(sizes) < 1:
            raise ShapeError(f"{name}: x {input.shape} has no {output_size} parts")
        if all(out and n % out == 0 for n, out in zip(sizes, outs, strict=True)):
            return largest(
                input,
                [(n // out, n // out, 0, 1, out, n) for n, out in zip(sizes, outs, strict=True)],
            )
        axes = []
        for n, out in zip(sizes, outs, strict=True):
            ends = parts(name, n, out)
            wide = max((b - a for a, b in ends), default=1)
            places = [[min(a + k, b - 1) for k in range(wide)] for a, b in ends]
            table = np.array(places, np.int64).reshape(out, wide)
            axes.append(of_data(table, device=input.device))
        return _largest(input, axes)

    def call(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        values, flat_indices = pooled(input, output_size)
        return (values, flat_indices) if return_indices or indices else values

    call.__name__ = call.__qualname__ = f"{name}_with_indices" if indices else name
    call.__doc__ = (
        f"The largest of parts of nearly equal size of the last {rank} dims; None keeps a dim. "
        "With `return_indices` (values, flat indices). `input` is floating; `output_size` an int "
        "or one per dim. Raises ShapeError for other dims or sizes."
    )
    return network(casts(cpu="float32" if rank == 3 and not indices else None)(call))


adaptive_max_pool1d = public(_adaptive_max(1, False))


adaptive_max_pool2d = _adaptive_max(2, False)


adaptive_max_pool3d = _adaptive_max(3, False)


adaptive_max_pool1d_with_indices = _adaptive_max(1, True)


adaptive_max_pool2d_with_indices = _adaptive_max(2, True)


adaptive_max_pool3d_with_indices = _adaptive_max(3, True)


def _fractional(rank: int, indices: bool) -> Any:
    name = f"fractional_max_pool{rank}d"

    def call(
        input: Tensor,
        kernel_size: Size,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
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
        values, flat_indices = _largest(input, axes)
        return (values, flat_indices) if return_indices or indices else values

    call.__name__ = call.__qualname__ = f"{name}_with_indices" if indices else name
    call.__doc__ = (
        f"The largest of windows at random steps over the last {rank} dims (Graham, 2015); give "
        "output_size or output_ratio. _random_samples: (n, c, dims) in [0, 1). `input` is "
        "floating, `kernel_size` an int or one per dim; `return_indices`: (values, flat indices). "
        "Raises ShapeError for both or none of the two, and for windows that do not fit."
    )
    return network(casts(cpu=None if indices else "float32")(call))


fractional_max_pool2d, fractional_max_pool3d = _fractional(2, False), _fractional(3, False)


fractional_max_pool2d_with_indices = _fractional(2, True)


fractional_max_pool3d_with_indices = _fractional(3, True)


Size = int | Sequence[int]


def each(name: str, value: Any, rank: int) -> tuple[int, ...]:
    """One number per dim; ValueError for another count."""
    result: tuple[Any, ...] = (
        (value,) * rank if isinstance(value, (int, np.integer)) else tuple(value)
    )
    result = result * rank if len(result) == 1 else result
    if len(result) != rank:
        raise ShapeError(f"{name}: {tuple(value)} must be one number or {rank}")
    return result


def _length(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    span = n + 2 * p - d * (k - 1) - 1
    out = (-(-span // s) if ceil_mode else span // s) + 1
    # The last window must begin within the input or its left padding.
    return out - 1 if ceil_mode and (out - 1) * s >= n + p else out


def _rows(
    name: str,
    x: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    rank: int,
) -> list[tuple[int, ...]]:
    """Per pooled dim (kernel, stride, padding, dilation, out, size)."""
    if stride is None or (isinstance(stride, (tuple, list)) and not stride):
        stride = kernel
    settings = kernel, stride, padding, dilation
    try:
        k, s, p, d = [tuple(map(operator.index, each(name, v, rank))) for v in settings]
    except TypeError:
        raise TypeError(
            f"{name}: kernel, stride, padding and dilation are {settings}; they must be ints, or "
            f"{rank} ints each"
        ) from None
    return _rows_of(name, x.layout.shape, k, s, p, d, bool(ceil_mode), rank)


@lru_cache(1024)
def _rows_of(
    name: str, shape: Shape, k: Shape, s: Shape, p: Shape, d: Shape, ceil_mode: bool, rank: int
) -> list[tuple[int, ...]]:
    if len(shape) not in (rank + 1, rank + 2):
        raise ShapeError(f"{name}: x is {shape}; it must have {rank + 1} or {rank + 2} dims")
    if not all(shape[-rank - 1 :]):
        raise ShapeError(f"{name}: x is {shape}; only its batch may be empty")
    rows: list[tuple[int, ...]] = []
    if min(k) < 1 or min(s) < 1 or min(d) < 1 or min(p) < 0:
        raise ValueError(
            f"{name}: kernel {k}, stride {s} and dilation {d} must be positive, "
            f"padding {p} not negative"
        )
    for i in range(rank):
        n = shape[i - rank]
        if 2 * p[i] > k[i]:
            raise ShapeError(f"{name}: padding {p[i]} is more than half of the window {k[i]}")
        out = _length(n, k[i], s[i], p[i], d[i], ceil_mode)
        if out < 1:
            raise ShapeError(f"{name}: the window {k} is larger than x {shape}")
        rows.append((k[i], s[i], p[i], d[i], out, n))
    return rows


def largest(x: Tensor, rows: list[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
    """The largest of each window, and their flat indices; rows: see `_rows`."""
    rank = len(rows)
    x_, windows = _windows(x, rows)
    indices = WINDOW_ARGMAX(x_.detach(), **windows)
    shape = (*x.shape[:-rank], *windows["count"][3 - rank :])
    flat, places = x_.flatten(1), indices.flatten(1)
    if _may_be_empty(rows):
        low = float("-inf") if x.dtype.is_floating_point else -(2 ** (8 * x.dtype.itemsize - 1))
        values = where(places >= 0, flat.gather(1, places.clamp(min=0)), low)
    else:
        values = flat.gather(1, places)
    return values.reshape(*shape), indices.reshape(*shape)


def _windows(x: Tensor, rows: list[tuple[int, ...]]) -> tuple[Tensor, dict[str, Any]]:
    """`x` as (n, d, h, w), and an op's attributes."""
    rank = len(rows)
    lead, *sizes = math.prod(x.shape[:-rank]), *[1] * (3 - rank), *x.shape[-rank:]
    k, s, p, d, out, _ = zip(*[(1, 1, 0, 1, 1, 1)] * (3 - rank), *rows, strict=True)
    return x.reshape(lead, *sizes), dict(kernel=k, stride=s, padding=p, dilation=d, count=out)


def _may_be_empty(rows: list[tuple[int, ...]]) -> bool:
    """Whether a window may lie in the padding alone."""
    return any(n < apart for _, _, _, apart, _, n in rows)


def _max_pool(rank: int, indices: bool = False) -> Any:
    name = f"max_pool{rank}d"

    def call(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        rows = _rows(name, input, kernel_size, stride, padding, dilation, ceil_mode, rank)
        if not (return_indices or indices or needs_gradient(input) or _may_be_empty(rows)):
            x, windows = _windows(input, rows)
            shape = (*input.layout.shape[:-rank], *windows["count"][3 - rank :])
            return WINDOW_MAX(x, **windows).reshape(shape)
        values, flat_indices = largest(input, rows)
        return (values, flat_indices) if return_indices or indices else values

    call.__name__ = call.__qualname__ = f"{name}_with_indices" if indices else name
    call.__doc__ = (
        f"The largest of each window of the last {rank} dims; with `return_indices` (values, flat "
        "indices). stride defaults to the window; ceil_mode keeps windows that reach beyond. "
        "`input` is floating; `kernel_size`, `padding` and `dilation` are an int or one per dim. "
        "Raises ShapeError for a padding of more than half the window, and where no window fits."
    )
    return network(casts(cpu="float32" if rank == 3 and not indices else None)(call))


max_pool1d = public(_max_pool(1))


max_pool2d = public(_max_pool(2))


max_pool3d = public(_max_pool(3))


max_pool1d_with_indices = _max_pool(1, True)


max_pool2d_with_indices = _max_pool(2, True)


max_pool3d_with_indices = _max_pool(3, True)


def _average(
    name: str,
    x: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
    rank: int,
) -> Tensor:
    rows = _rows(name, x, kernel, stride, padding, 1, ceil_mode, rank)
    narrow = x.dtype.is_floating_point and x.dtype.itemsize < 4
    total = _sums(x.float() if narrow else x, rows)
    if divisor is not None:
        if divisor == 0:
            raise ValueError(f"{name}: divisor_override is 0; it must not be zero")
        return _divided(total, divisor).to(x.dtype)
    counts = np.ones((), np.int64)
    for k, s, p, _, out, n in rows:
        # ceil_mode's windows beyond the padding do not count what lies there.
        low, high = (-p, n + p) if count_include_pad else (0, n)
        dim = [min(j * s - p + k, high) - max(j * s - p, low) for j in range(out)]
        counts = counts[..., None] * np.array(dim, np.int64)
    if counts.size and (counts == counts.flat[0]).all():
        return _divided(total, int(counts.flat[0])).to(x.dtype)
    return _divided(total, of_data(counts, dtype=total.dtype, device=x.device)).to(x.dtype)


def _sums(x: Tensor, rows: list[tuple[int, ...]]) -> Tensor:
    """The sum of each window."""
    rank = len(rows)
    if x.dtype.is_floating_point and all(k * out <= MOST_TERMS for k, _, _, _, out, _ in rows):
        tables = []
        for k, s, p, _, out, n in rows:
            places = np.arange(out)[:, None] * s - p + np.arange(k)
            tables.append(
                (np.where((places >= 0) & (places < n), places, -1), np.ones(places.shape))
            )
        return resample(x, tables)
    pads = [(p, max(0, (out - 1) * s + k - n - p)) for k, s, p, _, out, n in rows]
    x = _pad(x, [n for pair in reversed(pads) for n in pair])
    for size, step, _, _, out, _ in rows:
        # The window's dim goes last, so the pooled dims keep their places.
        dim = x.ndim - rank
        x = x.unfold(dim, size, step).narrow(dim, 0, out)
    return x.sum(list(range(-rank, 0)))


def _divided(total: Tensor, count: Any) -> Tensor:
    # Integers stay integers, as in torch.
    return (
        total / count if total.dtype.is_floating_point else total.div(count, rounding_mode="trunc")
    )


@public
@network
def avg_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of the last dim; padding counts as zeros by default.

    `input` is (n, c, length) or without n; `count_include_pad`: padding counts. `kernel_size`,
    `stride` (the kernel's unless set) and `padding` are an int or one per dim. `ceil_mode`: a
    window may hang over the end. Raises ShapeError for a padding of more than half the window, and
    where no window fits.
    """
    return _average(
        "avg_pool1d", input, kernel_size, stride, padding, ceil_mode, count_include_pad, None, 1
    )


@public
@network
def avg_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of the last two dims; padding counts as zeros by default.

    `input` is (n, c, h, w) or without n; `count_include_pad`: padding counts; `divisor_override`
    divides in place of the count. `kernel_size`, `stride` (the kernel's unless set) and `padding`
    are an int or one per dim. `ceil_mode`: a window may hang over the end. Raises ShapeError for a
    padding of more than half the window, and where no window fits.
    """
    return _average(
        "avg_pool2d",
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        2,
    )


@network
@casts(cpu="float32")
def avg_pool3d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of the last three dims; padding counts as zeros by default.

    `input` is (n, c, d, h, w) or without n; `count_include_pad`: padding counts; `divisor_override`
    divides in place of the count. `kernel_size`, `stride` (the kernel's unless set) and `padding`
    are an int or one per dim. `ceil_mode`: a window may hang over the end. Raises ShapeError for a
    padding of more than half the window, and where no window fits.
    """
    return _average(
        "avg_pool3d",
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
        3,
    )


@network
def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: Size,
    stride: Size | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum x^p)^(1/p) of each window of the last dim.

    `input` is (n, c, length), `norm_type` p, `kernel_size` and `stride` ints; `ceil_mode`: a window
    may hang over the end. Raises ShapeError where no window fits.
    """
    (k,) = each("lp_pool1d", kernel_size, 1)
    mean = avg_pool1d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * k) ** (1.0 / norm_type)


@network
def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Size,
    stride: Size | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum x^p)^(1/p) of each window of the last two dims.

    `input` is (n, c, h, w), `norm_type` p, `kernel_size` and `stride` an int or two; `ceil_mode`: a
    window may hang over the end. Raises ShapeError where no window fits.
    """
    kh, kw = each("lp_pool2d", kernel_size, 2)
    mean = avg_pool2d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * (kh * kw)) ** (1.0 / norm_type)


@network
def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Size,
    stride: Size | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum x^p)^(1/p) of each window of the last three dims.

    `input` is (n, c, d, h, w), `norm_type` p, `kernel_size` and `stride` an int or three;
    `ceil_mode`: a window may hang over the end. Raises ShapeError where no window fits.
    """
    kd, kh, kw = each("lp_pool3d", kernel_size, 3)
    mean = avg_pool3d(input**norm_type, kernel_size, stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * (kd * kh * kw)) ** (1.0 / norm_type)


_MOST_PARTS = 1 << 20  # of a dim: a table has a row for each


def parts(name: str, n: int, out: int) -> list[tuple[int, int]]:
    """Beginnings and ends of `out` parts of nearly equal size of n elements."""
    if out > _MOST_PARTS:
        raise ShapeError(f"{name}: {out} parts of a dim are not supported; at most {_MOST_PARTS}")
    return [(j * n // out, -(-(j + 1) * n // out)) for j in range(out)]


def _adaptive(name: str, x: Tensor, size: Any, rank: int) -> Tensor:
    """Means of parts of nearly equal size, dim by dim."""
    sizes_wanted = (size,) * rank if isinstance(size, int) or size is None else tuple(size)
    if x.ndim not in (rank + 1, rank + 2) or len(sizes_wanted) != rank:
        raise ShapeError(f"{name}: x {x.shape} and output_size {size} do not fit")
    if any(want is not None and want < 0 for want in sizes_wanted):
        raise ShapeError(f"{name}: output_size is {size}; it must not be negative")
    if all(want == 1 for want in sizes_wanted) or not x.dtype.is_floating_point:
        return x.mean(list(range(-rank, 0)), True)
    tables: list[Any] = []
    for n, want in zip(x.shape[-rank:], sizes_wanted, strict=True):
        if want is None or want == n:
            tables.append(None)
            continue
        ends = np.array(parts(name, n, want), np.int64).reshape(want, 2)
        sizes = ends[:, 1:] - ends[:, :1]
        places = ends[:, :1] + np.arange(sizes.max(initial=0))
        tables.append((np.where(places < ends[:, 1:], places, -1), 1 / sizes + 0.0 * places))
    return resample(x, tables)


@public
@network
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of `output_size` parts of the last dim."""
    return _adaptive("adaptive_avg_pool1d", input, output_size, 1)


@network
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of parts of the last two dims; None keeps a dim."""
    return _adaptive("adaptive_avg_pool2d", input, output_size, 2)


@network
@casts(cpu="float32")
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of parts of the last three dims; None keeps a dim."""
    return _adaptive("adaptive_avg_pool3d", input, output_size, 3)
