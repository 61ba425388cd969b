"""Matrix products on the machine's WebGPU adapter, in all tile configurations.

    python benchmarks/matmul_native.py

On a CPU adapter (llvmpipe) it measures small float32 products beside NumPy, for the record. On a
GPU it measures float32 and float16 products of 4096 as fractions of the vendor's library without
tensor cores (torch, if installed, float32 with TF32 off). It also measures quantized matrix-vector
products as fractions of the bandwidth of a copy. It prints card and driver.

Results are compared with sums in float64, to 1e-5 times the square root of the sums' length for
float32 operands, and to 2e-3 of the largest for float16 results.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from measure import markdown, run, step

import rushlight as rl
from rushlight.core.backends.webgpu.lowering.products import gemm

ROUNDS = 5
CPU_SIZES = [(256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (384, 1000, 700)]
GPU_SIZE = (4096, 4096, 4096)
MATVEC = (4096, 14336)  # rows and columns of the weight


def timed(works: dict[str, Callable[[], Any]], wait: Callable[[], Any], times: int = 1) -> Any:
    """Milliseconds of each function in each round. They take turns, warm."""
    samples: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(ROUNDS + 1):
        for name, work in works.items():
            began = time.perf_counter()
            for _ in range(times):
                work()
            wait()
            if turn:
                samples[name].append((time.perf_counter() - began) * 1000 / times)
    return samples


def forced(config: str, work: Callable[[], rl.Tensor]) -> Callable[[], rl.Tensor]:
    """Runs `work` with products in this configuration."""

    def call() -> rl.Tensor:
        gemm.forced[:] = [config]
        try:
            return work()
        finally:
            gemm.forced.clear()

    return call


def compare(got: rl.Tensor, a: np.ndarray, b: np.ndarray, what: str) -> None:
    """Stop if rows of a product differ from sums in float64."""
    rows = [i * (a.shape[0] - 1) // 3 for i in range(4)]
    exact = a[rows].astype(np.float64) @ b.astype(np.float64)
    off = np.abs(got[rl.tensor(rows, device=got.device)].to(rl.float32).numpy() - exact).max()
    narrow = got.dtype is rl.float16
    allowed = 2e-3 * np.abs(exact).max() if narrow else 1e-5 * a.shape[1] ** 0.5
    if not off <= allowed:
        raise SystemExit(f"{what}: off by {off}, {allowed} is allowed")


def products(size: tuple[int, int, int], dtype: rl.DType, times: int, peers: Any) -> dict[str, Any]:
    """A size in the default and every other configuration, and in `peers`."""
    n, k, m = size
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, s).astype(np.float32) for s in ((n, k), (k, m)))
    x, y = (rl.from_numpy(v).to("webgpu").to(dtype) for v in (a, b))
    a, b = (v.to(rl.float32).numpy() for v in (x, y))
    device = rl.device("webgpu")
    info = device.info
    # Configurations for few rows would take minutes; on a CPU the others, too.
    small = n * k * m <= 256**3
    names = [c for c in gemm.CONFIGS if small or not c.startswith("row")]
    if info["type"] == "CPU" and n > 512:
        names = []
    if "subgroups" not in info["features"]:
        names = [c for c in names if c != "quads"]
    works: dict[str, Callable[[], Any]] = {"default": lambda: x @ y}
    works |= {name: forced(name, lambda: x @ y) for name in names}
    with step(f"{dtype.name} {'x'.join(map(str, size))}"):
        for name, work in works.items():
            compare(work(), a, b, name)
        works |= peers(a, b) if peers else {}
        samples = timed(works, device.synchronize, times)
    speed = {name: 2 * n * k * m / median(ms) / 1e6 for name, ms in samples.items()}
    return {
        "size": "x".join(map(str, size)),
        "dtype": dtype.name,
        "gflops": speed,
        "milliseconds": samples,
    }


def vendor() -> dict[str, Any]:
    """GFLOP/s of torch's float32 product on the card without tensor cores, or why there is none."""
    try:
        import torch
    except ImportError:
        return {"note": "torch is not installed"}
    if not torch.cuda.is_available():
        return {"note": "torch finds no CUDA card"}
    torch.backends.cuda.matmul.allow_tf32 = False
    n = GPU_SIZE[0]
    a, b = (torch.rand(n, n, device="cuda") for _ in range(2))
    samples = timed({"torch": lambda: a @ b}, torch.cuda.synchronize, 10)["torch"]
    return {
        "gflops": 2 * n**3 / median(samples) / 1e6,
        "milliseconds": samples,
        "torch": str(torch.__version__),
        "card": torch.cuda.get_device_name(),
    }


def bandwidth(nbytes: int = 512 << 20) -> dict[str, Any]:
    """GB/s (read and written) of copies of `nbytes` between two buffers."""
    device = rl.device("webgpu")
    port: Any = device.backend.port  # type: ignore[attr-defined]
    size = min(nbytes, port.limits["maxBufferSize"])
    use = port._w.BufferUsage.COPY_SRC | port._w.BufferUsage.COPY_DST
    source, target = (port.device.create_buffer(size=size, usage=use) for _ in range(2))

    def copy() -> None:
        encoder = port.device.create_command_encoder()
        for _ in range(20):
            encoder.copy_buffer_to_buffer(source, 0, target, 0, size)
        port.device.queue.submit([encoder.finish()])

    samples = timed({"copy": copy}, port.check)["copy"]
    return {"gb_per_s": 40 * size / median(samples) / 1e6, "milliseconds": samples}


def matvec(dtype: rl.DType, copied: float) -> list[dict[str, Any]]:
    """One row times quantized weights. The weights in turn exceed the card's cache."""
    rng = np.random.default_rng(0)
    device, rows = rl.device("webgpu"), []
    for out, taken in (MATVEC, MATVEC[::-1]):
        blocks = rng.integers(0, 256, (out * taken // 32, dtype.itemsize), dtype=np.uint8)
        blocks[:, :2] = np.array([0.01], np.float16).view(np.uint8)
        stored = rl.Tensor.from_buffer(blocks.reshape(-1), dtype, (out, taken))
        weights = [stored.to("webgpu") for _ in range(8)]
        x = rl.from_numpy(rng.uniform(-1, 1, (1, taken)).astype(np.float32)).to("webgpu")
        compare(rl.linear(x, weights[0]), x.numpy(), stored.to(rl.float32).numpy().T, dtype.name)

        def work(x: rl.Tensor = x, weights: list[rl.Tensor] = weights) -> None:
            for weight in weights:
                rl.linear(x, weight)

        samples = timed({"linear": work}, device.synchronize, 10)["linear"]
        speed = 8 * stored.nbytes / median(samples) / 1e6
        rows.append(
            {
                "weight": f"{out}x{taken}",
                "dtype": dtype.name,
                "gb_per_s": speed,
                "of_copy": speed / copied,
                "milliseconds": samples,
            }
        )
    return rows


def native(_: argparse.Namespace) -> dict[str, Any]:
    """On the first adapter."""
    info = rl.device("webgpu").info
    result: dict[str, Any] = {
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "adapter": info["device"],
            "driver": info["description"],
        },
    }
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        said = subprocess.run(query, stdout=subprocess.PIPE, text=True)
        result["versions"]["card"] = said.stdout.strip()
    if info["type"] == "CPU":
        numpy: Any = lambda a, b: {"numpy": lambda: a @ b}  # noqa: E731
        result["products"] = [products(size, rl.float32, 1, numpy) for size in CPU_SIZES]
        return result
    result["kept_as"] = "matmul_gpu"  # beside a CPU adapter's figures
    result["vendor"], result["copy"] = vendor(), bandwidth()
    result["products"] = [products(GPU_SIZE, d, 5, None) for d in (rl.float32, rl.float16)]
    for row in result["products"]:
        if "gflops" in result["vendor"]:
            row["of_vendor"] = row["gflops"]["default"] / result["vendor"]["gflops"]
    copied = result["copy"]["gb_per_s"]
    result["matvec"] = [row for d in (rl.q4_0, rl.q8_0) for row in matvec(d, copied)]
    return result


def table(found: dict[str, Any]) -> str:
    """GFLOP/s of each configuration; on a GPU the fractions, too."""
    names = list(dict.fromkeys(n for row in found["products"] for n in row["gflops"]))
    head = [f"{row['dtype']} {row['size']}" for row in found["products"]]
    rows: list[list[object]] = [
        [name, *(row["gflops"].get(name, "") for row in found["products"])] for name in names
    ]
    if "vendor" in found:
        rows.append(["of the vendor's", *(row.get("of_vendor", "") for row in found["products"])])
    told = ", ".join(str(v) for v in found["versions"].values())
    parts = [f"{told}.", markdown(["GFLOP/s", *head], rows)]
    if "matvec" in found:
        copied = found["copy"]["gb_per_s"]
        lines = [
            [f"{r['dtype']} {r['weight']}", r["gb_per_s"], r["of_copy"]] for r in found["matvec"]
        ]
        parts.append(markdown([f"copy: {copied:.0f} GB/s", "GB/s", "of the copy"], lines))
    return "\n\n".join(parts)


if __name__ == "__main__":
    run("matmul_native", __doc__, {"native": native}, table)
