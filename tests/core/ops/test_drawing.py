"""Draws of several distributions: bounds, means, shapes, and how they are called."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl

torch: Any = rl  # the stubs have no second names of arguments


def _mean(x: rl.Tensor) -> float:
    return float(x.float().mean().item())


def test_numbers_written_over_a_tensor(device: str) -> None:
    rl.manual_seed(3)
    x: Any = rl.empty(4000, device=device)
    u = x.clone().uniform_(2, 5)
    assert 2 <= u.amin().item() and u.amax().item() <= 5 and abs(_mean(u) - 3.5) < 0.1
    assert x.clone().uniform_(**{"from": -1.0, "to": 0.0}).amax().item() <= 0
    assert abs(_mean(x.clone().normal_(2.0, 0.5)) - 2) < 0.05
    assert abs(_mean(x.clone().exponential_(2.0)) - 0.5) < 0.05
    assert abs(x.clone().cauchy_(1.0, 0.5).median().item() - 1) < 0.1
    assert abs(_mean(x.clone().log_normal_(0.0, 0.5).log())) < 0.05
    trials = x.clone().geometric_(0.25)
    assert trials.amin().item() == 1 and abs(_mean(trials) - 4) < 0.4
    assert {*x.clone().random_(1, 4).tolist()} == {1, 2, 3}
    assert abs(_mean(x.clone().bernoulli_(0.25)) - 0.25) < 0.05
    with pytest.raises(ValueError, match="exponential_: lambd is 0"):
        x.exponential_(0)
    with pytest.raises(TypeError, match="uniform_: int64 is not a floating dtype"):
        rl.zeros(2, dtype="int64", device=device).uniform_()


def test_draws_by_probabilities(device: str) -> None:
    rl.manual_seed(5)
    p = rl.tensor([0.0, 0.5, 1.0], device=device)
    drawn = rl.stack([rl.bernoulli(p) for _ in range(60)])
    assert drawn[:, 0].sum().item() == 0 and drawn[:, 2].sum().item() == 60
    assert 10 < drawn[:, 1].sum().item() < 50
    weights = rl.tensor([[0.0, 1.0, 3.0], [2.0, 1.0, 1.0]], device=device)
    rows = rl.multinomial(weights, 2)
    assert rows.shape == (2, 2) and sorted(rows[0].tolist()) == [1, 2]
    assert len({*rows[1].tolist()}) == 2
    many = rl.multinomial(weights[0], 400, True)
    assert {*many.tolist()} == {1, 2} and 240 < (many == 2).sum().item() < 360
    with pytest.raises(ValueError, match="num_samples 4 of 3 without replacement"):
        rl.multinomial(weights, 4)
    mean = rl.normal(rl.full((2000,), 3.0, device=device), 0.5)
    assert abs(_mean(mean) - 3) < 0.1 and rl.normal(0.0, 1.0, (2, 3)).shape == (2, 3)
    like = rl.randint_like(weights, 4, 6)
    assert (
        like.dtype is rl.float32 and like.shape == (2, 3) and {*like.reshape(-1).tolist()} <= {4, 5}
    )


def test_other_names_of_arguments(device: str) -> None:
    x = rl.arange(6, device=device).reshape(2, 3).float()
    assert torch.slice(x, 1, 1, 3, 2).tolist() == [[1.0], [4.0]]
    out = rl.empty(0, device=device)
    assert torch.add(input=x, other=x, out=out) is out and out.shape == (2, 3)
    values, places = rl.empty(2, device=device), rl.empty(2, dtype="int64", device=device)
    found = torch.max(x, axis=1, out=(values, places))
    assert found.values is values and places.tolist() == [2, 2]
    with pytest.raises(TypeError, match="add: float32 does not fit out=int64"):
        torch.add(x, x, out=places)
    with pytest.raises(RuntimeError, match="out= is not differentiated"):
        torch.exp(x.requires_grad_(), out=out)
    with pytest.raises(ValueError, match="reach element 8 of memory of 6"):
        x.detach().as_strided((3, 3), (3, 1))
