"""Draw the Mandelbrot set by a custom op: one NumPy function and one WGSL function.

python examples/mandelbrot.py [--device webgpu] [--size 64] [--out mandelbrot.pgm]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import rushlight as rl

STEPS = 100
WGSL = """
fn mandelbrot(x: f32, y: f32) -> f32 {
  var re = 0.0;
  var im = 0.0;
  for (var k = 0; k < 100; k++) {
    let next = re * re - im * im + x;
    im = 2.0 * re * im + y;
    re = next;
    if (re * re + im * im > 4.0) {
      return f32(k + 1);
    }
  }
  return 0.0;
}
"""


def escape(x: Any, y: Any) -> Any:
    """After how many steps z -> z * z + x + iy leaves the disc of radius 2; 0 for never."""
    re, im = np.zeros_like(x), np.zeros_like(x)
    found = np.zeros_like(x)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(STEPS):
            re, im = re * re - im * im + x, 2 * re * im + y
            found[(found == 0) & (re * re + im * im > 4)] = k + 1
    return found


mandelbrot = rl.custom_op("mandelbrot", numpy=escape, wgsl=WGSL)


def picture(size: int, device: str) -> rl.Tensor:
    """The steps to escape over [-2, 0.75] x [-1.1, 1.1], (size, 5 * size / 4)."""
    x = rl.linspace(-2, 0.75, size * 5 // 4, device=device)
    y = rl.linspace(-1.1, 1.1, size, device=device)
    return mandelbrot(x, y.unsqueeze(1))


def main() -> None:
    """Read the command line, draw, and write the picture."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--size", type=int, default=64, help="rows of the picture")
    arguments.add_argument("--out", type=Path, help="write a grey picture (PGM)")
    given = arguments.parse_args()
    began = time.perf_counter()
    steps = picture(given.size, given.device).cpu().numpy()
    print(f"{steps.shape[1]} x {steps.shape[0]} points in {time.perf_counter() - began:.3f} s")
    if given.out:
        grey = (255 * (1 - np.sqrt(steps / STEPS))).astype(np.uint8) * (steps > 0)
        head = f"P5 {steps.shape[1]} {steps.shape[0]} 255\n".encode()
        given.out.write_bytes(head + grey.astype(np.uint8).tobytes())
    for row in steps[:: max(1, given.size // 24)]:
        few = row[:: max(1, given.size // 48)]
        print("".join(" .:-=+*%@"[min(8, int(n) // 4)] if n else "#" for n in few))


if __name__ == "__main__":
    main()
