"""Logs of training: CSV, JSON lines, and TensorBoard's event files. All are callbacks."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from rushlight.core.basis.files.replacing import write_whole
from rushlight.core.training.callbacks import Callback


class _Logger(Callback):
    """Writes the numbers of every report to a file, which is opened with the first one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file: IO[Any] | None = None

    def on_report(self, trainer: Any, module: Any, values: Mapping[str, float]) -> None:
        """Write a row."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._open()
        self._write(trainer.step, trainer.epoch, values)
        self._file.flush()

    def _open(self) -> IO[Any]:
        return self.path.open("a", encoding="utf-8", newline="")

    def _write(self, step: int, epoch: int, values: Mapping[str, float]) -> None:
        raise NotImplementedError

    def on_fit_end(self, trainer: Any, module: Any) -> None:
        """Close the file; a later fit appends."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        """Close the file."""
        self.on_fit_end(trainer, module)


class JSONLLogger(_Logger):
    """A JSON object a line: step, epoch and the values; what is not finite is null."""

    def _write(self, step: int, epoch: int, values: Mapping[str, float]) -> None:
        assert self._file is not None
        row = {k: v if math.isfinite(v) else None for k, v in values.items()}
        self._file.write(json.dumps({"step": step, "epoch": epoch, **row}) + "\n")


class CSVLogger(_Logger):
    """A table with the columns step, epoch and one for each value.

    A value that comes later makes a new column: the file is written anew.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._columns = ["step", "epoch"]

    def _open(self) -> IO[Any]:
        if self.path.is_file():
            with self.path.open(encoding="utf-8", newline="") as file:
                self._columns = next(csv.reader(file), []) or self._columns
        return super()._open()

    def _write(self, step: int, epoch: int, values: Mapping[str, float]) -> None:
        assert self._file is not None
        row = {"step": step, "epoch": epoch, **values}
        new = [name for name in row if name not in self._columns]
        if new or self._file.tell() == 0:
            self._file.close()
            rows = []
            if self.path.stat().st_size:
                with self.path.open(encoding="utf-8", newline="") as file:
                    rows = list(csv.DictReader(file))
            self._columns += new
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, self._columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
            write_whole(self.path, text.getvalue())
            self._file = super()._open()
        csv.DictWriter(self._file, self._columns, restval="").writerow(row)


def _table() -> list[int]:
    """Of CRC-32C (Castagnoli): the polynomial 0x1EDC6F41 with its bits reversed."""
    rows = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)  # noqa: PLW2901
        rows.append(n)
    return rows


_CRC = _table()


def _masked(data: bytes) -> bytes:
    """CRC-32C rotated and shifted, as TFRecord files have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes in a protocol buffer."""
    return _number(number << 3 | 2) + _number(len(data)) + data


def _number(n: int) -> bytes:
    encoded = b""
    while n > 127:
        encoded, n = encoded + bytes([n & 127 | 128]), n >> 7
    return encoded + bytes([n])


def record(file: IO[Any], content: bytes, when: float | None = None) -> None:
    """Write an Event of TensorBoard with these fields, at a time (by default now).

    `content` has the fields, `when` is in seconds; `file` is open for bytes. Raises what writing
    raises.
    """
    event = b"\x09" + struct.pack("<d", time.time() if when is None else when) + content
    length = struct.pack("<Q", len(event))
    file.write(length + _masked(length) + event + _masked(event))


class TensorBoardLogger(_Logger):
    """Event files for TensorBoard, in a folder: a scalar for each value.

    Records of TFRecord files, each with an Event message of tensorflow/core/util/event.proto.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__(Path(folder) / f"events.out.tfevents.{int(time.time())}.{os.getpid()}")

    def _open(self) -> IO[Any]:
        file = self.path.open("ab")
        if not file.tell():
            record(file, _field(3, b"brain.Event:2"))
        return file

    def _write(self, step: int, epoch: int, values: Mapping[str, float]) -> None:
        assert self._file is not None
        for name, value in {**values, "epoch": float(epoch)}.items():
            scalar = _field(1, name.encode()) + b"\x15" + struct.pack("<f", value)
            summary = _field(5, _field(1, scalar))
            record(self._file, b"\x10" + _number(step) + summary)
