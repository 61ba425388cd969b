"""Random numbers of several distributions, permutations, tensors like another one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends import HOST, Device, Generator
from rushlight.core.backends.registry import drawing
from rushlight.core.basis import philox
from rushlight.core.basis.dtype import PARTS, DType, as_dtype, float32, float64, int64, uint32
from rushlight.core.basis.errors import RangeError, TypeMismatch
from rushlight.core.basis.layout import Layout, broadcast_shapes
from rushlight.core.functional.statistics import searchsorted
from rushlight.core.jit import capture
from rushlight.core.ops.binary import where
from rushlight.core.ops.checking import require
from rushlight.core.ops.common import is_tensor
from rushlight.core.ops.complex import view_as_complex, view_as_real
from rushlight.core.ops.creation import arange
from rushlight.core.ops.declare import method, public
from rushlight.core.ops.inplace import copy_
from rushlight.core.ops.random import rand, randint, randn
from rushlight.core.ops.sort import topk
from rushlight.core.ops.unary import isfinite
from rushlight.core.tensor import interpreter_stack
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.op import tensor_class
from rushlight.core.tensor.storage import Storage

if TYPE_CHECKING:
    from rushlight.core.tensor.tensor import Tensor


def _check(name: str, good: bool, said: str) -> None:
    if not good:
        raise ValueError(f"{name}: {said}")


def _drawn(name: str, x: Tensor, generator: Generator | None) -> Tensor:
    """Uniform numbers in [0, 1) for the elements of x; TypeError if it is not floating."""
    if not x.dtype.is_floating_point:
        raise TypeMismatch(f"{name}: {x.dtype.name} is not a floating dtype")
    dtype = float64 if x.dtype is float64 else float32
    return rand(x.shape, dtype=dtype, device=x.device, generator=generator)


@method()
def uniform_(
    x: Tensor, *bounds: float, generator: Generator | None = None, **named: float
) -> Tensor:
    """Uniform numbers in [from, to), by default [0, 1), written over x (over complex parts).

    `bounds` are from and to, also by name (`named`). `generator` draws the numbers, the device's
    unless set. Raises ValueError for bounds in the wrong order, TypeError for integers.
    """
    low, high = (*bounds, *(0.0, 1.0)[len(bounds) :])
    low, high = named.pop("from", low), named.pop("to", high)
    _check("uniform_", low <= high and not named, f"from {low}, to {high}, {sorted(named)}")
    if x.dtype.is_complex:
        uniform_(view_as_real(x), low, high, generator=generator)
        return x
    drawn = _drawn("uniform_", x, generator)
    return copy_(x, drawn if (low, high) == (0, 1) else drawn * (high - low) + low)


@method()
def normal_(
    x: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Normal numbers written over x; complex ones have parts of half the variance.

    `mean` and `std` are numbers. `generator` draws the numbers, the device's unless set. Raises
    ValueError for a negative std, TypeError for integers.
    """
    _check("normal_", std >= 0, f"std is {std}; it must not be negative")
    if x.dtype.is_complex:  # the variance is that of both parts
        parts = randn((*x.shape, 2), dtype=PARTS[x.dtype], device=x.device, generator=generator)
        return copy_(x, view_as_complex(parts) * (std / math.sqrt(2)) + mean)
    if not x.dtype.is_floating_point:
        raise TypeMismatch(f"normal_: {x.dtype.name} is not a floating dtype")
    drawn = randn(x.shape, dtype=x.dtype, device=x.device, generator=generator)
    return copy_(x, drawn if (mean, std) == (0, 1) else drawn * std + mean)


@method()
def exponential_(x: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Numbers of density lambd exp(-lambd x) written over x.

    `generator` draws the numbers, the device's unless set. Raises ValueError for a lambd that is
    not positive, TypeError for integers.
    """
    _check("exponential_", lambd > 0, f"lambd is {lambd}; it must be positive")
    return copy_(x, -(-_drawn("exponential_", x, generator)).log1p() / lambd)


@method()
def cauchy_(
    x: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Numbers of the Cauchy distribution written over x.

    `median` and `sigma` are its place and width. `generator` draws the numbers, the device's unless
    set. Raises ValueError for a sigma that is not positive, TypeError for integers.
    """
    _check("cauchy_", sigma > 0, f"sigma is {sigma}; it must be positive")
    turn = (_drawn("cauchy_", x, generator) - 0.5) * math.pi
    return copy_(x, turn.tan() * sigma + median)


@method()
def log_normal_(
    x: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """exp of normal numbers written over x.

    `mean` and `std` are the normal numbers'. `generator` draws the numbers, the device's unless
    set. Raises ValueError for a std that is not positive, TypeError for integers.
    """
    _check("log_normal_", std > 0, f"std is {std}; it must be positive")
    _drawn("log_normal_", x.reshape(-1)[:0], generator)
    return copy_(x, normal_(x.detach().clone(), mean, std, generator=generator).exp())


@method()
def geometric_(x: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """How many trials of probability p the first success takes, 1 or more, written over x.

    `generator` draws the numbers, the device's unless set. Raises ValueError for a p that is not
    between 0 and 1.
    """
    _check("geometric_", 0 < p < 1, f"p is {p}; it must be between 0 and 1")
    u = rand(x.shape, device=x.device, generator=generator)
    return copy_(x, ((-u).log1p() / math.log1p(-p)).floor() + 1)


@method()
def random_(x: Tensor, *bounds: int, generator: Generator | None = None) -> Tensor:
    """Integers written over x: below one bound, or from the first up to the second.

    `bounds` are ints; without any up to the most that the dtype holds. `generator` draws the
    numbers, the device's unless set. Raises ValueError for an empty range.
    """
    most = {"f": 2**24, "b": 2}.get(x.dtype.kind, 2 ** min(8 * x.dtype.itemsize - 1, 31))
    low, high = bounds if len(bounds) == 2 else (0, bounds[0] if bounds else most)
    return copy_(x, randint(low, high, x.shape, device=x.device, generator=generator))


@method()
def bernoulli_(x: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with probability p (a number or a tensor), else 0, written over x.

    `generator` draws the numbers, the device's unless set. It raises nothing for a p outside 0 to
    1.
    """
    return copy_(x, rand(x.shape, device=x.device, generator=generator) < p)


@public
@method()
def bernoulli(x: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability in x, or `p`, else 0; the dtype of x.

    RangeError for a probability that is not from 0 to 1, on cpu at once.

    `generator` draws the numbers, the device's unless set. TypeError for integers without p.
    """
    if not x.dtype.is_floating_point and p is None:
        raise TypeMismatch(f"bernoulli: {x.dtype.name} is not a floating dtype")
    if p is None:
        chances = x.detach()
        require("bernoulli", (chances >= 0) & (chances <= 1), "x has a probability out of [0, 1]")
    else:
        _check("bernoulli", 0 <= p <= 1, f"p is {p}; it must be from 0 to 1")
    drawn = rand(x.shape, device=x.device, generator=generator)
    return (drawn < (x.detach() if p is None else p)).to(x.dtype)


_AT_ONCE = 1 << 20  # numbers of a binomial draw


def successes(count: Tensor, prob: Tensor, most: int, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials of probability `prob` succeed; no count is above `most`."""
    with no_grad():
        shape = broadcast_shapes("binomial", count.shape, prob.shape)
        p = prob.expand(*shape)
        result, step = p.zeros_like(), max(1, _AT_ONCE // max(1, p.numel()))
        for first in range(0, most, step):
            trials = arange(first, min(most, first + step), device=p.device)
            drawn = bernoulli(p.expand(trials.numel(), *shape), generator=generator)
            result = result + (drawn * (count > trials.reshape(-1, *[1] * p.ndim))).sum(0)
        return result


@public
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials of probability `prob` succeed: a sum of draws of 0 and 1.

    Both of one floating dtype (TypeError), broadcast to one shape; reads the largest count. No
    gradient passes.

    `generator` draws the numbers, the device's unless set. ValueError for integers.
    """
    if not count.dtype.is_floating_point:
        raise ValueError(f"binomial: count is {count.dtype.name}; it must be a floating dtype")
    if count.dtype is not prob.dtype:
        raise TypeMismatch(f"binomial: count is {count.dtype.name} and prob {prob.dtype.name}")
    most = int(count.detach().max().item()) if count.numel() else 0
    return successes(count.detach(), prob.detach(), most, generator)


_BAD_WEIGHT = "x holds a weight that is negative, infinite or nan"


def _few_weights(least: int) -> str:
    return f"a row of x has less than {least} positive weights"


def _check_weights(weights: Any, least: int) -> None:
    """RangeError for what is no weight, and for a row with less than `least` positive ones."""
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise RangeError(f"multinomial: {_BAD_WEIGHT}")
    if ((weights > 0).sum(-1) < least).any():
        raise RangeError(f"multinomial: {_few_weights(least)}")


def drawn_index(x: Tensor, generator: Generator | None, shape: tuple[int, ...]) -> Tensor | None:
    """One index, int64 of a shape of one element, drawn from float32 weights (n,) on cpu.

    It is `multinomial` of one draw with repetition, and the same number. None where other code has
    to draw it. RangeError as there.
    """
    plain = x.dtype is float32 and x.storage.device is HOST and not x.level
    if not plain or capture.active or interpreter_stack.active or len(x.layout.shape) != 1:
        return None
    weights = x.host_values()
    if not weights.size:
        return None
    ends = weights.cumsum()
    total = ends[-1]
    if not (0 < total < math.inf and weights.min() >= 0):
        _check_weights(weights, 1)  # large weights may have an infinite sum
    source = generator or drawing.generator or HOST.generator
    number = (philox.word(*source.reserve(1)) >> 8) * 2.0**-24
    place = int(ends.searchsorted(np.float32(number) * total, "right"))
    index = np.array([min(place, len(weights) - 1)], np.int64).view(np.uint8)
    storage = Storage(HOST, HOST.backend.upload(index, int64), 8, lent=False)
    return tensor_class[0](storage, int64, Layout.contiguous(shape))


def _drawn_on_host(x: Tensor, weights: Any, count: int, generator: Generator | None) -> Tensor:
    """`count` draws with repetition of each row of `weights`, the values of `x`."""
    ends = weights.cumsum(-1)
    totals = ends[..., -1:]
    least, most = (totals.item(),) * 2 if totals.size == 1 else (totals.min(), totals.max())
    if not (0 < least and most < math.inf and weights.min() >= 0):
        _check_weights(weights, 1)  # large weights may have an infinite sum
    drawn = rand((*x.shape[:-1], count), dtype=x.dtype, generator=generator).host_values() * totals
    if x.ndim == 1:
        places = ends.searchsorted(drawn, "right")
    else:
        rows = zip(ends, drawn, strict=True)
        places = np.array([row.searchsorted(numbers, "right") for row, numbers in rows])
    np.minimum(places, weights.shape[-1] - 1, out=places)
    return x.from_host(places, int64)


@public
@method()
def multinomial(
    x: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices (..., num_samples) drawn from weights (..., n), without repetition by default.

    RangeError for weights that are negative or not finite, or too few: on cpu at once, on other
    devices and within `jit` and `vmap` at the next read. Without repetition: the largest of
    log(weight) plus Gumbel noise (Gumbel, 1954).

    `x` has the weights; `replacement`: an index may come again. `generator` draws the numbers, the
    device's unless set. ValueError for more samples than there are, or none.
    """
    if x.ndim not in (1, 2) or num_samples <= 0:
        raise ValueError(
            f"multinomial: x is {x.shape}, num_samples {num_samples}; 1 or 2 dims, a "
            "positive number"
        )
    if not x.dtype.is_floating_point:
        raise TypeMismatch(f"multinomial: {x.dtype.name} is not a floating dtype")
    if not replacement and num_samples > x.shape[-1]:
        raise ValueError(
            f"multinomial: num_samples {num_samples} of {x.shape[-1]} without replacement"
        )
    if replacement and num_samples == 1:
        one = drawn_index(x, generator, (1,))
        if one is not None:
            return one
    x = x.detach()
    least = 1 if replacement else num_samples
    if x.device is HOST and not x.level and not capture.capturing():
        weights = x.host_values()
        if replacement and weights.size and x.dtype.name in ("float32", "float64"):
            return _drawn_on_host(x, weights, num_samples, generator)
        _check_weights(weights, least)
    else:
        require("multinomial", isfinite(x) & (x >= 0), _BAD_WEIGHT)
        require("multinomial", (x > 0).sum(-1) >= least, _few_weights(least))
    if replacement:
        ends = x.cumsum(-1)
        shape = (*x.shape[:-1], num_samples)
        drawn = rand(shape, dtype=ends.dtype, device=x.device, generator=generator)
        return searchsorted(ends, drawn * ends[..., -1:], right=True).clamp(max=x.shape[-1] - 1)
    noise = -(-_drawn("multinomial", x, generator).clamp(min=1e-38).log()).log()
    return topk(x.log() + noise.to(x.dtype), num_samples, -1).indices


@public
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: DType | str | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers with a mean and deviation that are numbers, then of `size`, or tensors.

    RangeError for a deviation that is negative, on cpu at once.

    `std` is that deviation. `generator` draws the numbers, the device's unless set. `dtype` and
    `device` are the result's; `requires_grad`: it needs a gradient.
    """
    if is_tensor(std):
        require("normal", ~(std.detach() < 0), "std has a negative element")
    else:
        _check("normal", std >= 0, f"std is {std}; it must not be negative")
    like = next((v for v in (mean, std) if is_tensor(v)), None)
    if like is None:
        drawn = randn(size, dtype=dtype, device=device, generator=generator)
    else:
        shape = (like + (mean if std is like else std)).shape
        drawn = randn(shape, dtype=like.dtype, device=like.device, generator=generator)
    result: Tensor = drawn * std + mean
    return result.requires_grad_() if requires_grad else result


@public
def randint_like(
    x: Tensor,
    low: int,
    high: int | None = None,
    *,
    dtype: DType | str | None = None,
    device: Any = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers low <= n < high (or 0 <= n < low) with the shape, dtype and device of x.

    `generator` draws the numbers, the device's unless set. `requires_grad`: the result needs a
    gradient. Raises ValueError for an empty range.
    """
    low, high = (0, low) if high is None else (low, high)
    kind = as_dtype(x.dtype if dtype is None else dtype)
    out = randint(low, high, x.shape, device=device or x.device, generator=generator).to(kind)
    return out.requires_grad_() if requires_grad else out


_FEW = 10  # expected counts below it are drawn by the table of their probabilities


_ROWS, _CANDIDATES = 48, 16


@public
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Counts of the expected values in `input`, of its shape and dtype; no gradient passes.

    A small one by its table of probabilities; a large one by Hörmann's transformed rejection
    (PTRS, 1993): the first of a few candidates that is accepted, each by at least 0.85. RangeError
    for a negative rate, on cpu at once.
    """
    rate = input.detach()
    require("poisson", ~(rate < 0), "input has a negative rate")

    def uniform(shape: Any) -> Tensor:
        return rand(shape, dtype=rate.dtype, device=rate.device, generator=generator)

    low = rate < _FEW
    small, large = where(low, rate, 1.0), where(low, _FEW, rate)
    k = arange(_ROWS, dtype=rate.dtype, device=rate.device)
    logs = k * small.unsqueeze(-1).log() - small.unsqueeze(-1) - (k + 1).lgamma()
    drawn = uniform(rate.shape).unsqueeze(-1)
    few = (drawn > logs.exp().cumsum(-1)).sum(-1).to(rate.dtype)
    few = where(rate == 0, 0.0, few)
    many = (_CANDIDATES, *rate.shape)
    u, v = uniform(many) - 0.5, uniform(many)
    b = 0.931 + 2.53 * large.sqrt()
    a, inverse = -0.059 + 0.02483 * b, 1.1239 + 1.1328 / (b - 3.4)
    us = 0.5 - u.abs()
    n = ((2 * a / us + b) * u + large + 0.43).floor()
    count = n.clamp(min=0)
    accept = (v * inverse / (a / us.square() + b)).log()
    good = (n >= 0) & (accept <= count * large.log() - large - (count + 1).lgamma())
    first = good.to("int32").argmax(0, keepdim=True)
    counts: Tensor = where(low, few, count.gather(0, first).squeeze(0))
    return counts


@public
def randperm(
    n: int, *, device: Device | str | None = None, generator: Generator | None = None
) -> Tensor:
    """The numbers 0 to n - 1 (int64) in random order: the stable order of n random words.

    `device` has the result. `generator` draws the numbers, the device's unless set. Raises
    ValueError for a negative size.
    """
    words = randint(0, 2**32, (n,), dtype=uint32, device=device, generator=generator)
    return words.argsort()


@public
def rand_like(
    x: Tensor,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers in [0, 1) with the shape and, unless given, dtype and device of `x`.

    `generator` draws the numbers, the device's unless set. `requires_grad`: the result needs a
    gradient. Raises TypeError for a dtype that is not floating.
    """
    return rand(
        x.shape,
        dtype=dtype or x.dtype,
        device=device or x.device,
        generator=generator,
        requires_grad=requires_grad,
    )


@public
def randn_like(
    x: Tensor,
    *,
    dtype: DType | str | None = None,
    device: Device | str | None = None,
    generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers with the shape and, unless given, dtype and device of `x`.

    `generator` draws the numbers, the device's unless set. `requires_grad`: the result needs a
    gradient. Raises TypeError for a dtype that is not floating.
    """
    return randn(
        x.shape,
        dtype=dtype or x.dtype,
        device=device or x.device,
        generator=generator,
        requires_grad=requires_grad,
    )
