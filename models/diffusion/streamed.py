"""A pipeline in a page: small files at once, the weights of a part streamed when it is used."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from rushlight.core.backends import Device
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.dtype import DType, as_dtype
from rushlight.core.basis.errors import LoadError
from rushlight.core.io.weights.safetensors import read_table_async
from rushlight.core.io.weights.table import Table
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.diffusion.files import INDEX, PREVIEW, parts_of
from rushlight.models.diffusion.model import DiffusionModel
from rushlight.models.diffusion.parts import Parts
from rushlight.models.diffusion.registry import pipeline_class
from rushlight.models.diffusion.single_file.source import SingleFile
from rushlight.models.small_files import small_json
from rushlight.models.tasks.record import Progress, Run

Tensors = dict[str, Tensor]
Tell = Callable[[int, int | None], None]
_LOOK = 0.1  # seconds between two looks at what has come


class Streamed:
    """The parts of a folder of diffusers whose files a page reads.

    files: the small ones by their paths. weights: for each part its files of safetensors, opened,
    with their tables. `bring` streams a part; `tensors` gives it away once.
    """

    def __init__(
        self,
        files: Mapping[str, bytes],
        weights: Mapping[str, Sequence[tuple[Any, Table]]],
        device: Device,
    ) -> None:
        self.index = small_json(files, INDEX)
        if f"{PREVIEW}/config.json" in files:
            self.index.setdefault(PREVIEW, ["diffusers", "AutoencoderTiny"])
        self._files, self._weights, self._device = files, weights, device
        self._brought: dict[str, Tensors] = {}

    def files(self, part: str) -> Mapping[str, bytes]:
        """The small files of a part; LoadError where there are none."""
        start = f"{part}/"
        files_of_part = {
            n.removeprefix(start): c for n, c in self._files.items() if n.startswith(start)
        }
        if not files_of_part:
            raise LoadError(
                f"the part {part} is missing",
                hint=f"the pipeline has it in the folder {part}/; choose the whole folder",
            )
        return files_of_part

    def tensors(self, part: str) -> Tensors:
        """The weights of a part that was brought; LoadError for another."""
        if part not in self._brought:
            raise LoadError(f"the weights of the part {part} have not been brought")
        return self._brought.pop(part)

    def holds(self, part: str) -> bool:
        """Whether a part has been brought and not been given away."""
        return part in self._brought

    def numel(self) -> int:
        """The numbers of all weights."""
        tables = (table for files in self._weights.values() for _, table in files)
        return sum(math.prod(e.shape) for table in tables for e in table.entries.values())

    def bring(self, part: str) -> Run:
        """Stream the weights of a part to the device; yields Progress in bytes between looks.

        FetchError for a download that fails; closing the run stops it.
        """
        opened = self._weights.get(part, ())
        if not opened:
            raise LoadError(
                f"the part {part} has no weights in safetensors",
                hint="a page reads no other files of a pipeline",
            )

        async def arriving(tell: Tell) -> Tensors:
            from rushlight.web.loading.remote import stream_tensors

            sources, tables = [source for source, _ in opened], [table for _, table in opened]
            ways: Any = ["device"] * len(tables)
            return await stream_tensors(tables, ways, sources, self._device, tell)

        arrival = _Arrival(arriving, [source for source, _ in opened])
        try:
            while True:
                done, total, tensors = yield arrival
                yield Progress(f"load {part}", done, total)
                if tensors is not None:
                    self._brought[part] = tensors
                    return
        finally:
            arrival.stop()


class _Arrival(Readback[tuple[int, int, Tensors | None]]):
    """Looks at weights that are on their way: bytes that came, of how many; at the end tensors."""

    def __init__(
        self, work: Callable[[Tell], Coroutine[Any, Any, Tensors]], sources: Sequence[Any]
    ) -> None:
        import js  # type: ignore[import-not-found, unused-ignore]

        self._work = work
        self._task: asyncio.Task[Tensors] | None = None
        self._came = (0, sum(source.size for source in sources))
        self._control = js.AbortController.new()
        for source in sources:
            source.js.file.signal, source.js.file.onBytes = self._control.signal, None

    def _tell(self, done: int, total: int | None) -> None:
        self._came = (done, total or done)

    async def later(self) -> tuple[int, int, Tensors | None]:
        """What has come after a short while."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._work(self._tell))
        await asyncio.wait({self._task}, timeout=_LOOK)
        tensors = self._task.result() if self._task.done() else None
        return *self._came, tensors

    def wait(self) -> tuple[int, int, Tensors | None]:
        """The same, where Python can block in a tab."""
        from pyodide.ffi import run_sync  # type: ignore[import-not-found, unused-ignore]

        looked: tuple[int, int, Tensors | None] = run_sync(self.later())
        return looked

    def stop(self) -> None:
        """Give up what has not come yet."""
        if self._task is not None and not self._task.done():
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._control.abort()


async def pipeline_of(builder: Any, dtype: str | DType | None = None) -> DiffusionModel:
    """The pipeline of the files that a page's Builder was given; headers of weights are read now.

    dtype: floating weights are converted to it. LoadError for a class that is not supported and
    for a part that is missing, FetchError for a server that does not answer.
    """
    from rushlight.web.loading.remote import open_remote

    index = small_json(builder.files, INDEX)
    kind = pipeline_class(index.get("_class_name"))
    weights: dict[str, list[tuple[Any, Table]]] = {}
    for part in (*parts_of(index), PREVIEW):
        for path in sorted(p for p in builder.graphs if p.startswith(f"{part}/")):
            file = await open_remote(builder.graphs[path], path)
            weights.setdefault(part, []).append((file, await read_table_async(file)))
    wanted = None if dtype is None else as_dtype(dtype)
    source = Streamed(builder.files, weights, builder.device)
    model: DiffusionModel = kind(Parts(source, builder.device, wanted))
    return model


def single_pipeline(builder: Any, dtype: str | DType | None = None) -> DiffusionModel:
    """The pipeline of a single file, all of whose weights a page's Builder was given.

    dtype: floating weights are converted to it. LoadError for a missing vocabulary.
    """
    files, tensors, _ = builder.parts()
    source = SingleFile(Path("the file"), tensors, files)
    kind = pipeline_class(source.index["_class_name"])
    wanted = None if dtype is None else as_dtype(dtype)
    model: DiffusionModel = kind(Parts(source, builder.device, wanted))
    return model
