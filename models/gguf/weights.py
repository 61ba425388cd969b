"""The weights of a model that is to be written as GGUF, read one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rushlight.core.basis.dtype import DType
from rushlight.core.basis.quantized import mxfp4
from rushlight.core.io.weights.gguf import open_gguf, whole_metadata
from rushlight.core.io.weights.load_schedule import LoadStep, load_schedule, run_schedule
from rushlight.core.io.weights.source import FileSource, MmapSource, Source
from rushlight.core.io.weights.table import Table
from rushlight.core.ops import empty
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.families.family import Family
from rushlight.models.parts import BLOCKS, SCALES, join_blocks, parts_of


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
        metadata = whole_metadata([(source.name, parsed) for source, parsed in opened])
        names = {key for key in metadata if not key.startswith("split.")}
        typed = {key: value for key, value in opened[0][1].typed().items() if key in names}
        yield typed, file_weights(((s, parsed.table) for s, parsed in opened), files)


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


def renamed_weights(family: Family, weight: Weight) -> list[Weight]:
    """A weight under the family's own name and in its layout; none if it takes no part."""

    def made(t: Tensor) -> dict[str, Tensor]:
        return (family.rename_tensors or dict)({weight.name: t})

    return [
        Weight(name, t.dtype, t.shape, lambda: next(iter(made(weight.read()).values())))
        for name, t in made(empty(weight.shape, dtype=weight.dtype, device="meta")).items()
    ]


def split_weights(family: Family, weights: Iterable[Weight]) -> list[Weight]:
    """The weights, with those that the family has in parts replaced by the parts."""
    by_name = {weight.name: weight for weight in weights}
    for name in [n for n in by_name if n.endswith(BLOCKS)] if family.parts else ():
        base = name.removesuffix(BLOCKS)
        if base + SCALES in by_name:
            blocks, scales = by_name.pop(name), by_name.pop(base + SCALES)
            shape = (*scales.shape[:-1], scales.shape[-1] * mxfp4.block if scales.shape else 0)
            read = partial(_join, base, blocks.read, scales.read)
            by_name[base] = Weight(base, mxfp4, shape, read)
    replaced = []
    for w in by_name.values():
        parts = parts_of(family, w.name)
        for name, make in parts.items():
            shape = make(empty(w.shape, dtype=w.dtype, device="meta")).shape
            replaced.append(Weight(name, w.dtype, shape, partial(_made, make, w.read)))
        replaced += [] if parts else [w]
    return replaced


def _join(name: str, blocks: Callable[[], Tensor], scales: Callable[[], Tensor]) -> Tensor:
    return join_blocks({name + BLOCKS: blocks(), name + SCALES: scales()})[name]


def _made(change: Callable[[Tensor], Tensor], read: Callable[[], Tensor]) -> Tensor:
    return change(read())


def _read(step: LoadStep, sources: list[Source]) -> Tensor:
    (_, tensor), *_ = run_schedule([step], sources)
    return tensor
