"""Train a small network to tell two interleaved spirals apart, with nothing but NumPy installed.

python examples/spirals.py
"""

from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor, nn


def spirals(count: int) -> tuple[Tensor, Tensor]:
    """Points (count, 2) in the plane, and which of the two spirals each lies on (count,)."""
    label = rl.arange(count) % 2
    radius = rl.rand(count)
    angle = radius * 3.0 * math.pi + label * math.pi
    points = rl.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return points + 0.01 * rl.randn(count, 2), label


def train(steps: int = 300) -> float:
    """Train, printing the loss now and then; the share of new points that come out right."""
    rl.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
    ).init_()
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.01)
    points, label = spirals(400)
    for step in range(1, steps + 1):
        loss = nn.functional.cross_entropy(model(points), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    points, label = spirals(1000)
    with rl.no_grad():
        right = model(points).argmax(dim=1) == label
    return float(right.float().mean().item())


if __name__ == "__main__":
    print(f"accuracy on new points: {train():.3f}")
