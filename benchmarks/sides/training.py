"""A contender that trains, in a process of its own: Rushlight or PyTorch, step by step or compiled.

    python benchmarks/sides/training.py THREADS CONTENDER

Lines of JSON come in, [call, arguments]; the result of each call goes out as a line.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib import import_module
from typing import Any

import numpy as np

Watch: Any = import_module("python").Watch  # of this folder
THREADS, CONTENDER = int(sys.argv[1]), sys.argv[2]
VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 96, 128, 128, 4, 4


def cnn(nn: Any) -> Any:
    """Two convolutions and two layers, for images of 28 by 28."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def gpt(nn: Any) -> Any:
    """A language model of four layers, 128 wide."""

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.mlp = nn.Sequential(
                nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
            )

        def forward(self, x: Any) -> Any:
            parts = self.qkv(self.norms[0](x)).split(WIDTH, -1)
            q, k, v = (t.reshape(*t.shape[:2], HEADS, -1).transpose(1, 2) for t in parts)
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
            return x + self.mlp(self.norms[1](x))

    class Gpt(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

        def forward(self, ids: Any) -> Any:
            x = self.token(ids) + self.place.weight
            return self.head(self.norm(self.blocks(x))).reshape(-1, VOCABULARY)

    return Gpt()


class Trainer:
    """Training steps of one library, on its own AdamW; the same numbers for every contender."""

    def __init__(self) -> None:
        name, _, how = CONTENDER.partition(" ")
        self.xp: Any = import_module(name)
        self.xp.set_num_threads(THREADS)
        self.compiled = how == "compiled"

    def about(self) -> dict[str, str]:
        """Versions."""
        library = CONTENDER.partition(" ")[0]
        return {"python": platform.python_version(), library: str(self.xp.__version__)}

    def prepare(self, kind: str) -> None:
        """Make a network with its batches."""
        xp, nn = self.xp, self.xp.nn
        draws = np.random.default_rng(0)
        model = cnn(nn) if kind == "cnn" else gpt(nn)
        with xp.no_grad():
            for p in model.parameters():
                values = draws.normal(size=tuple(p.shape)) * (0.05 if p.ndim > 1 else 0.0)
                values += 1.0 if p.ndim == 1 and kind == "gpt" and p.shape[0] == WIDTH else 0.0
                p.copy_(xp.tensor(values.astype(np.float32)))
        x: Any
        if kind == "cnn":
            x = draws.normal(size=(8, 64, 1, 28, 28)).astype(np.float32)
            y = draws.integers(0, 10, (8, 64))
        else:
            ids = draws.integers(0, VOCABULARY, (8, 16, LENGTH + 1))
            x, y = ids[:, :, :-1].copy(), ids[:, :, 1:].reshape(8, -1).copy()
        self.batches = [(xp.tensor(a), xp.tensor(b)) for a, b in zip(x, y, strict=True)]
        self.number = 0
        optimizer = xp.optim.AdamW(model.parameters(), lr=1e-3)
        loss_of = nn.CrossEntropyLoss()

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        if self.compiled and CONTENDER.startswith("torch"):
            model = xp.compile(model)  # `step` finds it; backward and step stay torch's own
        self.step = xp.jit(step) if self.compiled and not CONTENDER.startswith("torch") else step

    def steps(self, count: int) -> dict[str, float]:
        """The time of a step, from `count` in a row, and the last loss."""
        watch = Watch()
        for _ in range(count):
            loss = self.step(*self.batches[self.number % len(self.batches)])
            self.number += 1
        value = float(loss.item())
        return {**watch.read("", count), "loss": value}


if __name__ == "__main__":
    contender = Trainer()
    for line in sys.stdin:
        call, arguments = json.loads(line)
        print(json.dumps(getattr(contender, call)(**arguments)), flush=True)
