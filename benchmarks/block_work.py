"""The products that benchmarks/blocks.py times, in a Python process and in the tab."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.basis.dtype import DTYPES, DType
from rushlight.core.tools.testing import block_draws

WEIGHTS = 8 << 20  # bytes of a type's weights; those of all are more than a processor keeps
COPY = 32 << 20
SHAPES = ((2048, 2048), (576, 1536))


def _weights(dtype: DType, rows: int, columns: int) -> list[rl.Tensor]:
    """Weights that are WEIGHTS bytes together, of a few hundred different blocks."""
    count = rows * columns // dtype.block
    few = block_draws(1, dtype, 200)
    raw = few[np.random.default_rng(1).integers(0, len(few), count)].reshape(-1)
    return [
        rl.Tensor.from_buffer(raw.copy(), dtype, (rows, columns))
        for _ in range(max(1, WEIGHTS // raw.size))
    ]


def _check(x: rl.Tensor, weight: rl.Tensor) -> None:
    values = weight.dequantize().numpy().astype(np.float64)
    inputs = x.numpy().astype(np.float64)
    off = np.abs(rl.linear(x, weight).numpy() - inputs @ values.T)
    if not np.all(off <= 3e-5 * (np.abs(inputs) @ np.abs(values.T))):
        raise SystemExit(f"{weight.dtype.name} is off by {off.max()}")


WARM = 6  # rounds that are dropped: a browser compiles in the meantime


def measure(rounds: int, threads: int) -> dict[str, Any]:
    """Seconds of one product per type, and of a copy, in each round; by shape, mode and threads.

    On one thread they are seconds of processor time, on more of the clock.
    """
    info = rl.device("cpu").info
    result: dict[str, Any] = {"rows": {}, "nbytes": {}, "copied": 2 * COPY}
    source, target = np.ones(COPY, np.uint8), np.empty(COPY, np.uint8)
    for rows, columns in SHAPES:
        x = rl.from_numpy(np.random.default_rng(2).standard_normal((1, columns), np.float32))
        types = [d for d in DTYPES.values() if d.kind == "q" and columns % d.block == 0]
        weights = {dtype.name: _weights(dtype, rows, columns) for dtype in types}
        for mode in ("fast", "exact"):
            rl.set_linear_mode(mode)
            for each in weights.values():
                _check(x, each[0])
            for count in range(1, 1 + (threads if mode == "fast" else 1)):
                rl.set_num_threads(count)
                clock = time.process_time if count == 1 else time.perf_counter
                key = f"{rows}x{columns}, {mode}" + (f", {count} threads" if count > 1 else "")
                samples: dict[str, list[float]] = {name: [] for name in [*weights, "copy"]}
                for turn in range(-WARM, rounds):
                    for name, taken in samples.items():
                        began = clock()
                        if name == "copy":
                            np.copyto(target, source)
                        else:
                            for weight in weights[name]:
                                rl.linear(x, weight)
                        took = clock() - began
                        if turn >= 0:
                            taken.append(took / len(weights.get(name, [name])))
                result["rows"][key] = samples
                result["nbytes"][key] = {name: each[0].nbytes for name, each in weights.items()}
    rl.set_linear_mode("exact")
    result["versions"] = {
        "numpy": np.__version__,
        "rushlight": rl.version.rushlight,
        "kernels": info["kernels"],
    }
    return result
