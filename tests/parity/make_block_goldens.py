"""Make blocks of every quantized dtype and what its reference dequantizes them to.

    python tests/parity/make_block_goldens.py

Needs gguf, safetensors and the package. Writes tests/core/data/blocks.safetensors: "NAME.bytes"
(rows, bytes per row) and "NAME.values" (rows, columns). The reference is the `gguf` package; where
it lacks a type, ggml's library; for q8_1, which neither reads, its formula; and for the types that
are not ggml's (code - zero point) * scale. Types of `FULL` have 15 rows, which all tests of
test_blocks.py use: the first are quantized normal numbers where gguf can quantize, the rest random
bytes under scales that are zero, negative, subnormal and large. Other types have two rows;
tests/core/basis/test_quantized_rows.py compares more of them natively.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, quants
from safetensors.numpy import save_file

from rushlight.core.basis.dtype import DTYPES, DType
from rushlight.core.tools.testing import block_draws

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.conftest import ggml_library

FULL = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q6_k"}
OUT = Path(__file__).parents[1] / "core" / "data" / "blocks.safetensors"
SCALES = (0.0, -0.0, 6e-8, 6.1e-5, -3e-5, 1.0, -0.37, 123.4, 65504.0, -65504.0)
ROWS = 15


def wild(dtype: DType, rows: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of random blocks, each row under one of the scales."""
    made = rng.integers(0, 256, (rows, count, dtype.itemsize)).astype(np.uint8)
    floats = [field for field in dtype.fields.values() if field.kind == "f16"]
    for k, field in enumerate(floats):
        scales = np.resize(np.array(SCALES, np.float16), rows)
        for row, scale in zip(made, rng.permutation(scales) if k else scales, strict=True):
            row[:, field.offset : field.offset + 2] = np.frombuffer(scale.tobytes(), np.uint8)
    return made.reshape(rows, -1)


def zeroed(stored: np.ndarray, dtype: DType) -> np.ndarray:
    """The values of rows of blocks of n2_32 to n8_32, by their names: bits, elements of a scale."""
    bits, size = int(dtype.name[1]), int(dtype.name[3:])
    raw = np.ascontiguousarray(stored.reshape(-1, dtype.itemsize))
    count = dtype.block // size
    scale = np.float16 if dtype.name[0] == "h" else np.float32
    at = count * np.dtype(scale).itemsize
    scales = raw[:, :at].copy().view(scale).astype(np.float32)
    if bits == 8:
        values = raw[:, at:].view(np.int8).astype(np.float32)
    else:
        codes, zeros = raw[:, at + count :], raw[:, at : at + count] & ((1 << bits) - 1)
        if bits == 2:
            numbers = codes[..., None] >> np.arange(0, 8, 2) & 3
        else:  # 16 bytes hold 32 numbers, the first 16 in the low bits
            codes = codes.reshape(len(raw), -1, 16)
            numbers = np.concatenate([codes & 15, codes >> 4], 2)
        values = numbers.reshape(len(raw), -1).astype(np.float32) - np.repeat(
            zeros.astype(np.float32), size, axis=1
        )
    return (values * np.repeat(scales, size, axis=1)).reshape(len(stored), -1)


def dequantized(stored: np.ndarray, dtype: DType) -> np.ndarray:
    """The values of rows of blocks by the type's reference, (rows, columns)."""
    if dtype.gguf is None:
        return zeroed(stored, dtype)
    raw = np.ascontiguousarray(stored.reshape(-1, dtype.itemsize))
    if dtype.name == "q8_1":
        scale = raw[:, :2].copy().view(np.float16).astype(np.float32)
        found = scale * raw[:, 4:].view(np.int8)
    else:
        try:
            found = quants.dequantize(raw, GGMLQuantizationType(dtype.gguf))
        except (ValueError, NotImplementedError):
            found = np.empty((len(raw), dtype.block), np.float32)
            name = dtype.name.replace("_k", "_K")
            function = getattr(ggml_library(), f"dequantize_row_{name}")
            places = ctypes.c_void_p(raw.ctypes.data), ctypes.c_void_p(found.ctypes.data)
            function(*places, ctypes.c_int64(found.size))
    return found.astype(np.float32).reshape(len(stored), -1)


def main() -> None:
    tensors = {}
    for dtype in DTYPES.values():
        if dtype.kind != "q":
            continue
        columns = max(96, 2 * dtype.block)
        if dtype.name not in FULL:
            seed = dtype.itemsize if dtype.gguf is None else dtype.gguf
            stored = block_draws(seed, dtype, 2 * columns // dtype.block).reshape(2, -1)
            tensors[f"{dtype.name}.bytes"] = stored
            tensors[f"{dtype.name}.values"] = dequantized(stored, dtype)
            continue
        assert dtype.gguf is not None
        rng = np.random.default_rng(dtype.gguf)
        kind = GGMLQuantizationType(dtype.gguf)
        try:
            stored = quants.quantize(rng.normal(size=(5, columns)).astype(np.float32), kind)
        except NotImplementedError:
            stored = np.empty((0, dtype.nbytes(columns)), np.uint8)
        more = wild(dtype, ROWS - len(stored), columns // dtype.block, rng)
        stored = np.concatenate([stored, more])
        tensors[f"{dtype.name}.bytes"] = stored
        tensors[f"{dtype.name}.values"] = dequantized(stored, dtype)
    save_file(tensors, OUT)


if __name__ == "__main__":
    main()
