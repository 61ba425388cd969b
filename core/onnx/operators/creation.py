"""Operators that make tensors: constants, ranges, triangles, random numbers."""

from __future__ import annotations

from math import ceil, prod
from typing import Any

import numpy as np

from rushlight.core.backends import Generator
from rushlight.core.functional import declared as rl
from rushlight.core.onnx.element_types import FLOAT, INT32, ElementType
from rushlight.core.onnx.operators.common import asked_type, axis_of
from rushlight.core.onnx.registry import Call, as_ints, operator

_MOST_ELEMENTS = 1 << 31
_MOST_KNOWN = 1 << 16  # elements of a filled tensor that is a constant, not made in each run


@operator("ConstantOfShape", host=(0,))
def constant_of_shape(call: Call, sizes: Any) -> Any:
    """A tensor filled with the attribute `value`, a float zero by default."""
    fill = call.tensor("value", None)
    record = call.attributes["value"].value if fill is not None else None
    kind: ElementType = FLOAT if record is None else getattr(record, "kind", FLOAT)
    call.result_kinds = [kind]
    shape = as_ints(sizes) or []
    if min(shape, default=0) < 0 or prod(shape) > _MOST_ELEMENTS:
        raise call.fail(f"the shape {shape} is not supported")
    number = np.zeros((), np.float32) if fill is None else np.asarray(fill).reshape(-1)[0]
    if prod(shape) > _MOST_KNOWN:
        return rl.full(shape, number.item(), dtype=kind.carried, device=call.device)
    return np.broadcast_to(np.asarray(number), shape)


@operator("Range", host=(0, 1, 2))
def number_range(call: Call, start: Any, limit: Any, delta: Any) -> Any:
    """start, start + delta, ... before limit."""
    call.ignore("stash_type")
    first, last, step = (np.asarray(a).reshape(-1)[0] for a in (start, limit, delta))
    if step == 0:
        raise call.fail("delta is 0")
    if first.dtype.kind == "f":
        count = max(ceil((float(last) - float(first)) / float(step)), 0)
    else:
        count = max(-((int(first) - int(last)) // int(step)), 0)
    if count > _MOST_ELEMENTS:
        raise call.fail(f"the range has {count} elements")
    return first + np.arange(count).astype(first.dtype) * step


@operator("EyeLike")
def eye_like(call: Call, x: Any) -> Any:
    """Ones on the k-th diagonal of a matrix of the input's shape."""
    kind = asked_type(call, "dtype", call.kinds[0])
    call.result_kinds = [kind]
    if len(x.shape) != 2:
        raise call.fail(f"the input has the shape {tuple(x.shape)}; it must be a matrix")
    rows = rl.arange(x.shape[0], device=x.device).reshape(-1, 1)
    columns = rl.arange(x.shape[1], device=x.device)
    return (columns - rows == call.int("k", 0)).to(kind.carried)


@operator("Trilu", host=(1,))
def triangle(call: Call, x: Any, k: Any = None) -> Any:
    """The upper or the lower triangle of matrices, zeros elsewhere."""
    diagonal = int(np.asarray(k).reshape(-1)[0]) if k is not None else 0
    diagonal = max(min(diagonal, x.shape[-1] + 1), -x.shape[-2] - 1)
    return (rl.triu if call.flag("upper", True) else rl.tril)(x, diagonal)


@operator("OneHot", host=(1,))
def one_hot(call: Call, indices: Any, depth: Any, values: Any) -> Any:
    """values[1] where the new dim's place is the index, values[0] elsewhere."""
    size = int(np.asarray(depth).reshape(-1)[0])
    axis = axis_of(call, call.int("axis", -1), indices.ndim + 1)
    places = indices.to("int64").unsqueeze(axis)
    places = rl.where(places < 0, places + size, places)
    count = rl.arange(size, device=indices.device)
    count = count.reshape([-1 if d == axis else 1 for d in range(indices.ndim + 1)])
    call.result_kinds = [call.kinds[2]]
    return rl.where(count == places, values[1], values[0])


# Random numbers.


def generator_of(call: Call) -> Generator | None:
    """The generator that an attribute `seed` asks for; it goes on with every run of a plan."""
    if not call.has("seed") or call.device == "meta":
        return None
    if call.generator is None:
        whole = call.attributes["seed"].kind == "int"  # that of Dropout
        seed = call.int("seed") if whole else int(np.float32(call.float("seed")).view(np.uint32))
        call.generator = Generator().manual_seed(seed)
    return call.generator  # type: ignore[no-any-return]


def _uniform(call: Call, shape: Any, device: Any, kind: ElementType) -> Any:
    low, high = call.float("low", 0.0), call.float("high", 1.0)
    call.result_kinds = [kind]
    drawn = rl.rand(shape, dtype=kind.carried, device=device, generator=generator_of(call))
    return drawn * (high - low) + low


def _normal(call: Call, shape: Any, device: Any, kind: ElementType) -> Any:
    mean, scale = call.float("mean", 0.0), call.float("scale", 1.0)
    call.result_kinds = [kind]
    drawn = rl.randn(shape, dtype=kind.carried, device=device, generator=generator_of(call))
    return drawn * scale + mean


def _shape_of_file(call: Call) -> list[int]:
    sizes = [int(n) for n in call.ints("shape")]
    if min(sizes, default=0) < 0 or prod(sizes) > _MOST_ELEMENTS:
        raise call.fail(f"the shape {sizes} is not supported")
    return sizes


def _kind_beside(call: Call) -> ElementType:
    kind = call.kinds[0]
    return asked_type(call, "dtype", kind if kind is not None and kind.is_float else FLOAT)


@operator("RandomUniform", random=True)
def random_uniform(call: Call) -> Any:
    """Uniform numbers between `low` and `high`."""
    return _uniform(call, _shape_of_file(call), call.device, asked_type(call, "dtype", FLOAT))


@operator("RandomNormal", random=True)
def random_normal(call: Call) -> Any:
    """Normal numbers of a mean and a deviation `scale`."""
    return _normal(call, _shape_of_file(call), call.device, asked_type(call, "dtype", FLOAT))


@operator("RandomUniformLike", random=True)
def random_uniform_like(call: Call, x: Any) -> Any:
    """Uniform numbers between `low` and `high`, in the shape of the input."""
    return _uniform(call, x.shape, x.device, _kind_beside(call))


@operator("RandomNormalLike", random=True)
def random_normal_like(call: Call, x: Any) -> Any:
    """Normal numbers of a mean and a deviation `scale`, in the shape of the input."""
    return _normal(call, x.shape, x.device, _kind_beside(call))


@operator("Bernoulli", random=True)
def bernoulli(call: Call, x: Any) -> Any:
    """One with the probability that the input says, else zero."""
    kind = asked_type(call, "dtype", call.kinds[0])
    call.result_kinds = [kind]
    drawn = rl.rand(x.shape, dtype=x.dtype, device=x.device, generator=generator_of(call))
    return (drawn < x).to(kind.carried)


@operator("Multinomial", random=True)
def multinomial(call: Call, x: Any) -> Any:
    """Classes drawn with repetition by unnormalized logarithms of probabilities."""
    kind = asked_type(call, "dtype", INT32)
    call.result_kinds = [kind]
    rows, count = x.shape[0], call.int("sample_size", 1)
    reached = rl.cumsum(rl.softmax(x, -1), -1)  # (rows, classes)
    shape, generator = (rows, count, 1), generator_of(call)
    drawn = rl.rand(shape, dtype=x.dtype, device=x.device, generator=generator)
    below = reached.unsqueeze(1)[..., :-1] <= drawn
    return below.sum(-1).to(kind.carried)
