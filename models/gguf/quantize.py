"""Quantizing and dequantizing models into GGUF files, one tensor at a time.

The file types and the type of each tensor are those of llama.cpp (recipes.py). What only quantizing
needs is imported when it begins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.basis.codec import encode as encode_float
from rushlight.core.basis.dtype import DType, float16, float32
from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.layout import count_elements
from rushlight.core.io.weights.gguf import gguf_in
from rushlight.core.io.weights.gguf_writer import Row, write_gguf
from rushlight.core.tensor.tensor import Tensor
from rushlight.models.gguf.recipes import FILE_TYPES, choose_types, file_type, keep
from rushlight.models.gguf.weights import Weight, gguf_weights
from rushlight.models.model import Model

Array = npt.NDArray[Any]
Progress = Callable[[int, int | None], None]
Path_ = str | os.PathLike[str]

_VERSION = np.uint32(2)  # of ggml's block layouts
_PIECE = 1 << 22  # elements that are converted at a time
_OF_BITS = {
    2: "q2_k",
    3: "q3_k_m",
    4: "q4_k_m",
    5: "q5_k_m",
    6: "q6_k",
    8: "q8_0",
    16: "f16",
    32: "f32",
}
_FLOATS = ("f32", "f16", "bf16")


def quantize(
    model: Path_ | Model,
    out: Path_,
    type: str | None = None,
    *,
    bits: int | None = None,
    imatrix: Path_ | Mapping[str, Array] | None = None,
    keeps: Sequence[str] = (),
    split_max_size: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Write a model as a GGUF file whose matrices are quantized; returns the files' paths.

    model: a folder in the Hugging Face layout, a GGUF file, a model's name, or a loaded model.
    type: one of llama.cpp's file types, such as "q4_k_m"; or bits: 2, 3, 4, 5, 6, 8, 16 or 32, a
    common type of that size. imatrix: an importance matrix, as a file or by `read_imatrix`. keeps:
    "PATTERN=TYPE" rules; the first whose regular expression matches a tensor's name decides its
    type. split_max_size: bytes of a file's tensors, above which there are several files. Memory is
    bounded by the largest tensor of the model. progress(done, total): bytes written.

    Tensors that are in blocks already are dequantized first, unless their type stays. Raises
    ValueError for an unknown type, LoadError and FormatError for a model that cannot be read or
    mapped to GGUF, FileExistsError unless `overwrite`.

    `out` is the file.
    """
    from rushlight.core.io.weights.imatrix import read_imatrix

    kind = _kind(type, bits)
    rules = [keep(rule) for rule in keeps]
    important = read_imatrix(imatrix) if isinstance(imatrix, str | os.PathLike) else imatrix

    def choose(metadata: Mapping[str, Any], weights: Sequence[Weight]) -> dict[str, DType]:
        stored = {weight.name: (weight.dtype, weight.shape) for weight in weights}
        return choose_types(kind, metadata, stored, important=important is not None, keeps=rules)

    return _write(model, out, kind, choose, important or {}, split_max_size, overwrite, progress)


def _kind(type: str | None, bits: int | None) -> str:
    """The file type that is asked for."""
    if (type is None) == (bits is None):
        raise ValueError("quantize: pass either type or bits, such as type='q4_k_m' or bits=4")
    if bits is not None and bits not in _OF_BITS:
        raise ValueError(f"quantize: bits is {bits}; supported: {', '.join(map(str, _OF_BITS))}")
    return file_type(type or _OF_BITS[bits or 4])


def dequantize(
    model: Path_ | Model,
    out: Path_,
    type: str = "f16",
    *,
    split_max_size: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Write a model as a GGUF file without quantized tensors: type is "f16", "bf16" or "f32".

    As `quantize`; matrices have that type, and what was float32 already and is no matrix stays.

    `model`, `out`, `split_max_size`, `overwrite`, `progress` and what it raises are as there;
    ValueError for a quantized type.
    """
    if file_type(type) not in _FLOATS:
        raise ValueError(f"dequantize: type {type!r} is quantized; supported: {', '.join(_FLOATS)}")
    kind = file_type(type)

    def choose(metadata: Mapping[str, Any], weights: Sequence[Weight]) -> dict[str, DType]:
        stored = {weight.name: (weight.dtype, weight.shape) for weight in weights}
        chosen = choose_types(kind, metadata, stored)
        return {name: float32 if d.kind == "q" else d for name, d in chosen.items()}

    return _write(model, out, kind, choose, {}, split_max_size, overwrite, progress)


def _write(
    model: Path_ | Model,
    out: Path_,
    kind: str,
    choose: Callable[[Mapping[str, Any], Sequence[Weight]], dict[str, DType]],
    imatrix: Mapping[str, Array],
    split_max_size: int | None,
    overwrite: bool,
    progress: Progress | None,
) -> list[Path]:
    with open_model(model) as (metadata, weights):
        chosen = choose(metadata, weights)
        rows = [_row(weight, chosen[weight.name], imatrix) for weight in weights]
        known = metadata | {
            "general.quantization_version": _VERSION,
            "general.file_type": np.uint32(FILE_TYPES[kind][0]),
        }
        return write_gguf(
            out, known, rows, overwrite=overwrite, split_max_size=split_max_size, progress=progress
        )


def open_model(model: Path_ | Model) -> AbstractContextManager[tuple[dict[str, Any], list[Weight]]]:
    """(metadata, weights) of a model, in the names and layouts of GGUF."""
    from rushlight.models.gguf.opened import folder_weights, model_weights
    from rushlight.models.hub.names import resolve

    if isinstance(model, Model):
        return model_weights(model)
    place = resolve(model)
    gguf = gguf_in(place)
    return folder_weights(place) if gguf is None else gguf_weights(gguf)


def _row(weight: Weight, dtype: DType, imatrix: Mapping[str, Array]) -> Row:
    importance = imatrix.get(weight.name)
    if importance is not None and dtype.kind == "q" and weight.dtype is not dtype:
        columns, matrices = weight.shape[-1], count_elements(weight.shape[:-2])
        if importance.size == columns * matrices:
            importance = importance.reshape(matrices, columns)
        elif weight.name == "token_embd.weight":  # may be of the head that shares it
            importance = None
        else:
            raise FormatError(
                f"the importance matrix has {importance.size} values for {weight.name!r}, whose "
                f"{matrices} matrices have {columns} columns",
                hint="it was made for another model",
            )
    return Row(weight.name, dtype, weight.shape, partial(_pieces, weight, dtype, importance))


def _pieces(weight: Weight, dtype: DType, importance: Array | None) -> Iterator[Any]:
    """The bytes of a weight as `dtype`, a few rows at a time."""
    tensor = weight.read()
    data = np.ascontiguousarray(tensor.stored()).reshape(-1).view(np.uint8)
    if weight.dtype is dtype or not data.size:
        yield data.data
        return
    columns = weight.shape[-1] if weight.shape else 1
    rows = data.reshape(-1, weight.dtype.nbytes(columns))
    each = weight.shape[-2] if len(weight.shape) > 2 else len(rows)  # rows of a matrix
    step = max(1, _PIECE // max(columns, 1))
    for first in range(0, len(rows), each):
        row_importance = None if importance is None else importance[first // each]
        for begin in range(first, first + each, step):
            piece = rows[begin : min(begin + step, first + each)]
            yield _converted(weight, piece, columns, dtype, row_importance).data


def _converted(
    weight: Weight, piece: Array, columns: int, dtype: DType, importance: Array | None
) -> Array:
    """Rows of bytes of the weight's dtype as contiguous rows of `dtype`."""
    from rushlight.core.basis.encoding import encode as encode_blocks

    stored = Tensor.from_buffer(piece.reshape(-1), weight.dtype, (len(piece), columns))
    with np.errstate(over="ignore"):
        values = stored.float().numpy()
        if dtype.kind == "q":
            try:
                return encode_blocks(dtype, values, importance)
            except ValueError as error:
                raise FormatError(f"tensor {weight.name!r}: {error}") from None
        if dtype is float32:
            return np.ascontiguousarray(values)
        encoded = encode_float(dtype, values) if dtype.encoded else values.astype(dtype.numpy)
    if dtype is float16 and not np.isfinite(encoded[np.isfinite(values)]).all():
        raise FormatError(
            f"tensor {weight.name!r} has a value that is too large for float16", hint="use bf16"
        )
    return np.ascontiguousarray(encoded)
