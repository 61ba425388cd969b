"""Multiply two matrices on a device, print the speed, and compare with NumPy.

python examples/matmul.py [--device webgpu] [--size 512] [--dtype float32]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import rushlight as rl


def main() -> None:
    """Read the command line, multiply a few times, print the result."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--size", type=int, default=512, help="rows and columns")
    arguments.add_argument("--dtype", default="float32", choices=["float32", "float16"])
    args = arguments.parse_args()
    device, n = rl.device(args.device), args.size
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal((n, n)).astype(args.dtype) for _ in range(2)]
    a, b = (rl.from_numpy(x).to(device) for x in arrays)

    c = a @ b  # the first call also compiles the kernel
    device.synchronize()
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        c = a @ b
        device.synchronize()  # waits for the GPU, which works asynchronously
        seconds.append(time.perf_counter() - began)
    took = statistics.median(seconds)

    want = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)
    error = np.abs(c.float().cpu().numpy() - want).max() / np.abs(want).max()
    print(f"{n} x {n} {args.dtype} on {args.device} ({device.info['device']})")
    print(f"{1000 * took:.2f} ms, {2e-9 * n**3 / took:.1f} GFLOP/s, largest error {error:.1e}")


if __name__ == "__main__":
    main()
