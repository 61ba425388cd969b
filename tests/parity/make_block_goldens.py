"""Make blocks of every quantized dtype and what the `gguf` package dequantizes them to.

    python tests/parity/make_block_goldens.py

Needs gguf and safetensors. Writes tests/core/data/blocks.safetensors: "NAME.bytes" (rows, bytes per
row) and "NAME.values" (rows, columns). The first rows are quantized normal numbers, the rest random
bytes under scales that are zero, negative, subnormal and large.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, quants
from safetensors.numpy import save_file

OUT = Path(__file__).parents[1] / "core" / "data" / "blocks.safetensors"
NAMES = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
SCALES = (0.0, -0.0, 6e-8, 6.1e-5, -3e-5, 1.0, -0.37, 123.4, 65504.0, -65504.0)
COLUMNS = 96


def main() -> None:
    rng = np.random.default_rng(11)
    tensors = {}
    for name in NAMES:
        kind = GGMLQuantizationType[name.upper()]
        made = quants.quantize(rng.normal(size=(5, COLUMNS)).astype(np.float32), kind)
        size = made.shape[1] // (COLUMNS // 32)
        wild = rng.integers(0, 256, (len(SCALES), COLUMNS // 32, size)).astype(np.uint8)
        for place in (0, 2) if name.endswith("_1") else (0,):
            scales = rng.permutation(np.array(SCALES, np.float16)) if place else SCALES
            for row, scale in zip(wild, scales, strict=True):
                row[:, place : place + 2] = np.frombuffer(np.float16(scale).tobytes(), np.uint8)
        stored = np.concatenate([made, wild.reshape(len(SCALES), -1)])
        tensors[f"{name}.bytes"] = stored
        tensors[f"{name}.values"] = quants.dequantize(stored, kind).astype(np.float32)
    save_file(tensors, OUT)


if __name__ == "__main__":
    main()
