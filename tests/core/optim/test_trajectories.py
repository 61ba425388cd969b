"""Every optimizer with its options follows torch for 50 steps; its state is torch's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.core.optim import trajectory

import rushlight as rl
from rushlight import nn, optim

DATA = Path(__file__).parents[1] / "data" / "optim_goldens.json"
GOLDENS: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
CASES = GOLDENS["optimizers"]
# webgpu runs one case of each optimizer with most of its options.
SAMPLE = [max((c for c in CASES if c.startswith(n + "(")), key=len)
          for n in dict.fromkeys(c.split("(")[0] for c in CASES)]  # fmt: skip
# Its bfloat16 products are rounded by other sums than torch's.
LOOSE = {"Muon": 3e-3}


def made_of(text: str, params: list[Any]) -> optim.Optimizer:
    made: optim.Optimizer = eval(text, {**vars(optim), "ps": params})
    return made


def follow(text: str, dtype: rl.dtype, device: str, most: float) -> optim.Optimizer:
    """Run 50 steps; the parameters are at most `most` times their size away from torch's."""
    most = max(most, LOOSE.get(text.split("(")[0], 0.0))
    ps = [nn.Parameter(p.to(device)) for p in trajectory.start(rl, dtype)]
    made = made_of(text, ps)
    expected = iter(CASES[text]["trace"])
    for step in range(trajectory.STEPS):
        trajectory.feed(rl, ps, step)
        made.step()
        if step + 1 in trajectory.SHOWN:
            for p, values in zip(ps, next(expected), strict=True):
                actual = np.array(p.detach().cpu().flatten().tolist())
                error = np.abs(actual - values) / max(1.0, np.abs(values).max())
                assert error.max() <= most, f"after step {step + 1}"
    return made


@pytest.mark.parametrize("text", CASES)
def test_fifty_steps_in_float64(text: str) -> None:
    made = follow(text, rl.float64, "cpu", 1e-10)
    state = made.state_dict()
    found = {str(n): {k: list(v.shape) for k, v in s.items()} for n, s in state["state"].items()}
    theirs = CASES[text]["state"]
    assert found == {n: {k: v[0] for k, v in s.items()} for n, s in theirs.items()}
    assert sorted(state["param_groups"][0]) == CASES[text]["keys"]
    loose = 1e-2 if text.startswith("Muon") else 1e-6
    for number, kept in state["state"].items():
        for key, value in kept.items():
            total = theirs[str(number)][key][1]
            assert float(value.sum()) == pytest.approx(total, rel=loose, abs=loose), key


@pytest.mark.parametrize("text", CASES)
def test_fifty_steps_in_float32(text: str) -> None:
    follow(text, rl.float32, "cpu", 1e-5)


@pytest.mark.parametrize("text", SAMPLE)
def test_fifty_steps_on_a_device(text: str, device: str) -> None:
    if device != "cpu":
        follow(text, rl.float32, device, 1e-4)


@pytest.mark.parametrize("text", GOLDENS["schedules"])
def test_rates_of_schedules(text: str) -> None:
    ps = [nn.Parameter(p) for p in trajectory.start(rl, rl.float64)]
    groups: list[dict[str, Any]] = [{"params": ps[:1]}, {"params": ps[1:], "lr": 0.1}]
    o = optim.SGD(groups, lr=0.5)
    made = eval(text, {**vars(optim.lr_scheduler), "o": o})
    for expected in GOLDENS["schedules"][text]:
        assert made.get_last_lr() == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert [g["lr"] for g in o.param_groups] == made.get_last_lr()
        made.step()


@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_plateau_lowers_the_rate(mode: str) -> None:
    o = optim.SGD([nn.Parameter(rl.ones(1))], lr=1.0)
    made = optim.lr_scheduler.ReduceLROnPlateau(o, mode, 0.5, patience=1, cooldown=1, min_lr=0.2)
    rates = []
    for value in (4.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 2.0, 2.0, 2.0):
        made.step(value if mode == "min" else 1 / value)
        rates += made.get_last_lr()
    assert rates == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2]  # torch's
