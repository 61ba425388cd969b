"""Write what torch's optimizers do with sparse gradients of embeddings.

``python tests/parity/make_sparse_goldens.py`` where torch is installed; the file
tests/core/data/sparse.json is read by tests/core/optim/test_sparse.py.
"""

import json
from pathlib import Path
from typing import Any

import torch

OUT = Path(__file__).resolve().parents[1] / "core" / "data" / "sparse.json"
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.1},
    "SGD momentum": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "SGD damped": {"lr": 0.1, "momentum": 0.5, "dampening": 0.3, "maximize": True},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1},
    "SparseAdam": {"lr": 0.1, "betas": (0.8, 0.95)},
}
IDS = [[[0, 3, 3], [1, 5, 0]], [[2, 2, 2], [1, 1, 4]], [[3, 0, 5], [3, 1, 1]]]
WEIGHT = [[(5 * r + 3 * c) % 7 / 3 - 1 for c in range(4)] for r in range(6)]


def course(layer: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[list[float]]:
    """The weights after each step."""
    found = []
    for ids in IDS * 2:
        optimizer.zero_grad()
        out = layer(torch.tensor(ids))
        (out.square() * torch.arange(1.0, 5.0)).sum().backward()
        optimizer.step()
        found.append(layer.weight.detach().flatten().tolist())
    return found


if __name__ == "__main__":
    layers: dict[str, Any] = {
        "Embedding": lambda w: torch.nn.Embedding(6, 4, padding_idx=1, sparse=True, _weight=w),
        "EmbeddingBag": lambda w: torch.nn.EmbeddingBag(
            6, 4, sparse=True, padding_idx=1, _weight=w
        ),
    }
    found: dict[str, Any] = {"ids": IDS, "weight": WEIGHT, "options": OPTIMIZERS}
    for kind, make in layers.items():
        for name, options in OPTIMIZERS.items():
            layer = make(torch.tensor(WEIGHT))
            optimizer = getattr(torch.optim, name.split()[0])(layer.parameters(), **options)
            found[f"{kind} {name}"] = course(layer, optimizer)
    OUT.write_text(json.dumps(found) + "\n")
