"""Samples joined to a batch, as torch joins them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from rushlight.core.basis.errors import ShapeError
from rushlight.core.functional.joining import stack
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor, from_numpy


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples joined to a batch: tensors, arrays and numbers stacked, tuples and dicts by part.

    Tensors get a new first dim. Python's floats become float64, its ints int64. A tuple gives a
    list of batches, a named tuple or a dict one of its kind; strings and bytes stay as they are.
    TypeError for samples of another kind, ShapeError for parts of other lengths or shapes.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, np.ndarray | np.generic) and not isinstance(first, str | bytes):
        if first.dtype.kind in "SUO":
            raise _unknown(f"arrays of {first.dtype}")
        return from_numpy(_stacked(batch))
    if isinstance(first, float):
        return tensor(list(batch), dtype="float64")
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        parts = {key: default_collate([sample[key] for sample in batch]) for key in first}
        return _mapping(first, parts)
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise ShapeError(
                f"default_collate: samples have {sorted({len(s) for s in batch})} parts; each "
                "sample of a batch must have as many (collate_fn may pad them)"
            )
        return _sequence(first, [default_collate(column) for column in zip(*batch, strict=True)])
    raise _unknown(f"type {type(first).__name__}")


def default_convert(data: Any) -> Any:
    """NumPy's arrays in a sample as tensors, within tuples, lists and dicts too; the rest as is."""
    if isinstance(data, np.ndarray | np.generic) and not isinstance(data, str | bytes):
        return data if data.dtype.kind in "SUO" else from_numpy(np.array(data))
    if isinstance(data, Mapping):
        return _mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _sequence(data, [default_convert(item) for item in data])
    return data


def _stacked(batch: Sequence[Any]) -> Any:
    try:
        return np.stack(batch)
    except ValueError:
        shapes = sorted({str(np.shape(x)) for x in batch})
        raise ShapeError(
            f"default_collate: arrays of shapes {', '.join(shapes)[:200]} cannot be "
            "stacked; collate_fn may pad them"
        ) from None


def _unknown(what: str) -> TypeError:
    return TypeError(
        f"default_collate: samples are of {what}; supported: tensors, arrays, "
        "numbers, strings, tuples, lists, dicts"
    )


def _mapping(first: Any, parts: dict[Any, Any]) -> Any:
    """`parts` as a mapping of the first sample's type, with what else that one holds."""
    if type(first) is dict:
        return parts
    try:
        if isinstance(first, MutableMapping):
            copied = copy.copy(first)
            copied.update(parts)
            return copied
        kind: Callable[..., Any] = type(first)
        return kind(parts)
    except TypeError:  # its type cannot be copied or made so
        return parts


def _sequence(first: Any, parts: list[Any]) -> Any:
    """`parts` as a sequence of the first sample's type; of a plain tuple a list, as in torch."""
    kind: Callable[..., Any] = type(first)
    if isinstance(first, tuple):
        return kind(*parts) if hasattr(first, "_fields") else parts
    try:
        if isinstance(first, MutableSequence):
            copied = copy.copy(first)
            for i, item in enumerate(parts):
                copied[i] = item
            return copied
        return kind(parts)
    except TypeError:
        return parts
