"""`rl.onnx.export`: a module or a function as a file of ONNX, checked by running it."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rushlight.core.basis.errors import brief
from rushlight.core.nn.module import Module
from rushlight.core.onnx.element_types import of_dtype
from rushlight.core.onnx.export import nodes as _nodes
from rushlight.core.onnx.export import writing
from rushlight.core.onnx.export.checking import check
from rushlight.core.onnx.export.graph import Graph, is_narrow
from rushlight.core.onnx.export.integers import Combined, Dim, Finder, Int, Real
from rushlight.core.onnx.export.joining import Joined, compare, join
from rushlight.core.onnx.export.recording import ExportError, Trace, Value, record
from rushlight.core.onnx.export.sizes import Shapes, first_sizes, free_sizes, sized
from rushlight.core.onnx.export.torch_options import own_options
from rushlight.core.tensor.tensor import Tensor

__all__ = ["export"]
OLDEST, NEWEST, USUAL = 13, 25, 21
# The version of the file format that each opset came with (onnx's table of versions).
_IR = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12,
       25: 13}  # fmt: skip
_PRODUCER = "rushlight"
assert _nodes


class _Call:
    """A call of what is exported: its inputs by name, and the arguments around them."""

    def __init__(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        names: Sequence[str] | None,
    ) -> None:
        self.fn, self.args, self.kwargs = fn, tuple(args), dict(kwargs)
        self.inputs: dict[str, Tensor] = {}
        self._named: dict[int, str] = {}
        own = list(names or ())
        for path, tensor in self._leaves():
            if id(tensor) in self._named:
                continue
            name = own[len(self.inputs)] if len(self.inputs) < len(own) else path
            while name in self.inputs:
                name += "_"
            self.inputs[name] = tensor
            self._named[id(tensor)] = name
        if len(own) > len(self.inputs):
            raise ValueError(
                f"onnx.export: {len(own)} input_names for {len(self.inputs)} tensors: "
                f"{', '.join(self.inputs)}"
            )

    def _leaves(self) -> Iterable[tuple[str, Tensor]]:
        target = self.fn.forward if isinstance(self.fn, Module) else self.fn
        try:
            parameters = list(inspect.signature(target).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        names: list[str] = []
        for i in range(len(self.args)):
            p = parameters[min(i, len(parameters) - 1)] if parameters else None
            variadic = p is None or p.kind is p.VAR_POSITIONAL
            names.append(f"input_{i}" if variadic or p is None else p.name)
        for name, value in (*zip(names, self.args, strict=True), *self.kwargs.items()):
            yield from _tensors(name, value)

    def run(self, inputs: Mapping[str, Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with these inputs in place of the examples."""
        from rushlight.core.jit.pytree import mapped

        def placed(tensor: Tensor) -> Tensor:
            return inputs[self._named[id(tensor)]]

        return mapped(self.args, placed), mapped(self.kwargs, placed)


def _tensors(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    """(path, tensor) of each tensor within nested values."""
    if isinstance(value, Tensor | Value):
        yield name, value
    elif isinstance(value, Mapping):
        for key, v in value.items():
            yield from _tensors(f"{name}.{key}" if name else str(key), v)
    elif isinstance(value, list | tuple):
        keys = getattr(value, "_fields", None) or range(len(value))
        for key, v in zip(keys, value, strict=True):
            yield from _tensors(f"{name}.{key}" if name else str(key), v)


def export(
    module: Module | Callable[..., Any] | None = None,
    args: Any = None,
    path: Any = "",
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    opset: int = USUAL,
    external_data: bool = False,
    metadata: Mapping[str, str] | None = None,
    verify: bool = True,
    task: str | None = None,
    **torch_options: Any,
) -> Path:
    """Write a module or a function as an ONNX file, and return its path.

    It is run on `args` (a tensor, or a tuple of arguments) and `kwargs`, and the ops that run
    become the graph; every tensor among the arguments is an input. Names default to those of the
    parameters and to "output". Parameters and buffers keep their names; those in q4_0 and q8_0 keep
    their bits, other quantized types are rounded to eight bits (at most a 254th of a block's
    largest weight). Narrow floats are rounded as the module rounds them. Writes to buffers, such as
    running means, are left out.

    dynamic_shapes frees sizes: {"input_ids": {0: "batch", 1: "length"}}, where equal names are
    equal sizes and "past + length" is a sum. The function runs at further sizes then; an integer
    that follows the sizes is computed in the graph. opset: 13 to 25. external_data: large weights
    go into a second file beside it, PATH.data, which models over 2 GB need. metadata: texts for the
    file. verify: `rl.onnx.load` runs the file at these and at further sizes, and the results are
    compared with the function's. A model of `rl.models` needs no args: its inputs, outputs and free
    sizes are those that transformers.js expects for the `task`, or for its first one; of a decoder
    with past_key_values unless the task is "text-generation". torch_options: arguments of
    torch.onnx.export, such as f (a path, or an open file), opset_version and dynamic_axes.

    Raises ExportError, which names the op and the line that calls it, for what the graph cannot
    do: random numbers, control flow by values, a size that cannot be followed; and for results that
    differ. ValueError for names, sizes and opsets that do not fit.
    """
    torch_names = own_options(torch_options)
    module, path = torch_names.get("module", module), torch_names.get("path", path)
    opset = torch_names.get("opset", opset)
    dynamic_shapes = torch_names.get("dynamic_shapes", dynamic_shapes)
    if module is None or not path:
        raise ValueError("onnx.export: pass a module, its arguments, and the file to write")
    if hasattr(path, "write"):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "model.onnx"
            rest: dict[str, Any] = {"metadata": metadata, "verify": verify, "task": task}
            export(
                module, args, place, kwargs=kwargs, input_names=input_names,
                output_names=output_names, dynamic_shapes=dynamic_shapes, opset=opset, **rest
            )  # fmt: skip
            path.write(place.read_bytes())
        return place
    if not OLDEST <= opset <= NEWEST:
        raise ValueError(f"onnx.export: opset {opset} is not supported; supported: 13 to 25")
    if args is None and kwargs is None and hasattr(module, "onnx_form"):
        form = module.onnx_form(task)
        module, kwargs, metadata = form.fn, form.example, {**form.metadata, **(metadata or {})}
        dynamic_shapes = form.free if dynamic_shapes is None else dynamic_shapes
    elif task is not None:
        raise ValueError("onnx.export: a task is for a model of rl.models without args")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    call = _Call(module, args, kwargs or {}, input_names)
    free = free_sizes(dynamic_shapes, call.inputs)
    sizes = first_sizes(free, call.inputs)
    traces, tried = _traces(call, free, sizes)
    joined = join(traces, Finder(_symbols(traces, call, free, sizes)))
    graph = Graph(joined, opset, _given(module))
    outputs = _build(graph, call, output_names, traces[0].result)
    file = _file(graph, call, free, outputs, metadata or {}, sizes, traces, tried)
    writing.write(file, path, external_data)
    if verify:
        check(module, call, path, free, [*tried, dict(sizes)], graph)
    return Path(path)


# Traces.


def _candidates(size: int) -> list[int]:
    """Sizes to try beside one."""
    base = [size + 1, size + 3, size + 2, 2 * size, 3 * size, size - 1, size // 2, 4 * size]
    return [n for n in dict.fromkeys(base) if n > 1 and n != size]


def _traces(
    call: _Call, free: Shapes, sizes: Mapping[str, int]
) -> tuple[list[Trace], list[dict[str, int]]]:
    """The records at the example's sizes and at others, and those sizes.

    Sizes of 0 and 1 are special in many functions, so larger ones are traced.
    """

    def run(at: Mapping[str, int]) -> Trace:
        args, kwargs = call.run(sized(call.inputs, free, at))
        return record(call.fn, args, kwargs)

    if not sizes:
        return [run({})], [{}]
    first = {name: n if n > 1 else 2 for name, n in sizes.items()}
    taken: set[int] = set()
    for name in first:  # no two names by chance of one size
        if sizes[name] <= 1:
            while first[name] in taken:
                first[name] += 1
        taken.add(first[name])
    error: ExportError | None = None
    for base in _bases(first):
        try:
            return _from(base, run)
        except ExportError as problem:
            error = error or problem
        except Exception:
            if base == first:
                raise
    assert error is not None
    raise error


def _bases(first: Mapping[str, int]) -> Iterable[dict[str, int]]:
    """Sizes to begin with: the example's, and each larger or smaller where that one is special."""
    yield dict(first)
    for name, n in first.items():
        for other in _candidates(n):
            yield {**first, name: other}
    for k in range(2):
        yield {name: [*_candidates(n), n, n][k] for name, n in first.items()}


def _from(
    first: Mapping[str, int], run: Callable[[Mapping[str, int]], Trace]
) -> tuple[list[Trace], list[dict[str, int]]]:
    """The records at `first` and at two further sizes for each name, and one of all changed."""
    traces, tried = [run(first)], [dict(first)]
    others: dict[str, list[int]] = {}
    for name in first:
        good: list[int] = []
        reasons: list[Exception] = []
        for n in _candidates(first[name]):
            at = {**first, name: n}
            try:
                trace = run(at)
                compare(traces[0], trace)
            except Exception as error:  # the function does not take this size, or it is special
                reasons.append(error)
                continue
            traces.append(trace)
            tried.append(at)
            good.append(n)
            if len(good) == 2:
                break
        if not good:
            for reason in reasons:
                if isinstance(reason, ExportError):
                    raise reason
            raise ExportError(
                f"onnx.export: the size {name!r} is asked to be free, but only {first[name]} "
                f"works: at others the function raises {brief(str(reasons[0]), 300)}"
            )
        others[name] = good
    if len(first) > 1:
        for at in ({k: v[-1] for k, v in others.items()}, {k: v[0] for k, v in others.items()}):
            try:
                trace = run(at)
                compare(traces[0], trace)
            except Exception:  # sizes that do not go together; each alone was traced
                continue
            traces.append(trace)
            tried.append(at)
            break
    return traces, tried


def _symbols(
    traces: Sequence[Trace], call: _Call, free: Shapes, sizes: Mapping[str, int]
) -> list[tuple[tuple[int, ...], Int]]:
    """The series of each named size, and the dim of an input that has it."""
    places: dict[str, Int] = {}
    names = list(call.inputs)
    for tensor, dims in free.items():
        for axis, text in dims.items():
            if text.isidentifier():
                places.setdefault(text, Dim(names.index(tensor), axis))
    by_place = []
    for place in places.values():
        assert isinstance(place, Dim)
        series = tuple(t.inputs[place.value].shape[place.axis] for t in traces)
        number = traces[0].inputs[place.value].number
        by_place.append((series, Dim(number, place.axis)))
    return by_place


def _given(module: Any) -> dict[int, str]:
    """The names of parameters and buffers by the tensor's id; shared ones have their first name."""
    names: dict[int, str] = {}
    if isinstance(module, Module):
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            names.setdefault(id(tensor), name)
    return names


# The graph.


def _dims(e: Any) -> Iterable[int]:
    if isinstance(e, Dim):
        yield e.value
    elif isinstance(e, Real):
        yield from _dims(e.base)
    elif isinstance(e, Combined):
        yield from _dims(e.a)
        yield from _dims(e.b)
    elif isinstance(e, tuple | list):
        for part in e:
            yield from _dims(part)


def _needed(joined: Joined, outputs: Sequence[int]) -> set[int]:
    """The values that the outputs need."""
    by_value = {s.out: s for s in joined.steps}
    needed: set[int] = set()
    waiting = list(outputs)
    while waiting:
        value = waiting.pop()
        if value in needed:
            continue
        needed.add(value)
        if value in joined.varying:
            waiting += _dims(joined.varying[value])
        step = by_value.get(value)
        if step is not None:
            waiting += [v for v in step.inputs if v is not None]
            for attr in step.attrs.values():
                waiting += _dims(attr)
    return needed


def _folded(joined: Joined, given: Mapping[int, str]) -> set[int]:
    """The values that depend on no input, no size and no parameter: they become constants."""
    folded: set[int] = set()
    own: set[int] = set()
    for value in joined.traces[0].outer:
        if id(value.tensor) in given or value.dtype.kind == "q":
            own.add(value.number)
        elif value.number not in joined.varying:
            folded.add(value.number)
    for step in joined.steps:
        plain = joined.values[step.out].tensor is not None and joined.is_fixed(step.out)
        plain = plain and not any(True for a in step.attrs.values() for _ in _dims(a))
        if plain and all(v is None or v in folded for v in step.inputs):
            folded.add(step.out)
    return folded


def _build(
    graph: Graph, call: _Call, output_names: Sequence[str] | None, result: Any
) -> list[tuple[str, Value]]:
    """Make the nodes. The graph's outputs: names and values."""
    joined = graph.joined
    leaves = list(_tensors("", result))
    if not leaves:
        raise ExportError("onnx.export: the function returns no tensor")
    names = [path or "output" for path, _ in leaves]
    names = [f"output_{n}" if n.isdigit() else n for n in names]
    if output_names is not None:
        if len(output_names) > len(names):
            raise ValueError(
                f"onnx.export: {len(output_names)} output_names for {len(names)} tensors"
            )
        names[: len(output_names)] = output_names
    graph.taken |= {*call.inputs, *names, *graph.given.values()}
    for (name, _), value in zip(call.inputs.items(), joined.traces[0].inputs, strict=True):
        graph.names[value.number] = graph.op("Cast", name, to=1) if is_narrow(value.dtype) else name
    folded = _folded(joined, graph.given)
    needed = _needed(joined, [v.number for _, v in leaves])
    graph.steps_of = {s.out: s for s in joined.steps}
    for step in joined.steps:
        if step.out in folded:
            continue  # its tensor is the constant
        joined.values[step.out].tensor = None if step.out not in folded else None
        if step.out in needed:
            graph.run(step)
    outputs = []
    for name, (_, value) in zip(names, leaves, strict=True):
        made = graph.get(value.number)
        if is_narrow(value.dtype) and value.dtype.kind == "f":
            made = graph.op("Cast", made, to=of_dtype(value.dtype).number)
        graph.nodes.append(_named(graph, made, name))
        outputs.append((name, value))
    return outputs


def _named(graph: Graph, made: str, name: str) -> Any:
    from rushlight.core.onnx.export.graph import NodeRecord

    return NodeRecord("Identity", (made,), (name,), {}, "", graph.fresh(f"{name}_Identity"))


def _direct(graph: Graph, inputs: Iterable[str]) -> None:
    """Let nodes write to outputs themselves, where nothing else stands in the way."""
    made = {o: n for n in graph.nodes for o in n.outputs}
    taken = set(inputs) | set(graph.weights)
    rename: dict[str, str] = {}
    kept = []
    for n in graph.nodes:
        source = n.inputs[0] if n.inputs else ""
        ends = n.op == "Identity" and n.name.startswith(f"{n.outputs[0]}_Identity")
        if ends and source in made and source not in taken and source not in rename:
            rename[source] = n.outputs[0]
            continue
        kept.append(n)
    for n in kept:
        n.inputs = tuple(rename.get(i, i) for i in n.inputs)
        n.outputs = tuple(rename.get(o, o) for o in n.outputs)
    graph.nodes = kept


def _file(
    graph: Graph,
    call: _Call,
    free: Shapes,
    outputs: Sequence[tuple[str, Value]],
    metadata: Mapping[str, str],
    sizes: Mapping[str, int],
    traces: Sequence[Trace],
    tried: Sequence[Mapping[str, int]],
) -> writing.File:
    _direct(graph, call.inputs)
    _prune(graph, [name for name, _ in outputs])
    inputs = []
    for name, value in zip(call.inputs, traces[0].inputs, strict=True):
        dims: list[int | str] = list(value.shape)
        for axis, text in free.get(name, {}).items():
            dims[axis] = text
        inputs.append(writing.value_info(name, of_dtype(value.dtype).number, dims))
    results = [
        writing.value_info(
            name, of_dtype(value.dtype).number, _told(graph.joined, value, tried, name)
        )
        for name, value in outputs
    ]
    nodes = [
        writing.node(n.op, n.inputs, n.outputs, n.attributes, n.name, n.domain) for n in graph.nodes
    ]
    from rushlight import version

    opsets = {"": graph.opset} | {d: 1 for d in sorted(graph.domains - {""})}
    title = type(call.fn).__name__ if isinstance(call.fn, Module) else "function"
    return writing.File(
        _IR[graph.opset],
        opsets,
        (_PRODUCER, str(version.rushlight)),
        title,
        nodes,
        inputs,
        results,
        list(graph.weights.values()),
        metadata,
    )


def _prune(graph: Graph, outputs: Sequence[str]) -> None:
    """Drop nodes and weights that no output needs."""
    needed = set(outputs)
    kept = []
    for n in reversed(graph.nodes):
        if needed & set(n.outputs):
            kept.append(n)
            needed |= set(n.inputs)
            needed |= n.attributes.get("captured", set())
    graph.nodes = kept[::-1]
    for n in graph.nodes:
        n.attributes.pop("captured", None)
    graph.weights = {k: w for k, w in graph.weights.items() if k in needed}


def _told(
    joined: Joined, value: Value, tried: Sequence[Mapping[str, int]], name: str
) -> list[int | str]:
    """The sizes of an output: numbers, names, or names of their own."""
    shapes = joined.shapes[value.number]
    dims: list[int | str] = []
    for axis in range(len(shapes[0])):
        series = [s[axis] for s in shapes]
        if len(set(series)) == 1:
            dims.append(series[0])
            continue
        same = [k for k in tried[0] if [t[k] for t in tried] == series]
        dims.append(same[0] if same else f"{name}_{axis}")
    return dims
