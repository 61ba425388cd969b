"""A job over many rows: processes that each load the model once, and what becomes of errors."""

from __future__ import annotations

import dataclasses
import hashlib
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.backends.registry import set_num_threads
from rushlight.core.basis.errors import LoadError
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.bulk.journal import Journal
from rushlight.models.bulk.sources import Row, fingerprint, rows
from rushlight.models.tasks.pipeline import pipeline
from rushlight.models.tasks.record import Task
from rushlight.models.tasks.registry import find

TRIES = 3  # of a part whose process ends
PART = 64  # rows of a part
Part = tuple[int, list[Row]]


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a job has done: rows with results and with errors, and parts that were there before."""

    done: int
    failed: int
    kept: int


def run_all(
    source: str | os.PathLike[str],
    task: str,
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    options: Mapping[str, Any] | None = None,
    device: str = "cpu",
    workers: int = 1,
    field: str | None = None,
    part: int = PART,
    most_errors: int | None = None,
    restart: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Summary:
    """Run a task over every row of `source`, in `workers` processes; the results go to `out`.

    source: see `sources.rows`, as `field`. model: a name, folder or hub id, which every process
    loads once; files are mapped, so a machine holds one copy. out: a .jsonl or .parquet file of
    {"id", "output"}, in the order of the rows (ids are texts in .parquet); rows with errors go to
    OUT.errors.jsonl beside it, and more than `most_errors` of them stop the job (ValueError).
    `part` rows are kept together as soon as they are done, so that a job which was killed goes on
    where it was; a changed input, model or option refuses to go on (ValueError) unless `restart`. A
    part whose process ends is tried three times, then row by row, and a row that ends its process
    is set aside as an error.
    options: those of the task. progress(rows): called as rows are done. Few rows are in memory at
    once.
    """
    record, place = find(task), Path(source)
    if not place.exists():
        raise FileNotFoundError(f"{place}: no such file or folder")
    for name, value in (("workers", workers), ("part", part)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be 1 or more")
    record.checked(options or {})
    job = {
        "task": task,
        "model": str(model),
        "model_files": _model_files(model),
        "options": repr(sorted((options or {}).items())),
        "device": device,
        "field": field,
        "part": part,
        "input": fingerprint(place),
    }
    journal = Journal(Path(out), job, restart)
    going = _Job(record, str(model), dict(options or {}), device, workers, journal, most_errors)
    return going.run(_parts(rows(place, record, field), part), progress or (lambda _: None))


def _model_files(model: str | os.PathLike[str]) -> str:
    """A hash of the names and sizes of a model's files."""
    from rushlight.models.hub.names import resolve

    place = resolve(model)
    paths = sorted(place.rglob("*")) if place.is_dir() else [place]
    stamps = [f"{p.name} {p.stat().st_size}" for p in paths if p.is_file()]
    return hashlib.sha256("\n".join(stamps).encode()).hexdigest()


def _parts(every: Iterator[Row], size: int) -> Iterator[Part]:
    number = 0
    while rows := list(islice(every, size)):
        yield number, rows
        number += 1


class _Job:
    """The processes of a job and what they have in hand."""

    def __init__(
        self,
        task: Task,
        model: str,
        options: dict[str, Any],
        device: str,
        workers: int,
        journal: Journal,
        most_errors: int | None,
    ) -> None:
        self.task, self.workers, self.journal = task, workers, journal
        self.most_errors = most_errors
        self._start = (task.name, model, options, device, workers)
        self._pool: ProcessPoolExecutor | None = None
        self.done = self.failed = self.kept = 0

    def run(self, parts: Iterator[Part], progress: Callable[[int], object]) -> Summary:
        count, pending, suspects = 0, dict[Future[Any], Part](), deque[Part]()
        try:
            while True:
                while len(pending) < 2 * self.workers and not suspects:
                    part = next(parts, None)
                    if part is None:
                        break
                    count = part[0] + 1
                    if self.journal.has(part[0]):
                        self._count(self.journal.read(part[0]))
                        self.kept += 1
                        progress(len(part[1]))
                        continue
                    try:
                        pending[self._submit(part[1])] = part
                    except BrokenProcessPool:  # a process ended since the last results
                        suspects.append(part)
                        if not pending:
                            self._close()
                if not pending and not suspects:
                    break
                if not pending:  # one at a time, to see whose process ends
                    part = suspects.popleft()
                    self._finish(part, self._alone(part[1]), progress)
                    continue
                ended, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in ended:
                    part = pending.pop(future)
                    try:
                        results = future.result()
                    except BrokenProcessPool:
                        suspects.append(part)
                    else:
                        self._finish(part, results, progress)
                if suspects:  # all that was in hand is lost with the pool
                    for future, part in pending.items():
                        try:
                            self._finish(part, future.result(), progress)
                        except BrokenProcessPool:
                            suspects.append(part)
                    pending = {}
                    self._close()
        finally:
            self._close()
        self.journal.finish(count)
        return Summary(self.done, self.failed, self.kept)

    def _submit(self, part: Sequence[Row]) -> Future[Any]:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self.workers, context, initializer=_begin, initargs=self._start
            )
        return self._pool.submit(_results, list(part))

    def _alone(self, part: Sequence[Row]) -> list[dict[str, Any]]:
        """The results of a part that has the processes for itself; row by row, if they end."""
        for _ in range(TRIES):
            try:
                results: list[dict[str, Any]] = self._submit(part).result()
                return results
            except BrokenProcessPool:
                self._close()
        if len(part) == 1:
            row = part[0]
            words = f"its process ended at each of {TRIES} tries"
            return [{"id": row.name, "position": row.position, "error": words}]
        return [result for row in part for result in self._alone([row])]

    def _finish(
        self, part: Part, results: list[dict[str, Any]], progress: Callable[[int], object]
    ) -> None:
        self.journal.keep(part[0], results)
        self._count(results)
        progress(len(part[1]))
        if self.most_errors is not None and self.failed > self.most_errors:
            first = next(r for r in results if "error" in r)
            raise ValueError(
                f"{self.failed} rows have errors, more than {self.most_errors}; the last: row "
                f"{first['position']}: {first['error']}; what is done is kept in "
                f"{self.journal.folder}"
            )

    def _count(self, results: Sequence[Mapping[str, Any]]) -> None:
        failed = sum("error" in result for result in results)
        self.failed += failed
        self.done += len(results) - failed

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


# --- in a worker's process ----------------------------------------------------------------------

_pipe: Any = None
_refused = ""  # why the model cannot be loaded


def _begin(task: str, model: str, options: dict[str, Any], device: str, workers: int) -> None:
    """Load the model; the machine's cores are shared among the workers."""
    global _pipe, _refused
    if workers > 1:
        set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    try:
        _pipe = pipeline(task, model, device=device, **options)
    except Exception as error:  # said by the first part, as a process that fails here only ends
        _refused = f"{model} cannot be loaded: {type(error).__name__}: {error}"


def _results(part: Sequence[Row]) -> list[dict[str, Any]]:
    """The results of rows: of texts that become vectors all at once, else one after another.

    LoadError where the model cannot be loaded.
    """
    if _refused:
        raise LoadError(_refused)
    outputs = {row.position: _error(row, row.error) for row in part if row.error}
    fit = [row for row in part if not row.error]
    if _pipe.task.output == "vectors" and fit:
        try:
            vectors = _pipe([row.value for row in fit]).tolist()
            outputs |= {r.position: _output(r, v) for r, v in zip(fit, vectors, strict=True)}
            fit = []
        except Exception:  # one of them: each by itself says which
            pass
    for row in fit:
        try:
            outputs[row.position] = _output(row, _plain(_pipe(row.value)))
        except Exception as error:
            outputs[row.position] = _error(row, f"{type(error).__name__}: {error}")
    return [outputs[row.position] for row in part]


def _output(row: Row, value: Any) -> dict[str, Any]:
    return {"id": row.name, "output": value}


def _error(row: Row, words: str) -> dict[str, Any]:
    try:
        value = row.value if len(repr(row.value)) < 10_000 else repr(row.value)[:10_000]
    except Exception:
        value = None
    return {"id": row.name, "position": row.position, "error": words, "input": value}


def _plain(value: Any) -> Any:
    """A result as JSON has it."""
    if isinstance(value, Tensor | np.ndarray):
        return value.tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value
