"""Train a small network (MLP) to tell two interleaved spirals apart.

python examples/spirals.py [--device webgpu]
"""

from __future__ import annotations

import argparse
import math

import rushlight as rl
from rushlight import Tensor, nn


def spirals(count: int, device: str) -> tuple[Tensor, Tensor]:
    """Points (count, 2) in the plane, and the spiral of each, 0 or 1, (count,)."""
    label = rl.arange(count, dtype=rl.int32, device=device) % 2
    radius = rl.rand(count, device=device)
    angle = radius * 3.0 * math.pi + label * math.pi
    points = rl.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return points + 0.01 * rl.randn(count, 2, device=device), label


def train(device: str, steps: int = 300) -> float:
    """Train, and print the loss now and then; returns the accuracy on new points."""
    rl.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
    ).to(device)
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.01)
    points, label = spirals(400, device)

    @rl.jit  # forward, backward and update are captured once and replayed
    def step(points: Tensor, label: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(model(points), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for number in range(1, steps + 1):
        loss = step(points, label)
        if number % 100 == 0:
            print(f"step {number}: loss {loss.item():.4f}")
    points, label = spirals(1000, device)
    with rl.no_grad():
        right = model(points).argmax(dim=1) == label
    return float(right.float().mean().item())


def main() -> None:
    """Read the device from the command line, train on it, and print the accuracy."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--device", default="cpu")
    print(f"accuracy on new points: {train(arguments.parse_args().device):.3f}")


if __name__ == "__main__":
    main()
