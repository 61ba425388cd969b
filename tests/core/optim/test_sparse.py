"""Row-sparse gradients: torch's trajectories; what they are; who refuses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn

TORCH = json.loads((Path(__file__).parents[1] / "data" / "sparse.json").read_text("utf-8"))


def table(kind: str, device: str = "cpu", **options: Any) -> Any:
    weight = rl.tensor(TORCH["weight"], device=device)
    options = {"padding_idx": 1, "sparse": True, **options}
    return getattr(nn, kind)(6, 4, _weight=weight, **options)


def step(layer: Any, ids: Any, device: str = "cpu") -> None:
    out = layer(rl.tensor(ids, device=device))
    (out.square() * rl.arange(1.0, 5.0, device=device)).sum().backward()


@pytest.mark.parametrize("name", TORCH["options"])
@pytest.mark.parametrize("kind", ["Embedding", "EmbeddingBag"])
def test_optimizers_follow_torchs_course(device: str, kind: str, name: str) -> None:
    layer = table(kind, device)
    make = getattr(rl.optim, name.split()[0])
    optimizer = make(layer.parameters(), **TORCH["options"][name])
    for ids, want in zip(TORCH["ids"] * 2, TORCH[f"{kind} {name}"], strict=True):
        optimizer.zero_grad()
        step(layer, ids, device)
        assert layer.weight.grad.is_sparse
        optimizer.step()
        found = layer.weight.detach().cpu().numpy().ravel()
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-5)


def test_a_sparse_gradient_is_the_dense_one() -> None:
    layer, dense = table("Embedding"), table("Embedding", sparse=False)
    for ids in TORCH["ids"][:2]:  # the second adds to the first
        step(layer, ids)
        step(dense, ids)
    grad = layer.weight.grad
    np.testing.assert_allclose(grad.to_dense().numpy(), dense.weight.grad.numpy(), rtol=1e-6)
    whole = grad.coalesce()
    assert whole.indices().tolist() == [[0, 2, 3, 4, 5]] and whole.values().shape == (5, 4)
    assert not grad.is_coalesced() and whole.is_coalesced() and grad.shape == (6, 4)
    with pytest.raises(RuntimeError, match=r"call \.coalesce\(\) first"):
        grad.indices()
    with pytest.raises(AttributeError, match=r"no 'norm'; take grad.to_dense\(\)"):
        grad.norm()
    (layer.weight * 2).sum().backward()  # a use that is dense
    np.testing.assert_allclose(layer.weight.grad.numpy(), dense.weight.grad.numpy() + 2, rtol=1e-6)
    again: Any = rl.autograd.grad(layer(rl.tensor([4, 4])).sum(), layer.weight)[0]
    assert again.to_dense().sum(1).tolist() == [0, 0, 0, 0, 8, 0]
    layer.weight.grad = again
    rl.optim.SGD([layer.weight]).zero_grad(set_to_none=False)
    assert layer.weight.grad.to_dense().abs().sum().item() == 0


def test_a_scaler_and_a_captured_step_take_them() -> None:
    layer = table("Embedding")
    optimizer = rl.optim.SparseAdam(layer.parameters(), lr=0.1, betas=(0.8, 0.95))
    scaler = rl.amp.GradScaler(init_scale=8.0)

    @rl.jit
    def run(ids: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss: rl.Tensor = (layer(ids).square() * rl.arange(1.0, 5.0)).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    for ids in TORCH["ids"] * 2:
        run(rl.tensor(ids))
    (entry,) = run.executables.values()  # type: ignore[attr-defined]
    assert "sparse gradient" in entry.why
    want = TORCH["Embedding SparseAdam"][-1]
    np.testing.assert_allclose(layer.weight.detach().numpy().ravel(), want, rtol=2e-5, atol=2e-5)


def test_what_does_not_go_with_them_is_named() -> None:
    layer = table("Embedding")
    step(layer, TORCH["ids"][0])
    for make in (rl.optim.Adam, rl.optim.AdamW, rl.optim.RMSprop, rl.optim.Muon):
        name = make.__name__
        with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients"):
            make(layer.parameters()).step()
    with pytest.raises(RuntimeError, match="weight_decay option is not compatible"):
        rl.optim.Adagrad(layer.parameters(), weight_decay=0.1).step()
    dense = rl.ones(2, requires_grad=True)
    dense.sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        rl.optim.SparseAdam([dense]).step()
    ids = rl.tensor([[0, 1]])
    with pytest.raises(RuntimeError, match="scale_grad_by_freq is not supported"):
        table("Embedding", scale_grad_by_freq=True)(ids)
    with pytest.raises(ValueError, match="max mode does not support sparse weights"):
        table("EmbeddingBag", mode="max")(ids)
    with pytest.raises(RuntimeError, match="sparse=True is for a leaf"):
        nn.functional.embedding(ids, layer.weight * 2, sparse=True)
    with pytest.raises(RuntimeError, match="is not differentiated"):
        rl.autograd.grad(layer(ids).sum(), layer.weight, create_graph=True)
