"""What the page Inspect asks of its worker for ONNX files: the graph, its costs, tensors, runs."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.basis.dtype import float32
from rushlight.core.basis.errors import FormatError, brief
from rushlight.core.io.protobuf import read_async
from rushlight.core.io.weights.table import Entry
from rushlight.core.onnx.loading import nodes_of
from rushlight.core.onnx.proto import (
    Graph,
    Node,
    SparseRecord,
    TensorRecord,
    ValueInfo,
    parse_model,
)
from rushlight.core.onnx.registry import OPERATORS
from rushlight.core.onnx.streaming import open_async
from rushlight.core.onnx.summary import Summary, summarize
from rushlight.core.onnx.weights import (
    SMALL,
    array_of,
    check_sizes,
    from_bytes,
    in_one_piece,
    plain,
)
from rushlight.web.loading.remote import open_remote
from rushlight.web.worker.inspecting.tensor_figures import MOST, figures, sample
from rushlight.web.worker.session import place

_NAME, _VALUE = 300, 400  # the most characters of a name and of a value that a page gets
_FIRST = 24  # numbers of an output that are shown
_LONG = 10.0  # seconds of a run, which is not repeated
_SIDE = 2048  # the most pixels of a side of an output that is drawn
_MOST_NODES = 200_000


class _Opened:
    """A file whose graph is read, and the module once it ran."""

    def __init__(self, source: Any, files: Any, opener: Any) -> None:
        self.source, self.files, self.opener = source, files, opener
        self.model: Any = None
        self.records: list[TensorRecord] = []
        self.module: Any = None
        self.owner: dict[int, int] = {}

    async def read(self) -> None:
        """Read the graph, and small tensors, which decide shapes."""
        self.model = await read_async(parse_model(self.source), self.source)
        if len(self.model.graph.nodes) > _MOST_NODES:
            raise FormatError(f"{self.source.name} has {len(self.model.graph.nodes)} nodes")
        records = plain(self.model)
        check_sizes(records, self.source)
        for record in records:
            if record.count <= SMALL and record.external is None:
                record.array = await read_async(array_of(record, self.source), self.source)
        self.records = [r for r in records if r.count and r.kind.name != "string"]
        self.owner = _owners(self.model)


_opened: _Opened | None = None


def _file() -> _Opened:
    if _opened is None:
        raise LookupError("no ONNX file is open; open it again")
    return _opened


def _owners(model: Any) -> dict[int, int]:
    """For the id of every node the number of the node of the graph that it is or is within."""
    nodes = enumerate(model.graph.nodes)
    return {id(inner): number for number, node in nodes for inner in _within(node)}


def _within(node: Node) -> Iterator[Node]:
    yield node
    for attribute in node.attributes.values():
        graphs = attribute.value if isinstance(attribute.value, list) else [attribute.value]
        for graph in graphs:
            if isinstance(graph, Graph):
                for inner in graph.nodes:
                    yield from _within(inner)


async def open_file(job: Any, given: Any) -> str:
    """Read the graph of an address, or of the visitor's files; facts and graph as JSON."""
    global _opened
    _opened = None
    if isinstance(given, str):
        remote = await open_remote(given)
    else:
        named = {str(file.name): file for file in given}
        first = next(name for name in named if name.lower().endswith(".onnx"))
        remote = await open_remote(named[first], first, named)
    mine = _Opened(*await open_async(remote))
    await mine.read()
    _opened = mine
    return json.dumps({"facts": _facts(mine), "graph": _graph(mine)})


def _shown(text: str, most: int = _NAME) -> str:
    cut = text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"
    return cut.encode("utf-8", "backslashreplace").decode()


def _type_of(record: TensorRecord) -> str:
    declared = record.kind.declared
    return declared.name if declared is not None else record.kind.name


def _facts(mine: _Opened) -> dict[str, Any]:
    """What the page shows of any file of weights."""
    model, sizes = mine.model, Counter[str]()
    rows: dict[str, list[int]] = {}
    for record in mine.records:
        row = rows.setdefault(_type_of(record), [0, 0, 0])
        row[0], row[1], row[2] = row[0] + 1, row[1] + record.nbytes, row[2] + record.count
    sizes.update({name: row[1] for name, row in rows.items()})
    nbytes, count = sum(row[1] for row in rows.values()), sum(row[2] for row in rows.values())
    name = _shown(mine.source.name).rpartition("/")[2].partition("?")[0]
    spans = getattr(mine.source.js, "spans", None)
    opsets = ", ".join(f"{domain or 'ai.onnx'} {n}" for domain, n in model.opsets.items())
    return {
        "name": "",
        "source": name,
        "onnx": True,
        "format": f"ONNX, IR version {model.ir_version}",
        "opsets": _shown(opsets),
        "producer": _shown(model.producer),
        "files": [[name, mine.source.size]],
        "bytes": mine.source.size,
        "bytesRead": int(getattr(spans, "bytes", 0)),
        "requests": int(getattr(spans, "requests", 0)),
        "tensorBytes": nbytes,
        "parameters": count,
        "bitsPerWeight": nbytes * 8 / count if count else 0,
        "types": [[n, *rows[n]] for n, _ in sizes.most_common()],
        "tensors": [
            [_shown(r.name or "unnamed"), _type_of(r), list(map(str, r.shape)), r.nbytes, 0]
            for r in mine.records
        ],
        "metadata": [[_shown(k), _shown(v, _VALUE)] for k, v in [*model.metadata.items()][:2000]],
        "keys": len(model.metadata),
        "vocabulary": 0,
        "template": None,
        "leftOut": 0,
    }


def _graph(mine: _Opened) -> dict[str, Any]:
    model = mine.model
    graph = model.graph
    number_of = {id(record): i for i, record in enumerate(mine.records)}
    weights = {}
    for name, record in graph.initializers.items():
        dense = record.values if isinstance(record, SparseRecord) else record
        weights[name] = [number_of.get(id(dense), -1), dense.kind.name, list(record.shape)]
    operators = Counter((node.domain, node.op) for node in nodes_of(model))
    functions = {(domain, op) for domain, op, _ in model.functions}
    return {
        "inputs": [_info(i) for i in graph.inputs if i.name not in graph.initializers],
        "outputs": [_info(o) for o in graph.outputs],
        "nodes": [
            [node.op, node.domain, _shown(node.name), node.inputs, node.outputs]
            for node in graph.nodes
        ],
        "weights": weights,
        "values": {name: str(info.type) for name, info in graph.values.items()},
        "operators": [
            [op, domain, count, (domain, op) in OPERATORS or (domain, op) in functions]
            for (domain, op), count in operators.most_common()
        ],
    }


def _info(info: ValueInfo) -> dict[str, Any]:
    kind = info.type
    dense = kind is not None and kind.form == "tensor"
    return {
        "name": info.name,
        "type": str(kind),
        "dense": dense,
        "kind": kind.kind.name if kind is not None and kind.kind is not None else "",
        "shape": list(kind.shape)
        if dense and kind is not None and kind.shape is not None
        else None,
    }


# --- shapes and costs -----------------------------------------------------------------------------


def costs(job: Any, sizes: Any) -> str:
    """Shapes, operations and bytes of each node, for sizes of free dims by name, as JSON."""
    mine = _file()
    chosen = {str(k): int(v) for k, v in (sizes or {}).items()}
    summary = _summary(mine, chosen)
    nodes: dict[int, list[int]] = {}
    for cost in summary.costs:
        number = mine.owner.get(id(cost.node), -1)
        row = nodes.setdefault(number, [0, 0])
        row[0], row[1] = row[0] + cost.operations, row[1] + cost.nbytes
    nodes.pop(-1, None)
    return json.dumps(
        {
            "failure": _shown(summary.failure, 600),
            "refused": [_shown(text) for text in summary.refused[:50]],
            "sizes": summary.sizes,
            "operations": summary.operations,
            "peak": summary.peak,
            "late": [_shown(text) for text in summary.late[:200]],
            "shapes": {n: [list(shape), known] for n, (shape, known) in summary.shapes.items()},
            "nodes": {str(n): row for n, row in nodes.items()},
            "runs": len(summary.costs),
        }
    )


def _summary(mine: _Opened, chosen: dict[str, int]) -> Summary:
    """The summary; where sizes are not chosen, pictures get usual ones."""
    name = mine.source.name
    summary = summarize(mine.model, name, chosen)
    pictures = {
        _free(info, place)
        for info in summary.inputs
        if info.type is not None and info.type.shape is not None and len(info.type.shape) == 4
        for place in (1, 2, 3)
        if not isinstance(info.type.shape[place], int)
    } - chosen.keys()
    if not chosen and pictures:
        for size in (224, 48, 32, 64):
            usual = summarize(mine.model, name, {n: size for n in pictures})
            if not usual.failure:
                return usual
    return summary


def _free(info: ValueInfo, place_of: int) -> str:
    assert info.type is not None and info.type.shape is not None
    return str(info.type.shape[place_of] or f"{info.name}.{place_of}")


def attributes(job: Any, number: int) -> str:
    """The attributes of a node as [name, kind, value in words], as JSON."""
    node = _file().model.graph.nodes[int(number)]
    rows = []
    for attribute in node.attributes.values():
        rows.append([_shown(attribute.name), attribute.kind, _words(attribute)])
    return json.dumps(rows)


def _words(attribute: Any) -> str:
    value = attribute.value
    if attribute.reference:
        return f"of the function: {brief(attribute.reference)}"
    if isinstance(value, Graph):
        return f"a graph of {len(value.nodes)} nodes"
    if isinstance(value, TensorRecord):
        told = f"{value.kind.name}{list(value.shape)}"
        if value.array is not None and value.count <= 64:
            told += f" {np.asarray(value.array).tolist()}"
        return _shown(told, _VALUE)
    if isinstance(value, bytes | memoryview):
        return _shown(bytes(value[:_VALUE]).decode("utf-8", "backslashreplace"), _VALUE)
    if isinstance(value, list):
        shown = ", ".join(str(_plain(v)) for v in value[:24])
        return _shown(f"{shown}, … ({len(value)} values)" if len(value) > 24 else shown, _VALUE)
    return _shown(str(_plain(value)), _VALUE)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, float):
        return float(f"{value:.7g}")
    return type(value).__name__ if isinstance(value, Graph | TensorRecord) else value


# --- a tensor -------------------------------------------------------------------------------------


async def tensor(job: Any, number: int) -> dict[str, Any]:
    """The figures of a tensor, of which a sample is read."""
    mine = _file()
    record = mine.records[int(number)]
    await mine.files.open_async([record], mine.opener)
    if in_one_piece(record) and record.kind.declared is not None and record.kind.bits >= 8:
        source, span = mine.files.place_of(record)
        entry = Entry(record.name, record.kind.declared, record.shape, span.start, span.nbytes)
        chosen = sample(entry)
        data = b""
        for offset, count in chosen.ranges():
            data += bytes(await source.read_async(offset, count))
            job.tell({"done": len(data), "total": sum(n for _, n in chosen.ranges())})
        return figures(chosen, data)
    if record.count > 4 * MOST:
        raise FormatError(f"{brief(record.name)} is too large to be read whole")
    if record.external is not None:
        source, span = mine.files.place_of(record)
        values = from_bytes(await source.read_async(*span), record, source.name)
    else:
        values = await read_async(array_of(record, mine.source), mine.source)
    plainly = np.asarray(values, np.float32)
    entry = Entry(record.name, float32, record.shape, 0, 4 * record.count)
    chosen = sample(entry)
    flat = plainly.tobytes()
    return figures(chosen, b"".join(flat[at : at + n] for at, n in chosen.ranges()))


# --- a run ----------------------------------------------------------------------------------------


async def run(job: Any, device: str, inputs: Any) -> dict[str, Any]:
    """Run the graph node by node on a device: its outputs, and the time of each node.

    inputs: for each a dict with its name, shape and a mode: "random" (from `low` to `high`),
    "numbers" (`text`, JSON) or "array" (`data`).
    """
    mine = _file()
    await place(device, None)
    if mine.module is None or mine.module.device.type != device:
        mine.module = None
        told = lambda done, total: job.tell({"loaded": done, "size": total})  # noqa: E731
        mine.module = await rl.onnx.load_async(mine.source, device=device, progress=told)
    module = mine.module
    kinds = {i.name: i.type.kind for i in module.inputs if i.type is not None}
    given = {row["name"]: _input(row, kinds.get(row["name"])) for row in inputs}

    def report(done: int, total: int | None) -> None:
        job.tell({"done": done, "total": total})
        if job.stopped():
            raise RuntimeError("stopped")

    for _ in range(2):  # the first run compiles kernels
        began = time.perf_counter()
        results, times = await rl.onnx.timed_async(module, report=report, **given)
        spent = time.perf_counter() - began
        if spent > _LONG:
            break
    values = results if isinstance(results, rl.onnx.Results) else (results,)
    outputs = [
        await _output(info.name, value) for info, value in zip(module.outputs, values, strict=True)
    ]
    replayed = 0.0
    if spent < _LONG:  # the way that a call goes from the third on
        for _ in range(3):
            began = time.perf_counter()
            await module.call_async(**given)
            await module.device.synchronize_async()
            replayed = time.perf_counter() - began
            job.tell({"done": len(times), "total": len(times)})
    owner = _owners(module.model)
    rows = [
        [owner.get(id(t.node), -1), _shown(t.title), t.op, list(t.shape), t.seconds] for t in times
    ]
    return {
        "outputs": outputs,
        "times": json.dumps(rows),
        "replayed": replayed,
        "device": str(module.device.type),
    }


def _input(row: Any, kind: Any) -> Any:
    """The NumPy array of an input."""
    shape = tuple(int(n) for n in row["shape"])
    known = kind is not None and kind.stored is not None
    dtype = np.dtype(kind.stored if known else np.float32)
    if row["mode"] == "numbers":
        try:
            values = json.loads(row["text"])
        except ValueError as error:
            raise ValueError(f"{row['name']}: the numbers are no JSON: {error}") from None
        if kind is not None and kind.name == "string":
            return np.array(values, np.object_)
        made = np.array(values, dtype)
        return made.reshape(shape) if made.ndim <= 1 and made.size == math.prod(shape) else made
    if row["mode"] == "array":
        return np.array(row["data"], np.float32).reshape(shape).astype(dtype)
    draws = rl.Generator().manual_seed(int(row.get("seed", 0)))
    low, high = float(row["low"]), float(row["high"])
    if kind is not None and kind.name == "bool":
        return rl.rand(shape, generator=draws).numpy() < 0.5
    if dtype.kind in "iu":
        past = max(int(high), int(low)) + 1
        return rl.randint(int(low), past, shape, generator=draws).numpy().astype(dtype)
    return (low + (high - low) * rl.rand(shape, generator=draws).numpy()).astype(dtype)


async def _output(name: str, value: Any) -> dict[str, Any]:
    """What the page shows of an output."""
    row: dict[str, Any] = {"name": _shown(name), "shape": None, "type": type(value).__name__}
    if isinstance(value, np.ndarray):  # strings
        texts = [_shown(str(text), 100) for text in value.reshape(-1)[:_FIRST]]
        return row | {"type": "string", "shape": list(value.shape), "first": texts}
    if not isinstance(value, rl.Tensor):
        return row | {"first": [_shown(str(value), _VALUE)]}
    x = value.detach()
    if x.dtype.name in ("bfloat16",) or x.dtype.encoded:
        x = x.float()
    array = await x.numpy_async()
    row |= {"type": value.dtype.name, "shape": list(value.shape)}
    flat = array.reshape(-1)
    row["first"] = [_number(v) for v in flat[:_FIRST].tolist()]
    if not flat.size or array.dtype.kind == "c":
        return row
    numbers = flat.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    row["odd"] = int(numbers.size - finite.size)
    if finite.size:
        row |= {
            "min": float(finite.min()),
            "max": float(finite.max()),
            "mean": float(finite.mean()),
            "std": float(finite.std()),
        }
        best: Any = np.argsort(-numbers, kind="stable")[:5] if 8 <= flat.size <= 100_000 else []
        row["best"] = [[int(i), float(numbers[i])] for i in best if math.isfinite(numbers[i])]
    if (picture := _picture(array)) is not None:
        row["picture"] = picture
    return row


def _number(value: Any) -> Any:
    return value if isinstance(value, bool | int) else float(f"{value:.6g}")


def _picture(array: Any) -> dict[str, Any] | None:
    """An output that can be drawn: rows of pixels of one, three or four channels, 0 to 255."""
    shape = array.shape
    if array.dtype.kind not in "fiu" or len(shape) not in (3, 4):
        return None
    first = array[0] if len(shape) == 4 else array
    if first.shape[0] in (1, 3, 4) and min(first.shape[1:]) >= 8:
        first = np.moveaxis(first, 0, -1)
    elif not (first.shape[-1] in (1, 3, 4) and min(first.shape[:2]) >= 8):
        return None
    first = first[:_SIDE, :_SIDE].astype(np.float32)
    finite = first[np.isfinite(first)]
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    scaled = np.clip((first - low) / ((high - low) or 1), 0, 1)
    pixels = np.full((*first.shape[:2], 4), 255, np.uint8)
    pixels[..., :3] = np.nan_to_num(scaled[..., :3] * 255).astype(np.uint8)
    return {"width": first.shape[1], "height": first.shape[0], "data": pixels.tobytes()}


def forget(job: Any) -> bool:
    """Drop the file and its module."""
    global _opened
    _opened = None
    return True
