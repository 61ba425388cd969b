"""What a job has done so far: a file for each part beside the output, joined at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rushlight.core.basis.files.replacing import write_whole

FORMS = (".jsonl", ".parquet")


class Journal:
    """The parts of a job beside its output `out`, in the folder OUT.parts.

    job: what the results depend on. A folder of another job is refused (ValueError) unless
    `restart`, which begins again.
    """

    def __init__(self, out: Path, job: Mapping[str, Any], restart: bool) -> None:
        if out.suffix not in FORMS:
            raise ValueError(f"{out}: the output's suffix must be {' or '.join(FORMS)}")
        self.out, self.folder = out, out.with_name(f"{out.name}.parts")
        self.errors = out.with_name(f"{out.stem}.errors.jsonl")
        if restart:
            shutil.rmtree(self.folder, ignore_errors=True)
        told = self.folder / "job.json"
        if told.is_file() and any(self.folder.glob("0*.jsonl")):
            before = json.loads(told.read_bytes())
            changed = [name for name in job if before.get(name) != job[name]]
            if changed:
                shown = ", ".join(f"{n} was {before.get(n)!r:.80}" for n in changed)
                raise ValueError(
                    f"{self.folder} is of another job: {shown}; pass restart=True (--restart) to "
                    "begin again, or another output"
                )
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(told, json.dumps(dict(job), indent=1))

    def _place(self, part: int) -> Path:
        return self.folder / f"{part:08d}.jsonl"

    def has(self, part: int) -> bool:
        """Whether a part is done."""
        return self._place(part).is_file()

    def keep(self, part: int, results: Iterable[Mapping[str, Any]]) -> None:
        """Keep the results of a part; they are there whole or not at all."""
        lines = [json.dumps(dict(result)) + "\n" for result in results]
        write_whole(self._place(part), "".join(lines))

    def read(self, part: int) -> list[dict[str, Any]]:
        """The results of a part that is done."""
        return [json.loads(line) for line in self._place(part).read_bytes().splitlines()]

    def _all(self, parts: int, failed: bool) -> Iterator[dict[str, Any]]:
        for part in range(parts):
            for result in self.read(part):
                if ("error" in result) is failed:
                    yield result

    def finish(self, parts: int) -> None:
        """Write the output, and beside it the rows with errors; the parts are removed."""
        if self.out.suffix == ".parquet":
            self._write_parquet(parts)
        else:
            _write_lines(self.out, self._all(parts, False))
        if any(True for _ in self._all(parts, True)):
            _write_lines(self.errors, self._all(parts, True))
        else:
            self.errors.unlink(missing_ok=True)
        shutil.rmtree(self.folder)

    def _write_parquet(self, parts: int) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise ImportError(
                f"{self.out} is written by pyarrow: pip install 'rushlight[data]'"
            ) from None
        beside = self.out.with_name(f"{self.out.name}.unfinished")
        writer = None
        for part in range(parts):
            kept = [
                result | {"id": str(result["id"])}  # numbers and texts share no column
                for result in self.read(part)
                if "error" not in result
            ]
            if not kept:
                continue
            schema = None if writer is None else writer.schema
            table = pyarrow.Table.from_pylist(kept, schema=schema)
            writer = writer or parquet.ParquetWriter(beside, table.schema)
            writer.write_table(table)
        if writer is None:
            writer = parquet.ParquetWriter(beside, pyarrow.schema([("id", pyarrow.string())]))
        writer.close()
        beside.replace(self.out)


def _write_lines(place: Path, results: Iterable[Mapping[str, Any]]) -> None:
    beside = place.with_name(f"{place.name}.unfinished")
    with beside.open("w", encoding="utf-8") as file:
        for result in results:
            file.write(json.dumps(dict(result)) + "\n")
    beside.replace(place)
