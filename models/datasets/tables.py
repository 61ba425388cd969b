"""Datasets of tables: CSV, JSON lines, npz, and Parquet and Arrow through pyarrow."""

from __future__ import annotations

import csv
import io
import math
import os
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.basis.errors import FormatError
from rushlight.core.io import load
from rushlight.core.io.weights.source import open_regular
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.core.utils.data import Dataset, TensorDataset

Place = str | os.PathLike[str]
_LONGEST_FIELD, _LONGEST_ROW = 2**20, 2**22  # characters
_MOST_COLUMNS = 2**16
_LARGEST = float(np.finfo(np.float32).max) * (1 + 2.0**-25)  # what float32 rounds to a number
# Values of a table, and per byte of its file: packed ones may be repeated by a byte.
_FREE_CELLS, _TIMES_CELLS = 2**20, 8


class Rows(Dataset[Any]):
    """Rows of a file: sample i is the dict of row i."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self.rows[index]


class Table(TensorDataset):
    """Numbers of a table: sample i is (features float32, target), or (features,) without one.

    columns: the features' names. classes: of a target that was text, the texts in order; the
    target is then their number, int64.

    `tensors` are the features and the target. Raises ValueError for different counts of samples.
    """

    def __init__(self, columns: list[str], classes: list[str], *tensors: Tensor) -> None:
        super().__init__(*tensors)
        self.columns, self.classes = columns, classes


def read_jsonl(path: Place) -> Rows:
    """The rows of a file with a JSON object a line. FormatError with a line's number."""
    from rushlight.models.finetune.examples import read_rows

    return Rows(read_rows(path))


def read_csv(
    path: Place,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
) -> Table:
    """A table of numbers from a CSV file whose first line names the columns.

    columns: the features, by default all but `target`. The target may be text: its classes are
    numbered in sorted order; whole numbers become int64, others float32. FormatError names the
    line, KeyError a missing column.

    `path` is the file, `delimiter` what parts fields.
    """
    place = Path(path)
    csv.field_size_limit(_LONGEST_FIELD)
    values, goals, known = array("f"), array("q"), dict[str, int]()
    with open_regular(place) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
        lines = _Lines(file, place)
        rows = csv.reader(lines, delimiter=delimiter)
        try:
            names = next(rows, [])
            if len(names) > _MOST_COLUMNS:
                raise FormatError(f"{place} has {len(names)} columns; at most {_MOST_COLUMNS}")
            wanted = [n for n in names if n != target] if columns is None else list(columns)
            numbers = {name: i for i, name in reversed(list(enumerate(names)))}
            for name in (*wanted, *([target] if target is not None else [])):
                if name not in numbers:
                    raise KeyError(f"{place} has no column {name!r}; it has {', '.join(names)}")
            places = [numbers[n] for n in wanted]
            goal = None if target is None else numbers[target]
            count = 0
            for row in rows:
                lines.spent = 0
                if not row:
                    continue
                if len(row) != len(names):
                    raise FormatError(
                        f"{place}:{rows.line_num} has {len(row)} fields; the first "
                        f"line has {len(names)}"
                    )
                count += 1
                try:
                    values.extend([_single(row[i]) for i in places])
                except ValueError as error:
                    raise FormatError(
                        f"{place}:{rows.line_num}: {error}; choose other columns"
                    ) from None
                if goal is not None:
                    goals.append(known.setdefault(row[goal], len(known)))
        except (csv.Error, UnicodeDecodeError) as error:
            raise FormatError(f"{place}:{rows.line_num}: {error}") from None
    if not count:
        raise FormatError(f"{place} has no rows")
    features = tensor(np.array(values, np.float32).reshape(count, len(wanted)))
    if target is None:
        return Table(wanted, [], features)
    targets, classes = _targets(list(known), np.array(goals, np.int64))
    return Table(wanted, classes, features, targets)


class _Lines:
    """The lines of a CSV file; spent: characters since the last row, whose number is bounded."""

    def __init__(self, file: io.TextIOWrapper, place: Path) -> None:
        self.file, self.place, self.spent = file, place, 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self.file.readline(_LONGEST_ROW + 1)
        self.spent += len(line)
        if self.spent > _LONGEST_ROW:
            raise FormatError(f"{self.place}: a row has more than {_LONGEST_ROW} characters")
        if not line:
            raise StopIteration
        return line


def _single(text: str) -> float:
    """A number; one beyond float32 is infinite, as NumPy rounds it."""
    number = float(text)
    return number if abs(number) < _LARGEST or number != number else math.copysign(math.inf, number)


def _targets(texts: list[str], numbers: Any) -> tuple[Tensor, list[str]]:
    """The targets, given by their number in `texts`, and the names of their classes."""
    try:
        values = np.array([float(text) for text in texts])
    except ValueError:
        order = np.argsort(np.array(texts, object), kind="stable")
        rank = np.empty(len(texts), np.int64)
        rank[order] = np.arange(len(texts))
        return tensor(rank[numbers]), [texts[i] for i in order]
    if (
        np.isfinite(values).all()
        and (values == np.floor(values)).all()
        and (np.abs(values) < 2.0**63).all()
    ):
        return tensor(values.astype(np.int64)[numbers]), []
    return tensor(values.astype(np.float32)[numbers]), []


def arrays(path: Place, *names: str) -> TensorDataset:
    """The arrays of an .npz or safetensors file with these names, side by side; default: all.

    KeyError for a missing name, ValueError for other lengths.
    """
    by_name: Any = load(path)
    for name in names:
        if name not in by_name:
            raise KeyError(f"{path} has no array {name!r}; it has {', '.join(by_name)}")
    return TensorDataset(*(by_name[name] for name in names or by_name))


def read_table(path: Place) -> Rows:
    """The rows of a Parquet, Arrow or Feather file.

    Needs pyarrow (pip install 'rushlight[data]'); ImportError says so. FormatError for another
    file.
    """
    place = Path(path)
    try:
        import pyarrow
        from pyarrow import feather, parquet
    except ImportError:
        raise ImportError(f"{place} is read by pyarrow: pip install 'rushlight[data]'") from None
    with open_regular(place) as file:
        head, size = file.read(6), os.fstat(file.fileno()).st_size
        file.seek(0)
        if head.startswith(b"FEA1"):
            raise FormatError(
                f"{place} is a Feather file of version 1, which is not supported",
                hint="pyarrow.feather.write_feather writes version 2",
            )
        try:
            if head.startswith(b"PAR1"):
                about = parquet.ParquetFile(file)
                _check_cells(place, about.metadata.num_rows, about.metadata.num_columns, size)
                table = about.read()
            # By one thread: where an Arrow file is damaged, pyarrow's own may outlive the error,
            # and end a process that ends at once by SIGABRT.
            elif head == b"ARROW1":
                table = feather.read_table(file, use_threads=False)
            else:
                plain = pyarrow.ipc.IpcReadOptions(use_threads=False)
                table = pyarrow.ipc.open_stream(file, options=plain).read_all()
            _check_cells(place, table.num_rows, table.num_columns, size)
            # Offsets that lead out of their buffers would be followed without a look.
            table.validate(full=True)
            return Rows(table.to_pylist())
        except FormatError:
            raise
        # What a damaged file makes pyarrow raise, of its own and of Python's exceptions.
        except Exception as error:
            what = " ".join(str(error).split())[:200] or type(error).__name__
            raise FormatError(f"{place}: {what}") from None


def _check_cells(place: Path, rows: int, columns: int, size: int) -> None:
    most = _FREE_CELLS + _TIMES_CELLS * size
    if not 0 <= rows * max(columns, 1) <= most:
        raise FormatError(
            f"{place} has {rows} rows of {columns} columns in {size} bytes; at most "
            f"{most} values are read"
        )
