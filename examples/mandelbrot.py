"""Draw the Mandelbrot set in relief: a custom op in NumPy and WGSL, lit by its gradient.

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
# Iterates z -> z * z + c from 0, with the derivative by c. If |z| exceeds 100 after n steps, the
# results are the smooth count n + 1 - log2(log |z|) and its slopes; otherwise all are 0. The count
# follows from the potential in H.-O. Peitgen, P. Richter, The Beauty of Fractals, 1986.
WGSL = """
fn mandelbrot_orbit(x: f32, y: f32) -> vec3<f32> {
  var z = vec2<f32>();
  var d = vec2<f32>();
  for (var k = 0; k < 100; k++) {
    d = 2.0 * vec2<f32>(z.x * d.x - z.y * d.y, z.x * d.y + z.y * d.x) + vec2<f32>(1.0, 0.0);
    z = vec2<f32>(z.x * z.x - z.y * z.y + x, 2.0 * z.x * z.y + y);
    let square = dot(z, z);
    if (square > 10000.0) {
      let log_z = 0.5 * log(square);
      let slope = -1.0 / (square * log_z * 0.6931472);
      let count = f32(k + 2) - log2(log_z);
      return vec3<f32>(count, slope * dot(z, d), slope * (z.y * d.x - z.x * d.y));
    }
  }
  return vec3<f32>();
}
fn mandelbrot(x: f32, y: f32) -> f32 { return mandelbrot_orbit(x, y).x; }
"""


def orbit(x: Any, y: Any) -> Any:
    """The count and its slopes along x and y, (3, ...), as the shader computes them."""
    c = x + 1j * y
    z, d = np.zeros_like(c), np.zeros_like(c)
    result = np.zeros((3, *x.shape))
    with np.errstate(all="ignore"):  # escaped points are iterated further and overflow
        for k in range(STEPS):
            d = 2 * z * d + 1
            z = z * z + c
            new = (result[0] == 0) & (abs(z) > 100)
            log_z = np.log(abs(z))
            rise = -(z.conj() * d) / (abs(z) ** 2 * log_z * np.log(2))
            result[:, new] = np.stack([k + 2 - np.log2(log_z), rise.real, -rise.imag])[:, new]
    return result


def slopes(grad: rl.Tensor, x: rl.Tensor, y: rl.Tensor, out: rl.Tensor) -> Any:
    """The gradient rule: two more custom ops."""
    return grad * slope_x(x, y), grad * slope_y(x, y)


mandelbrot = rl.custom_op(
    "mandelbrot", numpy=lambda x, y: orbit(x, y)[0], wgsl=WGSL, gradient=slopes
)
slope_x = rl.custom_op(
    "mandelbrot_x",
    numpy=lambda x, y: orbit(x, y)[1],
    wgsl="fn mandelbrot_x(x: f32, y: f32) -> f32 { return mandelbrot_orbit(x, y).y; }",
)
slope_y = rl.custom_op(
    "mandelbrot_y",
    numpy=lambda x, y: orbit(x, y)[2],
    wgsl="fn mandelbrot_y(x: f32, y: f32) -> f32 { return mandelbrot_orbit(x, y).z; }",
)


def picture(size: int, device: str) -> rl.Tensor:
    """The light in [0, 1] on the relief over [-2, 0.75] x [-1.1, 1.1], (size, 5 * size / 4)."""
    x = rl.linspace(-2, 0.75, size * 5 // 4, device=device).expand(size, -1).clone()
    y = rl.linspace(-1.1, 1.1, size, device=device).unsqueeze(1).expand(-1, x.shape[1]).clone()
    height = mandelbrot(x.requires_grad_(), y.requires_grad_())
    height.sum().backward()
    assert x.grad is not None and y.grad is not None
    steep = (x.grad * x.grad + y.grad * y.grad + 1e-12).sqrt()
    light = 0.5 - 0.35 * (x.grad + y.grad) / steep
    return rl.where(height.detach() > 0, light, 0.0)


def main() -> None:
    """Read the command line, draw, and write the picture."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--size", type=int, default=64, help="rows of the picture")
    arguments.add_argument("--out", type=Path, help="write a grey picture (PGM)")
    args = arguments.parse_args()
    began = time.perf_counter()
    light = picture(args.size, args.device).cpu().numpy()
    print(f"{light.shape[1]} x {light.shape[0]} points in {time.perf_counter() - began:.3f} s")
    if args.out:
        head = f"P5 {light.shape[1]} {light.shape[0]} 255\n".encode()
        args.out.write_bytes(head + (255 * light).astype(np.uint8).tobytes())
    for row in light[:: max(1, args.size // 24)]:
        few = row[:: max(1, args.size // 48)]
        print("".join(" .:-=+*%@"[int(8.9 * v)] if v else "#" for v in few))


if __name__ == "__main__":
    main()
