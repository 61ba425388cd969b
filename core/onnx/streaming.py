"""Loading without blocking: the graph by ranges, then every weight's bytes to their place.

In the tab the weights of an address or of a visitor's file are streamed, on a device with memory of
its own past the heap. Elsewhere the event loop goes on between two reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from rushlight.core.backends import Device, device_async
from rushlight.core.backends import device as as_device
from rushlight.core.basis.dtype import uint8
from rushlight.core.io.opening import is_source, opened
from rushlight.core.io.protobuf import read_async
from rushlight.core.io.weights.load_schedule import (
    destination_for,
    load_schedule,
    run_schedule,
    run_schedule_async,
)
from rushlight.core.io.weights.source import MmapSource, Source, is_address, open_source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.onnx.loading import check_operators, open_path
from rushlight.core.onnx.module import OnnxModule, registered
from rushlight.core.onnx.packing import pack_weights, packed_names
from rushlight.core.onnx.proto import TensorRecord, parse_model
from rushlight.core.onnx.weights import (
    SMALL,
    Files,
    array_of,
    as_stored,
    check_sizes,
    from_bytes,
    in_one_piece,
    is_weight,
    named,
    plain,
)
from rushlight.core.tensor.tensor import Tensor, from_numpy

Progress = Callable[[int, int | None], None]
Opener = Callable[[Any], Awaitable[Source]]
_TAB = sys.platform == "emscripten"


async def load_async(
    file: Any, *, device: Any = None, progress: Progress | None = None
) -> OnnxModule:
    """`load` without blocking; in the tab also of a File or Blob of JavaScript.

    file, device: as `load` takes them; an address in the tab is relative to the page's. progress:
    told the bytes of weights that came, of how many. Weights for a device with memory of its own
    never lie in the tab's heap, but small ones and those that are packed anew.

    Raises what `load` raises; MemoryError or DeviceMemoryError before the weights are downloaded,
    if they do not fit; FetchError for a server that does not answer.
    """
    where = await device_async(as_device(device))
    source, files, opener = await open_async(file)
    try:
        model = await read_async(parse_model(source), source)
        check_operators(model)
        records = plain(model)
        check_sizes(records, source)
        await files.open_async(records, opener)
        packed = packed_names(model)
        weights = await _weights(records, files, where, progress, packed)
        pack_weights(model, weights, files)
    finally:
        for beside in files.beside.values():
            beside.close()
        if source is not file:
            source.close()
    return OnnxModule(model, weights, source.name).to(device=where)


async def open_async(file: Any) -> tuple[Source, Files, Opener]:
    """A model's source, its files, and what opens those beside it by place."""

    async def at(place: Any) -> Source:
        return open_source(place)

    if _TAB and not is_source(file):
        from rushlight.web.loading.remote import Remote, open_remote

        named = isinstance(file, str | os.PathLike)
        if (named and not Path(file).exists()) or hasattr(file, "arrayBuffer"):
            file = await open_remote(os.fspath(file) if named else file)
    if _TAB and is_source(file):
        from rushlight.web.loading.remote import Remote

        if isinstance(file, Remote):
            return file, Files(file, file.address, open_source), file.beside
    if not isinstance(file, str | os.PathLike):
        source = opened(file)
        return source, Files(source, None, open_source), at
    if is_address(file):
        import asyncio

        async def fetched(place: Any) -> Source:
            return await asyncio.to_thread(open_source, place)

        source = await fetched(file)
        return source, Files(source, str(file), open_source), fetched
    source, folder = open_path(file)
    return source, Files(source, folder, open_source), at


async def _weights(
    records: list[TensorRecord],
    files: Files,
    device: Device,
    progress: Progress | None,
    packed: set[str],
) -> dict[str, Tensor]:
    """Read small tensors into their records; the weights, as tensors by name.

    packed: those that are read before the model is there.
    """
    weights: dict[str, Tensor | None] = {}  # in the file's order
    placed: list[tuple[TensorRecord, Source, int]] = []
    for record in records:
        whole, large = in_one_piece(record), is_weight(record)
        streamed = whole and large and record.count > SMALL
        if not streamed:
            record.array = await _array(record, files)
            record.array.flags.writeable = False
        if not large:
            continue
        name = named(record, weights)
        weights[name] = None
        if streamed:
            source, span = files.place_of(record)
            placed.append((record, source, span.start))
        else:
            weights[name] = as_stored(record.array, record)
            if record.count > SMALL:
                record.array = None
    brought = await _bring(placed, device, progress, packed)
    for record, source, _ in placed:
        tensor = brought[record.weight]
        if _as_carried(record):
            data = tensor.numpy().tobytes()
            tensor = from_numpy(from_bytes(data, record, source.name))
        weights[record.weight] = tensor
    return {n: registered(n, tensor) for n, tensor in weights.items() if tensor is not None}


async def _array(record: TensorRecord, files: Files) -> Any:
    """The elements of a tensor that is not streamed."""
    if record.external is None:
        return await read_async(array_of(record, files.source), files.source)
    source, span = files.place_of(record)
    return from_bytes(await source.read_async(span.start, span.nbytes), record, source.name)


def _as_carried(record: TensorRecord) -> bool:
    """Whether there is no dtype of a tensor's bytes: its elements are kept as they are carried."""
    return record.kind.declared is None or record.kind.bits < 8


async def _bring(
    placed: Sequence[tuple[TensorRecord, Source, int]],
    device: Device,
    progress: Progress | None,
    packed: set[str],
) -> dict[str, Tensor]:
    """The tensors of places in sources, by the names of the weights; `packed` are on the heap."""
    groups: dict[tuple[int, bool], tuple[Source, dict[str, Entry]]] = {}
    for record, source, offset in placed:
        bare = _as_carried(record)
        kind, shape = (uint8, (record.nbytes,)) if bare else (record.kind.declared, record.shape)
        assert kind is not None
        entry = Entry(record.weight, kind, shape, offset, record.nbytes)
        heap = bare or record.name in packed
        groups.setdefault((id(source), heap), (source, {}))[1][record.weight] = entry
    sources = [source for source, _ in groups.values()]
    tables = [Table(entries) for _, entries in groups.values()]
    if _TAB:
        from rushlight.web.loading.remote import Remote, stream_tensors

        remotes = [source for source in sources if isinstance(source, Remote)]
        if remotes and len(remotes) == len(sources):
            ways: list[Any] = ["heap" if heap else "device" for _, heap in groups]
            return await stream_tensors(tables, ways, remotes, device, progress)
    steps = load_schedule(tables, [destination_for(source) for source in sources])
    mapped = [s for s in steps if isinstance(sources[s.file_index], MmapSource)]
    others = [s for s in steps if not isinstance(sources[s.file_index], MmapSource)]
    return dict(run_schedule(mapped, sources)) | await run_schedule_async(others, sources)
