"""Schedules go on from saved states: torch's, those of files, and those of a Trainer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.core.basis.errors import LoadError

DATA = Path(__file__).parents[1] / "data" / "optim_goldens.json"
RESUMED: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))["resumed"]
BEFORE = 6  # steps before the states were taken


class Halving:
    """A factor that halves in each call of an epoch that is new to it."""

    def __init__(self) -> None:
        self.seen, self.factor = 0, 1.0

    def __call__(self, epoch: float) -> float:
        if epoch > self.seen:
            self.seen, self.factor = int(epoch), self.factor / 2
        return self.factor


def made_of(text: str) -> tuple[optim.Optimizer, Any]:
    """An optimizer of two groups and its schedule."""
    ps = [nn.Parameter(rl.ones(2)), nn.Parameter(rl.ones(3))]
    groups: list[dict[str, Any]] = [{"params": ps[:1]}, {"params": ps[1:], "lr": 0.1}]
    o = optim.SGD(groups, lr=0.5, momentum=0.7)
    names = {**vars(optim.lr_scheduler), "swa_utils": optim.swa_utils, "Halving": Halving, "o": o}
    return o, eval(text, names)


def advance(made: Any, number: int) -> None:
    """A step of a schedule; a plateau gets a metric."""
    plateau = isinstance(made, optim.lr_scheduler.ReduceLROnPlateau)
    made.step(*[1.0 + number % 4 * 0.1] * plateau)


def rates(o: optim.Optimizer) -> list[float]:
    return [float(g[key]) for key in ("lr", "momentum") for g in o.param_groups]


def counted(state: Any) -> Any:
    """The state as torch has it in memory: the milestones are a Counter of integers."""
    if isinstance(state, dict):
        return {
            k: Counter({int(a): n for a, n in v.items()}) if k == "milestones" else counted(v)
            for k, v in state.items()
        }
    return [counted(v) for v in state] if isinstance(state, list) else state


@pytest.mark.parametrize("text", RESUMED)
@pytest.mark.parametrize("kind", [counted, lambda state: state], ids=["counter", "json"])
def test_schedules_go_on_from_torchs_states(text: str, kind: Callable[[Any], Any]) -> None:
    state, groups, expected = RESUMED[text]
    o, made = made_of(text)
    o.load_state_dict({"state": {}, "param_groups": groups})
    made.load_state_dict(kind(state))
    for number, row in enumerate(expected, BEFORE):
        advance(made, number)
        assert rates(o) == pytest.approx(row, rel=1e-11, abs=1e-15), number


@pytest.mark.parametrize("text", RESUMED)
def test_states_have_what_torch_reads(text: str) -> None:
    state, _, _ = RESUMED[text]
    found = made_of(text)[1].state_dict()
    innards = {"_is_initial", "_get_lr_called_within_step"}
    assert set(state) - innards <= set(found)


@pytest.mark.parametrize("text", RESUMED)
def test_schedules_go_on_from_files(text: str, tmp_path: Path) -> None:
    o, made = made_of(text)
    for number in range(BEFORE):
        advance(made, number)
    path = tmp_path / "run.pt"
    rl.save({"schedule": made.state_dict(), "optimizer": o.state_dict()}, path)
    later, again = made_of(text)
    kept = rl.load(path)
    later.load_state_dict(kept["optimizer"])
    again.load_state_dict(kept["schedule"])
    for number in range(BEFORE, 12):
        advance(made, number)
        advance(again, number)
        assert rates(later) == rates(o), number


def trainer_of(text: str) -> Any:
    rl.manual_seed(3)
    model = nn.Linear(2, 3)
    groups: list[dict[str, Any]] = [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.1}]
    o = optim.SGD(groups, lr=0.05, momentum=0.7)
    names = {**vars(optim.lr_scheduler), "swa_utils": optim.swa_utils, "Halving": Halving, "o": o}
    return rl.training.Trainer(
        model, o, nn.CrossEntropyLoss(), scheduler=eval(text, names), progress=False
    )


@pytest.mark.parametrize("text", RESUMED)
def test_trainers_go_on_with_every_schedule(text: str, tmp_path: Path) -> None:
    x = rl.arange(16.0).reshape(8, 2) / 16
    batches = rl.utils.data.DataLoader(
        rl.utils.data.TensorDataset(x, rl.arange(8) % 3), batch_size=4
    )
    whole, first = trainer_of(text), trainer_of(text)
    whole.fit(batches, epochs=8)
    first.fit(batches, epochs=4)
    first.save_checkpoint(tmp_path / "run.safetensors")
    later = trainer_of(text)
    later.fit(batches, epochs=8, resume=tmp_path / "run.safetensors")
    assert rates(later.optimizer) == rates(whole.optimizer)
    for a, b in zip(later.model.parameters(), whole.model.parameters(), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize(
    ("text", "state", "words"),
    [
        ("StepLR(o, 2)", [1], "StepLR: load_state_dict takes a dict of names"),
        ("MultiStepLR(o, [2])", {"milestones": {"two": 1}}, "milestones are"),
        ("MultiStepLR(o, [2])", {"milestones": 3}, "milestones are 3"),
        ("LambdaLR(o, Halving())", {"lr_lambdas": [None]}, "of 1 functions; there are 2"),
        ("SequentialLR(o, [StepLR(o, 2)], [])", {}, "_schedulers of the state are None"),
        ("ChainedScheduler([StepLR(o, 2)])", {"_schedulers": [{}, {}]}, "state are 2"),
    ],
)
def test_states_that_do_not_fit_are_refused(text: str, state: Any, words: str) -> None:
    with pytest.raises(LoadError, match=words):
        made_of(text)[1].load_state_dict(state)


@pytest.mark.parametrize("name", ["SGD(ps, 0.1, momentum=0.9)", "Adam(ps, 0.1)", "Adagrad(ps)"])
def test_numbers_of_parameters_may_be_texts(name: str) -> None:
    ps = [nn.Parameter(rl.ones(2))]
    made: optim.Optimizer = eval(name, {**vars(optim), "ps": ps})
    for _ in range(2):
        ps[0].grad = rl.ones(2)
        made.step()
    state = made.state_dict()
    again: optim.Optimizer = eval(name, {**vars(optim), "ps": ps})
    again.load_state_dict({**state, "state": {str(k): v for k, v in state["state"].items()}})
    kept = again.state_dict()["state"]
    assert kept.keys() == state["state"].keys()
    for key, value in state["state"][0].items():
        assert kept[0][key].tolist() == value.tolist()
