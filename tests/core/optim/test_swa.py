"""Averages of weights: means and exponential ones, buffers, and batch statistics anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn

swa_utils = rl.optim.swa_utils

EMA = 0.9
WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "mean": ({}, "mean"),
    "swa": ({"avg_fn": swa_utils.get_swa_avg_fn()}, "mean"),
    "multi swa": ({"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}, "mean"),
    "ema": ({"avg_fn": swa_utils.get_ema_avg_fn(EMA)}, "ema"),
    "multi ema": ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(EMA)}, "ema"),
}


class Small(nn.Module):
    """A layer, a norm with buffers, and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 4), nn.BatchNorm1d(4)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.norm(self.layer(x))  # type: ignore[no-any-return]


def _change(model: Small, seed: int) -> None:
    draws = np.random.default_rng(seed)
    with rl.no_grad():
        for t in (*model.parameters(), *list(model.buffers())[:2]):
            t.copy_(rl.tensor(draws.normal(size=t.shape).astype(np.float32), device=t.device))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use_buffers", [False, True])
def test_weights_are_averaged(way: str, use_buffers: bool, device: str) -> None:
    options, kind = WAYS[way]
    model = Small().to(device)
    averaged = swa_utils.AveragedModel(model, use_buffers=use_buffers, **options)
    seen = []
    for seed in range(4):
        _change(model, seed)
        averaged.update_parameters(model)
        seen.append(
            {n: t.detach().numpy().astype(np.float64) for n, t in model.state_dict().items()}
        )
    assert int(averaged.n_averaged) == 4
    for name, t in averaged.module.state_dict().items():
        values = [one[name] for one in seen]
        wanted = values[0]
        for value in values[1:]:
            wanted = EMA * wanted + (1 - EMA) * value
        wanted = np.mean(values, 0) if kind == "mean" else wanted
        if "running" in name and not use_buffers:
            wanted = values[-1]
        assert t.device == model.layer.weight.device
        np.testing.assert_allclose(t.detach().numpy(), wanted, rtol=2e-6, atol=2e-6, err_msg=name)
    x = rl.ones(2, 3, device=device)
    averaged.eval()
    with rl.no_grad():
        np.testing.assert_array_equal(averaged(x).numpy(), averaged.module(x).numpy())
    again = swa_utils.AveragedModel(model)
    again.load_state_dict(averaged.state_dict())
    assert int(again.n_averaged) == 4


def test_batch_statistics_are_computed_anew(device: str) -> None:
    model = Small().to(device).eval()
    _change(model, 1)
    draws = np.random.default_rng(2)
    batches = [draws.normal(size=(n, 3)).astype(np.float32) for n in (6, 6, 6)]
    swa_utils.update_bn([(rl.tensor(b), 0) for b in batches], model, device)
    with rl.no_grad():
        hidden = [model.layer(rl.tensor(b, device=device)).numpy() for b in batches]
    means = np.mean([h.mean(0) for h in hidden], 0)
    spread = np.mean([h.var(0, ddof=1) for h in hidden], 0)
    mean, variance = list(model.buffers())[:2]
    np.testing.assert_allclose(mean.numpy(), means, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(variance.numpy(), spread, rtol=1e-5, atol=1e-5)
    assert model.norm.momentum == 0.1 and not model.training
    swa_utils.update_bn([], nn.Linear(1, 1))  # without batch norms nothing is read


def test_averages_refuse_by_name() -> None:
    with pytest.raises(ValueError, match="not both"):
        swa_utils.AveragedModel(nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max)
    for make in (swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn):
        with pytest.raises(ValueError, match="decay is 2"):
            make(2)
