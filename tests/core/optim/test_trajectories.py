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
from rushlight.core.training import checkpoint

DATA = Path(__file__).parents[1] / "data" / "optim_goldens.json"
GOLDENS: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
CASES = GOLDENS["optimizers"]
# webgpu runs one case of each optimizer with most of its options.
SAMPLE = [
    max((c for c in CASES if c.startswith(n + "(")), key=len)
    for n in dict.fromkeys(c.split("(")[0] for c in CASES)
]
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


@pytest.mark.parametrize("way", ["memory", "file", "trainer"])
@pytest.mark.parametrize("text", CASES)
def test_going_on_from_torchs_state(text: str, way: str, tmp_path: Path) -> None:
    """From torch's state after nine steps to torch's parameters after fifty."""
    ps = [
        nn.Parameter(rl.tensor(values, dtype=rl.float64).reshape(p.shape))
        for values, p in zip(CASES[text]["trace"][1], trajectory.start(rl, rl.float64), strict=True)
    ]
    kept = CASES[text]["middle"]
    state = {
        int(n): {k: v if v is None else rl.tensor(v, dtype=rl.float64) for k, v in s.items()}
        for n, s in kept["state"].items()
    }
    made = made_of(text, ps)
    made.load_state_dict({"state": state, "param_groups": kept["param_groups"]})
    if way == "file":
        rl.save(made.state_dict(), tmp_path / "o.pt")
        made = made_of(text, ps)
        made.load_state_dict(rl.load(tmp_path / "o.pt"))
    elif way == "trainer":
        checkpoint.write(tmp_path / "o.safetensors", {"optimizer": made.state_dict()})
        made = made_of(text, ps)
        made.load_state_dict(checkpoint.read(tmp_path / "o.safetensors")["optimizer"])
    for step in range(trajectory.SHOWN[1], trajectory.STEPS):
        trajectory.feed(rl, ps, step)
        made.step()
    most = max(1e-9, LOOSE.get(text.split("(")[0], 0.0))
    for p, values in zip(ps, CASES[text]["trace"][2], strict=True):
        actual = np.array(p.detach().flatten().tolist())
        assert np.abs(actual - values).max() <= most * max(1.0, np.abs(values).max())


@pytest.mark.parametrize("text", SAMPLE)
def test_fifty_steps_on_a_device(text: str, device: str) -> None:
    if device != "cpu":
        follow(text, rl.float32, device, 1e-4)


def follow_closures(text: str, dtype: rl.dtype, device: str, most: float) -> None:
    """Six steps; the losses and parameters are at most `most` away from torch's."""
    ps = [nn.Parameter(p.to(device)) for p in trajectory.start(rl, dtype)]
    made = made_of(text, ps)
    for number, (value, counts, expected) in enumerate(GOLDENS["closures"][text]):
        assert trajectory.close(made, ps) == pytest.approx(value, rel=most, abs=most), number
        state = made.state[ps[0]]
        if dtype is rl.float64:
            assert [state.get(key, 0) for key in ("n_iter", "func_evals")] == counts
        for p, values in zip(ps, expected, strict=True):
            assert p.detach().cpu().flatten().tolist() == pytest.approx(values, rel=most, abs=most)
        if number == 2 and text.startswith("LBFGS"):  # another optimizer goes on
            state_dict = made.state_dict()
            made = made_of(text, ps)
            made.load_state_dict(state_dict)


@pytest.mark.parametrize("text", GOLDENS["closures"])
def test_closures(text: str, device: str) -> None:
    # L-BFGS branches on comparisons, so float32 is compared where it converges, below.
    if device == "cpu":
        follow_closures(text, rl.float64, "cpu", 1e-10)
    elif text.startswith("Adam"):
        follow_closures(text, rl.float32, device, 1e-4)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_finds_the_minimum(search: str | None, device: str) -> None:
    # On webgpu each step is a few readings: the valley is less narrow, and the way is shorter.
    narrow, start, rate = (100, [-1.2, 1.0], 0.1) if device == "cpu" else (2, [0.2, 0.5], 0.5)
    x = nn.Parameter(rl.tensor(start, device=device))
    most = 60 if device == "cpu" else 10
    made = optim.LBFGS(
        [x], lr=1.0 if search else rate, max_iter=most, history_size=12, line_search_fn=search
    )

    def closure() -> rl.Tensor:
        made.zero_grad()
        found = narrow * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
        found.backward()
        return found

    for _ in range(4):
        made.step(closure)
    assert x.detach().tolist() == pytest.approx([1.0, 1.0], abs=5e-3)


def test_lbfgs_says_what_it_needs() -> None:
    x = nn.Parameter(rl.ones(2))
    with pytest.raises(ValueError, match="step needs a closure"):
        optim.LBFGS([x]).step()
    with pytest.raises(ValueError, match="in one group"):
        optim.LBFGS([{"params": [x]}, {"params": [nn.Parameter(rl.ones(1))]}])
    with pytest.raises(ValueError, match="line_search_fn is 'armijo'"):
        optim.LBFGS([x], line_search_fn="armijo")
    made = optim.LBFGS([x])

    @rl.jit
    def step(target: rl.Tensor) -> rl.Tensor:
        def closure() -> rl.Tensor:
            made.zero_grad()
            found = ((x - target) ** 2).sum()
            found.backward()
            return found

        return made.step(closure)  # type: ignore[no-any-return]

    with pytest.warns(UserWarning, match="the step of LBFGS runs uncaptured"):
        assert float(step(rl.zeros(2))) == 2.0
    assert float(step(rl.zeros(2))) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("text", GOLDENS["schedules"])
def test_rates_of_schedules(text: str) -> None:
    ps = [nn.Parameter(p) for p in trajectory.start(rl, rl.float64)]
    groups: list[dict[str, Any]] = [{"params": ps[:1]}, {"params": ps[1:], "lr": 0.1}]
    o = optim.SGD(groups, lr=0.5, momentum=0.7)
    names = {**vars(optim.lr_scheduler), "swa_utils": optim.swa_utils, "o": o}
    made = eval(text, names)
    for number, expected in enumerate(GOLDENS["schedules"][text]):
        momenta = [g["momentum"] for g in o.param_groups]
        found = [*made.get_last_lr(), *momenta]
        assert found == pytest.approx(expected, rel=1e-11, abs=1e-15), number
        assert [g["lr"] for g in o.param_groups] == made.get_last_lr()
        if number == 6:  # another schedule goes on from a saved state
            state = made.state_dict()
            kept = [dict(g) for g in o.param_groups]
            for group in o.param_groups:
                group.update(lr=group["initial_lr"])
            made = eval(text, names)
            made.load_state_dict(state)
            for group, before in zip(o.param_groups, kept, strict=True):
                group.update(before)
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


def test_restarts_between_epochs() -> None:
    o = optim.SGD([nn.Parameter(rl.ones(1))], lr=1.0)
    made = optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2)
    rates = []
    for epoch in (0.5, 1.0, 2.5, 7.0, 13.5):
        made.step(epoch)
        rates += made.get_last_lr()
    falls = [0.5 / 2, 1 / 2, 0.5 / 4, 1 / 8, 7.5 / 8]
    assert rates == pytest.approx([(1 + np.cos(np.pi * x)) / 2 for x in falls])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CosineAnnealingWarmRestarts(o, 0)", "T_0 is 0"),
        ("CyclicLR(o, 0.1, 0.2)", "has neither momentum nor betas"),
        ("CyclicLR(m, [0.1, 0.2], 0.2)", "2 values of base_lr for 1 groups"),
        ("CyclicLR(m, 0.1, 0.2, mode='up')", "mode is 'up'"),
        ("OneCycleLR(m, 0.1)", "total_steps is None"),
        ("OneCycleLR(m, 0.1, 9, pct_start=2)", "pct_start is 2"),
        ("SequentialLR(m, [], [])", "at least one scheduler"),
        ("SequentialLR(m, [ConstantLR(m)], [2])", "1 milestones for 1 schedulers"),
        ("SequentialLR(m, [ConstantLR(o)], [])", "scheduler 0 is of another optimizer"),
        ("ChainedScheduler([ReduceLROnPlateau(m)])", "needs a metric"),
        ("SWALR(m, [0.1, 0.2])", "2 values of swa_lr for 1 groups"),
        ("SWALR(m, 0.1, anneal_strategy='up')", "anneal_strategy is 'up'"),
    ],
)
def test_schedules_refuse_by_name(text: str, words: str) -> None:
    ps = [nn.Parameter(rl.ones(1))]
    names = {**vars(optim.lr_scheduler), **vars(optim.swa_utils)}
    names |= {"o": optim.Adagrad(ps), "m": optim.SGD(ps, 0.1, 0.9)}
    with pytest.raises(ValueError, match=words):
        eval(text, names)
    one = optim.lr_scheduler.OneCycleLR(names["m"], 0.1, 2)
    one.step()
    one.step()
    with pytest.raises(ValueError, match="step 3 of total_steps=2"):
        one.step()
