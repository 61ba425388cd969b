"""CTranslate2's model.bin (version 6): a header, then each variable with its name, shape and bytes.

The layout is that of CTranslate2's python/ctranslate2/specs/model_spec.py. A matrix of 8 bits has
one scale for each row beside it.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from rushlight.core.basis.dtype import DType, bfloat16, float16, float32, int8, int16, int32
from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.layout import MOST_ELEMENTS, count_elements
from rushlight.core.basis.quantized import q8_0
from rushlight.core.io.weights.llamas.ggml import Reader
from rushlight.core.io.weights.load_schedule import destination_for, load_schedule, run_schedule
from rushlight.core.io.weights.source import Source
from rushlight.core.io.weights.table import Entry, Table
from rushlight.core.tensor.convert import tensor
from rushlight.core.tensor.tensor import Tensor

MAGIC = b"\6\0\0\0"  # the version
_MOST_TENSORS, _MOST_DIMS = 1 << 16, 8
_TYPES: tuple[DType, ...] = (float32, int8, int16, int32, float16, bfloat16)
_SCALE = "_scale"


class _Reader(Reader):
    """Numbers of any width, and texts."""

    def number(self, n: int) -> int:
        """The next number, of `n` bytes."""
        return int.from_bytes(self.take(n), "little")

    def text(self) -> str:
        """The next text; its length counts the zero at its end."""
        raw = self.take(self.number(2))
        if not raw.endswith(b"\0"):
            raise FormatError(f"{self.source.name}: the text that ends at {self.at} has no end")
        return raw[:-1].decode("utf-8", "backslashreplace")


def read_ctranslate2(source: Source) -> Table:
    """The table of a file; metadata: the model's specification, and what other names stand for.

    Raises FormatError for a file that does not follow the format, and for other versions.
    """
    reader = _Reader(source)
    version = reader.number(4)
    if version != 6:
        raise FormatError(f"{source.name}: version {version} of CTranslate2's files; supported: 6")
    metadata = {"specification": reader.text(), "revision": str(reader.number(4))}
    count = reader.number(4)
    if count > _MOST_TENSORS:
        raise FormatError(f"{source.name}: {count} variables are too many")
    entries: dict[str, Entry] = {}
    for _ in range(count):
        name = reader.text()
        where = f"{source.name}: variable {name!r:.100}"
        rank = reader.number(1)
        if rank > _MOST_DIMS:
            raise FormatError(f"{where} has {rank} dims; at most {_MOST_DIMS} are supported")
        shape = struct.unpack(f"<{rank}I", reader.take(4 * rank))
        kind, nbytes = reader.number(1), reader.number(4)
        if name in entries:
            raise FormatError(f"{where} occurs twice")
        if kind >= len(_TYPES):
            known = ", ".join(t.name for t in _TYPES)
            raise FormatError(
                f"{where} has type {kind}, which is not supported; supported: {known}"
            )
        dtype = _TYPES[kind]
        small = count_elements(shape) <= MOST_ELEMENTS
        if (
            not small
            or dtype.nbytes(math.prod(shape)) != nbytes
            or nbytes > source.size - reader.at
        ):
            raise FormatError(
                f"{where} {shape}: {nbytes} bytes at {reader.at} do not fit it or the file"
            )
        entries[name] = Entry(name, dtype, shape, reader.at, nbytes)
        reader.at += nbytes
    aliases = reader.number(4)
    if aliases > _MOST_TENSORS:
        raise FormatError(f"{source.name}: {aliases} aliases are too many")
    for _ in range(aliases):
        other, name = reader.text(), reader.text()
        if name not in entries or other in entries:
            raise FormatError(
                f"{source.name}: {other!r:.100} stands for {name!r:.100}, which is "
                "no variable, or is one itself"
            )
        metadata[f"alias:{other}"] = name
    return Table(entries, metadata)


def load_ctranslate2(source: Source, device: str = "cpu") -> dict[str, Tensor]:
    """The tensors of a file; int8 with scales becomes q8_0 where its rows fit, else float32."""
    steps = load_schedule([read_ctranslate2(source)], [destination_for(source)])
    stored = dict(run_schedule(steps, [source]))
    tensors: dict[str, Tensor] = {}
    for name, t in stored.items():
        scale = stored.get(name + _SCALE)
        if scale is not None and t.dtype in (int8, int16):
            t = _whole(name, t, scale)
        if not name.endswith(_SCALE) or name.removesuffix(_SCALE) not in stored:
            tensors[name] = t.to(device)
    return tensors


def _whole(name: str, t: Tensor, scale: Tensor) -> Tensor:
    """The numbers of a matrix (rows, columns): value / scale, one scale for each row or for all."""
    with np.errstate(all="ignore"):
        step = 1 / scale.numpy().astype(np.float32).reshape(-1)
    if t.ndim < 1 or step.size not in (1, t.shape[0]) or not np.isfinite(step).all():
        raise FormatError(
            f"variable {name!r} {t.shape} has scales {scale.shape} that do not fit it"
        )
    values, rows = t.numpy(), np.broadcast_to(step, t.shape[0])
    normal = (np.abs(rows) >= np.finfo(np.float16).tiny) & (np.abs(rows) <= 65504)
    if t.dtype is not int8 or t.ndim != 2 or t.shape[1] % q8_0.block or not normal.all():
        return tensor(values.astype(np.float32) * rows.reshape(-1, *[1] * (t.ndim - 1)))
    blocks = np.empty((values.size // q8_0.block, 2 + q8_0.block), np.uint8)
    scales = np.repeat(rows.astype(np.float16), t.shape[1] // q8_0.block)
    blocks[:, :2] = scales.view(np.uint8).reshape(-1, 2)
    blocks[:, 2:] = values.reshape(-1, q8_0.block).view(np.uint8)
    return Tensor.from_buffer(blocks.reshape(-1), q8_0, t.shape)
