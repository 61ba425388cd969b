"""Whole trainings: a spiral everywhere, handwritten digits natively; memory stays flat."""

from __future__ import annotations

import gc
import itertools
import math
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, optim

F = nn.functional


class MLP(nn.Module):
    def __init__(self, inputs: int, width: int, classes: int) -> None:
        self.fc1 = nn.Linear(inputs, width)
        self.fc2 = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(width, classes)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        x = F.relu(self.fc1(x))
        x = self.drop(F.relu(self.fc2(x)))
        return self.head(x)  # type: ignore[no-any-return]


def train(
    model: nn.Module, made: optim.Optimizer, x: rl.Tensor, y: rl.Tensor, epochs: int, size: int
) -> list[float]:
    """Losses, one per epoch."""
    losses = []
    model.train()
    for _ in range(epochs):
        order, total = rl.randperm(len(x), device=x.device), 0.0
        for at in order.split(size):
            made.zero_grad()
            loss = F.cross_entropy(model(x[at]), y[at])
            loss.backward()
            made.step()
            total += loss.item() * len(at)
        losses.append(total / len(x))
    return losses


def accuracy(model: nn.Module, x: rl.Tensor, y: rl.Tensor) -> float:
    with rl.no_grad():
        return float((model.eval()(x).argmax(1) == y).float().mean().item())


def spiral(count: int, device: str) -> tuple[rl.Tensor, rl.Tensor]:
    """Points (n, 2) on three arms of a spiral, and the arm of each."""
    turn = rl.rand(3, count) * 0.95 + 0.05
    angle = turn * 4 + rl.tensor([[0.0], [1.0], [2.0]]) * (2 * math.pi / 3)
    angle = angle + rl.randn(3, count) * 0.1
    points = rl.stack([turn * angle.cos(), turn * angle.sin()], -1).reshape(-1, 2)
    return points.to(device), rl.arange(3).repeat_interleave(count, 0).to(device)


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_a_network_learns_a_spiral(kind: str, device: str) -> None:
    rl.manual_seed(0)
    x, y = spiral(100, device)
    model = MLP(2, 32, 3).to(device)
    made: optim.Optimizer = (
        optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        if kind == "sgd"
        else optim.AdamW(model.parameters(), lr=0.01)
    )
    assert accuracy(model, x, y) < 0.6
    losses = train(model, made, x, y, 40, 50)
    assert losses[-1] < 0.3 * losses[0]
    held = spiral(100, device)
    assert accuracy(model, *held) > 0.93


def test_training_is_the_same_for_the_same_seed(device: str) -> None:
    def run() -> list[float]:
        rl.manual_seed(9)
        x, y = spiral(20, device)
        model = MLP(2, 8, 3).to(device)
        return train(model, optim.AdamW(model.parameters()), x, y, 3, 16)

    assert run() == run()


def test_a_convolutional_network_learns_which_way_a_bar_lies(device: str) -> None:
    rl.manual_seed(1)
    x = rl.randn(64, 1, 8, 8) * 0.5
    for i in range(64):
        row = i // 2 % 8
        if i % 2:
            x[i, 0, row] = x[i, 0, row] + 2
        else:
            x[i, 0, :, row] = x[i, 0, :, row] + 2
    x, y = x.to(device), (rl.arange(64) % 2).to(device)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3),
        nn.GroupNorm(2, 8),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8, 2),
    ).to(device)
    train(model, optim.AdamW(model.parameters(), lr=0.02), x, y, 8, 16)
    assert accuracy(model, x, y) > 0.95


def nodes() -> int:
    """How many recorded ops are alive."""
    return sum(isinstance(o, rl.autograd.graph.Node) for o in gc.get_objects())


def away_from_loops(work: Callable[[], list[int]]) -> list[int]:
    """What `work` gives, in a thread that has no event loop.

    wgpu-py hands every read to the loop of its thread as well; one that stands still, as that of a
    browser test in the same process does, keeps them all.
    """
    if sys.platform == "emscripten":  # no threads, and the loop runs
        return work()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_memory_stays_flat_over_a_hundred_steps(device: str) -> None:
    rl.manual_seed(0)
    x, y = spiral(20, device)
    model = nn.Sequential(nn.Linear(2, 16), nn.GELU(), nn.Linear(16, 3)).to(device)
    # SGD works with the same numbers in every step; those of AdamW's bias corrections go through
    # a cache that fills up slowly.
    made = optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True)

    def steps(count: int) -> int:
        for _ in range(count):
            made.zero_grad()
            F.cross_entropy(model(x), y, label_smoothing=0.1).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            made.step()
        rl.device(device).synchronize()  # nothing waits that holds memory
        # Whatever only the collector could free is still there: it was switched off.
        assert nodes() == others
        gc.collect()  # empties the interpreter's lists of spare tuples and floats
        return tracemalloc.get_traced_memory()[0]

    gc.collect()
    others = nodes()
    gc.disable()
    tracemalloc.start()
    try:
        sizes = away_from_loops(lambda: [steps(10), *(steps(25) for _ in range(4))])
    finally:
        tracemalloc.stop()
        gc.enable()
    # The graph of one step holds over 30,000 bytes. What else the process keeps falls into one
    # stretch or another; what the steps keep is in each of them.
    grown = [after - before for before, after in itertools.pairwise(sizes)]
    assert min(grown) < 500, grown  # 20 bytes a step


def test_adamw_leaves_no_graph_behind(device: str) -> None:
    x, y = spiral(20, device)
    model = MLP(2, 16, 3).to(device)
    made = optim.AdamW(model.parameters())
    gc.collect()
    gc.disable()
    try:
        others = nodes()
        train(model, made, x, y, 5, 20)
        assert nodes() == others
    finally:
        gc.enable()


@pytest.mark.native
def test_a_network_learns_handwritten_digits(device: str) -> None:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    from sklearn.model_selection import train_test_split  # type: ignore[import-untyped]

    digits = load_digits()
    parts = train_test_split(
        (digits.data / 16).astype(np.float32),
        digits.target.astype(np.int64),
        test_size=0.25,
        random_state=0,
        stratify=digits.target,
    )
    x, held_x, y, held_y = (rl.from_numpy(p).to(device) for p in parts)
    rl.manual_seed(0)
    model = MLP(64, 128, 10).to(device)
    train(model, optim.AdamW(model.parameters(), lr=3e-3), x, y, 20, 64)
    assert accuracy(model, held_x, held_y) >= 0.96
