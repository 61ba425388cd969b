"""The check after a file is written: it is run at several sizes and compared with the function."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.onnx.export.graph import Graph
from rushlight.core.onnx.export.integers import Combined, Dim, evaluate
from rushlight.core.onnx.export.joining import compare
from rushlight.core.onnx.export.recording import ExportError, record
from rushlight.core.onnx.export.sizes import Shapes, sized
from rushlight.core.tensor.grad_mode import no_grad
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]
# Relative to the largest number of a result: sums in another order, and eight bits for weights.
NEAR, ROUNDED = 1e-3, 5e-2


def difference(a: Array, b: Array) -> float:
    """The largest difference by the largest number; infinite where NaN and infinity differ."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    if not np.isfinite(a[~same]).all() or not np.isfinite(b[~same]).all():
        return float("inf")
    largest = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
    return float(np.abs(a - b)[~same].max()) / max(largest, 1e-30)


def _arrays(result: Any) -> list[Array]:
    """The tensors of nested results as arrays, in order."""
    if isinstance(result, Tensor):
        return [np.asarray(result.detach().host_values())]
    if isinstance(result, Mapping):
        return [a for v in result.values() for a in _arrays(v)]
    if isinstance(result, list | tuple):
        return [a for v in result for a in _arrays(v)]
    return []


def _sizes(tried: Sequence[Mapping[str, int]]) -> list[dict[str, int]]:
    """Sizes that were traced, those of the example, and for each name two further ones."""
    first = dict(tried[0])
    out = [dict(t) for t in (tried[0], tried[-2], tried[-1])] if len(tried) > 2 else [first]
    out = [t for i, t in enumerate(out) if t not in out[:i]]
    for name in first:
        steps = sorted({t[name] for t in tried})
        grow = steps[1] - steps[0] if len(steps) > 1 else 1
        for n in (steps[-1] + grow, steps[-1] + 2 * grow):
            out.append({**first, name: n})
    return out


def check(
    fn: Any,
    call: Any,
    path: str | os.PathLike[str],
    free: Shapes,
    tried: Sequence[Mapping[str, int]],
    graph: Graph,
) -> None:
    """ExportError where the file gives other results than the function."""
    from rushlight.core.onnx.loading import load

    loaded = load(path)
    near = ROUNDED if graph.requantized else NEAR
    for at in _sizes(tried):
        inputs = sized(call.inputs, free, at)
        args, kwargs = call.run({k: v.detach().clone() for k, v in inputs.items()})
        with no_grad():
            try:
                expected = _arrays(fn(*args, **kwargs))
            except Exception:
                if at in [dict(t) for t in tried]:
                    raise
                continue  # a size that the function does not take
            try:
                got = _arrays(loaded(*inputs.values()))
            except Exception as error:
                raise ExportError(
                    f"onnx.export: {os.fspath(path)} does not run at the sizes {at or 'traced'}: "
                    f"{error}"
                ) from error
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            if a.shape != b.shape:
                raise ExportError(
                    f"onnx.export: output {i} of {os.fspath(path)} has shape {a.shape} at the "
                    f"sizes {at}, the function gives {b.shape}: {_blame(graph, call, inputs)}"
                )
            apart = difference(a, b)
            if apart > near:
                raise ExportError(
                    f"onnx.export: output {i} of {os.fspath(path)} differs from the function's by "
                    f"{apart:.1e} of its largest number at the sizes {at or 'traced'}: "
                    f"{_blame(graph, call, inputs)}"
                )


def _blame(graph: Graph, call: Any, inputs: Mapping[str, Tensor]) -> str:
    """The first op whose integers are not those of the graph at these sizes."""
    args, kwargs = call.run(inputs)
    trace = record(call.fn, args, kwargs)
    try:
        compare(graph.joined.traces[0], trace)
    except ExportError as error:
        return str(error)
    shapes = [v.shape for v in trace.values]
    for step, own in zip(graph.joined.steps, trace.steps, strict=True):
        for key, value in step.attrs.items():
            if _plain(value, shapes) != _plain(own.attrs[key], shapes):
                return (
                    f"{key} of {step.title} is {own.attrs[key]} there, and "
                    f"{_plain(value, shapes)} in the graph; leave that size fixed"
                )
    last = graph.joined.steps
    return (
        f"no size is fixed; an operator up to {last[-1].title} gives other numbers" if last else ""
    )


def _plain(value: Any, shapes: Sequence[Sequence[int]]) -> Any:
    """An attribute with its expressions as numbers."""
    if isinstance(value, tuple | list):
        return tuple(_plain(v, shapes) for v in value)
    return evaluate(value, shapes) if isinstance(value, Dim | Combined) else value
