"""Datasets of tables: CSV, JSON lines, npz, and Parquet and Arrow through pyarrow."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rushlight.core.basis.dtype import int64
from rushlight.core.basis.errors import FormatError
from rushlight.core.io import load
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor
from rushlight.core.utils.data import Dataset, TensorDataset

Place = str | os.PathLike[str]
_LONGEST_FIELD = 2**20


class Rows(Dataset[Any]):
    """Rows of a file: sample i is the dict of row i."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self.rows[index]


class Table(TensorDataset):
    """Numbers of a table: sample i is (features float32, target), or (features,) without one.

    columns: the features' names. classes: of a target that was text, the texts in order; the
    target is then their number, int64.
    """

    def __init__(self, columns: list[str], classes: list[str], *tensors: Tensor) -> None:
        super().__init__(*tensors)
        self.columns, self.classes = columns, classes


def read_jsonl(path: Place) -> Rows:
    """The rows of a file with a JSON object a line. FormatError with a line's number."""
    from rushlight.models.tuning.examples import read_rows

    return Rows(read_rows(path))


def read_csv(
    path: Place, target: str | None = None, columns: Sequence[str] | None = None,
    delimiter: str = ",",
) -> Table:  # fmt: skip
    """A table of numbers from a CSV file whose first line names the columns.

    columns: the features, by default all but `target`. The target may be text: its classes are
    numbered in sorted order; whole numbers become int64, others float32. FormatError names the
    line, KeyError a missing column.
    """
    place = Path(path)
    csv.field_size_limit(_LONGEST_FIELD)
    with place.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=delimiter)
        try:
            names = next(rows, [])
            wanted = [n for n in names if n != target] if columns is None else list(columns)
            for name in (*wanted, *([target] if target is not None else [])):
                if name not in names:
                    raise KeyError(f"{place} has no column {name!r}; it has {', '.join(names)}")
            places = [names.index(n) for n in wanted]
            goal = None if target is None else names.index(target)
            values, targets = [], []
            for row in rows:
                if not row:
                    continue
                if len(row) != len(names):
                    raise FormatError(f"{place}:{rows.line_num} has {len(row)} fields; the first "
                                      f"line has {len(names)}")  # fmt: skip
                try:
                    values.append([float(row[i]) for i in places])
                except ValueError as error:
                    raise FormatError(f"{place}:{rows.line_num}: {error}; choose other columns"
                                      ) from None  # fmt: skip
                if goal is not None:
                    targets.append(row[goal])
        except (csv.Error, UnicodeDecodeError) as error:
            raise FormatError(f"{place}:{rows.line_num}: {error}") from None
    if not values:
        raise FormatError(f"{place} has no rows")
    features = tensor(np.array(values, np.float32).reshape(len(values), len(wanted)))
    if target is None:
        return Table(wanted, [], features)
    goals, classes = _targets(targets)
    return Table(wanted, classes, features, goals)


def _targets(texts: list[str]) -> tuple[Tensor, list[str]]:
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        classes = sorted(set(texts))
        known = {text: i for i, text in enumerate(classes)}
        return tensor([known[text] for text in texts], dtype=int64), classes
    if all(n.is_integer() for n in numbers):
        return tensor([int(n) for n in numbers], dtype=int64), []
    return tensor(np.array(numbers, np.float32)), []


def arrays(path: Place, *names: str) -> TensorDataset:
    """The arrays of an .npz or safetensors file with these names, side by side; default: all.

    KeyError for a missing name, ValueError for other lengths.
    """
    found: Any = load(path)
    for name in names:
        if name not in found:
            raise KeyError(f"{path} has no array {name!r}; it has {', '.join(found)}")
    return TensorDataset(*(found[name] for name in names or found))


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
    with place.open("rb") as file:
        head = file.read(6)
    try:
        if head.startswith(b"PAR1"):
            table = parquet.read_table(place)
        elif head == b"ARROW1":
            table = feather.read_table(place)
        else:
            with pyarrow.OSFile(str(place)) as stream:
                table = pyarrow.ipc.open_stream(stream).read_all()
        return Rows(table.to_pylist())
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise FormatError(f"{place}: {str(error)[:200]}") from None
