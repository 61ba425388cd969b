"""Make blocks of every quantized dtype and what the `gguf` package dequantizes them to.

    python tests/parity/make_block_goldens.py

Needs gguf, safetensors and the package. Writes tests/core/data/blocks.safetensors: "NAME.bytes"
(rows, bytes per row) and "NAME.values" (rows, columns). The first rows are quantized normal numbers
where gguf can quantize, the rest random bytes under scales that are zero, negative, subnormal and
large.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, quants
from safetensors.numpy import save_file

from rushlight.core.basis.dtype import DTYPES, DType

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


def main() -> None:
    tensors = {}
    for dtype in DTYPES.values():
        if dtype.kind != "q" or dtype.gguf is None:
            continue
        rng = np.random.default_rng(dtype.gguf)
        kind = GGMLQuantizationType(dtype.gguf)
        columns = max(96, 2 * dtype.block)
        try:
            stored = quants.quantize(rng.normal(size=(5, columns)).astype(np.float32), kind)
        except NotImplementedError:
            stored = np.empty((0, dtype.nbytes(columns)), np.uint8)
        more = wild(dtype, ROWS - len(stored), columns // dtype.block, rng)
        stored = np.concatenate([stored, more])
        tensors[f"{dtype.name}.bytes"] = stored
        tensors[f"{dtype.name}.values"] = quants.dequantize(stored, kind).astype(np.float32)
    save_file(tensors, OUT)


if __name__ == "__main__":
    main()
