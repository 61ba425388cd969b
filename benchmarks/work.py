"""The ops that benchmarks/ops.py times, in a Python process and in the tab."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import rushlight as rl


class Job(NamedTuple):
    """An op that runs `times` times between two waits."""

    run: Callable[[], Any]
    times: int
    flops: float  # of one run
    nbytes: float  # bytes that one run must read and write


def _quantized(rng: np.random.Generator, rows: int, columns: int) -> rl.Tensor:
    """A random q4_1 weight: 20 bytes for 32 elements, scale and least value first."""
    blocks = rng.integers(0, 256, (rows * columns // 32, 20), dtype=np.uint8)
    blocks[:, :4] = np.array([0.01, -0.08], np.float16).view(np.uint8)
    return rl.Tensor.from_buffer(blocks.reshape(-1), rl.q4_1, (rows, columns))


def jobs(device: str) -> dict[str, Job]:
    """The ops by name. Shapes are SmolLM2-135M's; prompts have 120 tokens."""
    rng = np.random.default_rng(0)

    def tensor(*shape: int) -> rl.Tensor:
        return rl.from_numpy(rng.standard_normal(shape, np.float32)).to(device)

    def check(got: rl.Tensor, expected: np.ndarray) -> None:
        off = np.abs(got.numpy() - expected).max()
        if not off <= 1e-4 * np.abs(expected).max():
            raise SystemExit(f"off by {off}")

    by_name: dict[str, Job] = {}
    for rows, shapes in (
        (1, ((576, 576), (1536, 576), (576, 1536), (49152, 576))),
        (120, ((576, 576), (1536, 576), (576, 1536))),
    ):
        for out, taken in shapes:
            stored, x = _quantized(rng, out, taken), tensor(rows, taken)
            weight = stored.to(device)
            exact = x.numpy().astype(np.float64) @ stored.to(rl.float32).numpy().T
            check(rl.linear(x, weight), exact)
            by_name[f"linear {rows}x{taken} to {out}, q4_1"] = Job(
                lambda x=x, weight=weight: rl.linear(x, weight),  # type: ignore[misc]
                50 if rows * out < 10000 else 4,
                2.0 * rows * taken * out,
                weight.nbytes + 4.0 * rows * (taken + out),
            )
    for queries, keys in ((1, 512), (120, 120)):
        q, k, v = tensor(1, 9, queries, 64), tensor(1, 3, keys, 64), tensor(1, 3, keys, 64)
        by_name[f"attention {queries} on {keys}"] = Job(
            lambda q=q, k=k, v=v: rl.attention(q, k, v, causal=q.shape[2] > 1),  # type: ignore[misc]
            20 if queries == 1 else 4,
            4.0 * 9 * 64 * queries * keys,
            4.0 * (2 * 9 * 64 * queries + 2 * 3 * 64 * keys),
        )
    x, scale = tensor(120, 576), tensor(576)
    by_name["rms_norm 120x576"] = Job(
        lambda: rl.rms_norm(x, 576, scale), 20, 4.0 * 120 * 576, 8.0 * 120 * 576
    )
    a, b = tensor(512, 512), tensor(512, 512)
    by_name["matmul 512"] = Job(lambda: a @ b, 2, 2.0 * 512**3, 12.0 * 512**2)
    tiny = tensor(16)

    def chain() -> None:
        y = tiny
        for _ in range(500):
            y = y + 1.0

    by_name["500 additions to 16 numbers"] = Job(chain, 1, 8000.0, 64000.0)
    return by_name


def measure(device: str, rounds: int) -> dict[str, Any]:
    """Milliseconds of each op in each round, one after the other, warm; what the device is."""
    todo = jobs(device)
    where = rl.device(device)
    samples: dict[str, list[float]] = {name: [] for name in todo}
    for turn in range(rounds + 1):
        for name, job in todo.items():
            began = time.perf_counter()
            for _ in range(job.times):
                job.run()
            where.synchronize()
            if turn:
                samples[name].append((time.perf_counter() - began) * 1000 / job.times)
    return {
        "milliseconds": samples,
        "flops": {name: job.flops for name, job in todo.items()},
        "nbytes": {name: job.nbytes for name, job in todo.items()},
        "versions": {
            "numpy": np.__version__,
            "rushlight": rl.version.rushlight,
            "adapter": where.info["device"],
        },
    }
