"""What the chapters of operators share: dims, constants as tensors, strings among tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rushlight.core.onnx.element_types import ElementType, element_type
from rushlight.core.onnx.interpreter import Value, meta_of
from rushlight.core.onnx.registry import Call
from rushlight.core.tensor.tensor import Tensor, from_numpy

Array = npt.NDArray[Any]
F = TypeVar("F", bound=Callable[..., Any])


def axis_of(call: Call, dim: int, rank: int) -> int:
    """A dim counted from the front. FormatError for one out of range."""
    if not -rank <= dim < rank:
        raise call.fail(f"the axis {dim} is out of range for {rank} dims")
    return dim % rank


def axes_of(call: Call, dims: Sequence[int], rank: int) -> list[int]:
    """Dims counted from the front."""
    return [axis_of(call, dim, rank) for dim in dims]


def as_matrix(x: Any, dim: int) -> Any:
    """The dims before `dim` joined into one, and those from it on into another."""
    return x.reshape(prod(x.shape[:dim]), prod(x.shape[dim:]))


def as_tensor(x: Any, device: Any) -> Any:
    """A tensor of what is known; tensors stay as they are."""
    if not isinstance(x, np.ndarray):
        return x
    if getattr(device, "type", device) == "meta":
        return meta_of(x)
    return from_numpy(np.array(x, order="C")).to(device=device)


def asked_type(call: Call, name: str, default: ElementType | None = None) -> ElementType:
    """The element type whose number an attribute has; `default` where it is absent or 0."""
    number = call.int(name, 0)
    if not number and default is not None:
        return default
    return element_type(number, call.title)


def is_text(x: Any) -> bool:
    """Whether an input is an array of strings."""
    return isinstance(x, np.ndarray) and x.dtype.kind == "O"


def host_array(call: Call, x: Any) -> Any:
    """The elements of an input. While shapes are planned, the node waits for those of a tensor."""
    if x is None or isinstance(x, np.ndarray):
        return x
    return call.interpreter.host(Value(x), f"{call.title}: a value beside strings")


def moves_texts(run: F) -> F:
    """Let an operator that only moves elements of its first input move strings as well."""

    @wraps(run)
    def over(call: Call, x: Any, *others: Any) -> Any:
        if not is_text(x):
            return run(call, x, *others)
        places = from_numpy(np.arange(x.size).reshape(x.shape))
        beside = (from_numpy(host_array(call, t)) if isinstance(t, Tensor) else t for t in others)
        moved = run(call, places, *beside)
        flat = x.reshape(-1)
        if isinstance(moved, list):
            return [flat[m.numpy()] for m in moved]
        return flat[moved.numpy()]

    return over  # type: ignore[return-value]
