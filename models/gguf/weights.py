"""The weights of a model that is to be written as GGUF, read one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rushlight.core.basis.dtype import DType
from rushlight.core.io.weights.gguf import open_gguf, whole_metadata
from rushlight.core.io.weights.load_schedule import LoadStep, load_schedule, run_schedule
from rushlight.core.io.weights.source import FileSource, MmapSource, Source
from rushlight.core.io.weights.table import Table
from rushlight.core.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Weight:
    """One tensor; `read()` gives it on the CPU, in memory that lasts as long as the tensor."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    read: Callable[[], Tensor]


@contextmanager
def gguf_weights(path: Path) -> Iterator[tuple[dict[str, Any], list[Weight]]]:
    """(metadata with its types, weights) of a GGUF file, or of all parts of a split one."""
    opened = open_gguf(path)
    with ExitStack() as files:
        metadata = whole_metadata([(source.name, part) for source, part in opened])
        kept = {key for key in metadata if not key.startswith("split.")}
        typed = {key: value for key, value in opened[0][1].typed().items() if key in kept}
        yield typed, file_weights(((s, part.table) for s, part in opened), files)


def file_weights(opened: Iterable[tuple[Source, Table]], files: ExitStack) -> list[Weight]:
    """The weights of opened files, which `files` closes."""
    sources, tables = [], []
    for source, table in opened:
        # A tensor of a mapped file would leave its pages in memory.
        plain = FileSource(source.name) if isinstance(source, MmapSource) else source
        source.close() if plain is not source else None
        files.callback(plain.close)
        sources.append(plain)
        tables.append(table)
    steps = load_schedule(tables, ["heap"] * len(tables))
    return [Weight(s.name, s.dtype, s.shape, partial(_read, s, sources)) for s in steps]


def _read(step: LoadStep, sources: list[Source]) -> Tensor:
    (_, tensor), *_ = run_schedule([step], sources)
    return tensor
