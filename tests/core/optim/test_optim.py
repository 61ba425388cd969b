"""SGD and AdamW follow torch step by step; groups, state, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.core.tools.testing import alike, ulp_distance

DATA = Path(__file__).parents[1] / "data"
CASES: dict[str, Any] = json.loads((DATA / "nn_goldens.json").read_text(encoding="utf-8"))[
    "optimizers"
]
GOLDENS = rl.load(DATA / "nn_goldens.safetensors")
STEPS = 10


def start(name: str, device: str) -> list[nn.Parameter]:
    return [nn.Parameter(GOLDENS[f"{name}/start.{i}"].clone().to(device)) for i in range(2)]


def feed(name: str, step: int, params: list[nn.Parameter], device: str) -> None:
    """The gradients of this step; the second parameter has none in the third."""
    for i, p in enumerate(params):
        grads = GOLDENS[f"{name}/grads.{i}"]
        p.grad = None if (step, i) == (2, 1) else grads[step].clone().to(device)


@pytest.mark.parametrize("name", CASES)
def test_ten_steps_agree_with_torch(name: str, device: str) -> None:
    params = start(name, device)
    made = eval(CASES[name]["optimizer"], {"optim": optim, "params": params})
    for step in range(STEPS):
        feed(name, step, params, device)
        made.step()
        for i, p in enumerate(params):
            expected = GOLDENS[f"{name}/trace.{i}"][step].numpy()
            actual = p.detach().numpy()
            # One rounding of the largest element: torch fuses products with sums.
            scale = np.abs(expected).max()
            assert np.abs(actual - expected).max() <= np.spacing(scale), f"step {step}"
            if step == 0:
                assert ulp_distance(actual, expected, "float32").max() <= 2
    state = made.state_dict()
    assert {str(i): sorted(s) for i, s in state["state"].items()} == CASES[name]["state"]
    assert [g["params"] for g in state["param_groups"]] == CASES[name]["groups"]


@pytest.mark.parametrize("name", CASES)
def test_a_saved_optimizer_goes_on_where_it_was(name: str, device: str) -> None:
    def run(stop: int) -> list[Any]:
        params = start(name, device)
        made = eval(CASES[name]["optimizer"], {"optim": optim, "params": params})
        for step in range(STEPS):
            if step == stop:
                state = json.loads(json.dumps(made.state_dict(), default=lambda t: t.tolist()))
                assert state["param_groups"][0]["lr"] == made.param_groups[0]["lr"]
                kept = made.state_dict()
                made = eval(CASES[name]["optimizer"], {"optim": optim, "params": params})
                made.param_groups[0]["lr"] = 77.0
                made.load_state_dict(kept)
                for entry in kept["state"].values():  # a copy was taken
                    for value in entry.values():
                        if isinstance(value, rl.Tensor):
                            value.fill_(1e9)
            feed(name, step, params, device)
            made.step()
        return [p.tolist() for p in params]

    assert alike(run(4), run(STEPS), device)


def test_the_storage_of_a_parameter_stays(device: str) -> None:
    p = nn.Parameter(rl.ones(3, device=device))
    before = p.storage
    for make in (optim.SGD, optim.AdamW):
        p.grad = rl.ones(3, device=device)
        make([p], lr=0.1).step()
    assert p.storage is before and p.is_leaf and p.requires_grad
    assert p.detach().amax().item() < 1


def test_an_optimizer_can_be_made_before_the_memory(device: str) -> None:
    layer = nn.Linear(2, 1)
    made = optim.AdamW(layer.parameters(), lr=0.1)
    layer.to(device)
    first = layer.weight.tolist()
    layer(rl.ones(1, 2, device=device)).sum().backward()
    made.step()
    assert layer.weight.tolist() != first
    made.zero_grad(set_to_none=False)
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == [[0.0, 0.0]]
    made.zero_grad()
    assert layer.weight.grad is None
    made.step()  # nothing to do
    assert made.state_dict()["state"][0]["step"] == 1


def test_a_closure_is_called_with_grads(device: str) -> None:
    p = nn.Parameter(rl.tensor([3.0], device=device))
    made = optim.SGD([p], lr=0.25)

    def closure() -> rl.Tensor:
        made.zero_grad()
        loss = p.square().sum()
        loss.backward()
        return loss

    with rl.no_grad():
        assert made.step(closure).item() == 9.0
    assert p.tolist() == [1.5]


def test_options_may_change_between_steps_and_groups_be_added(device: str) -> None:
    a, b = (nn.Parameter(rl.zeros(1, device=device)) for _ in range(2))
    made = optim.SGD([a], lr=1.0)
    made.add_param_group({"params": b, "lr": 10.0})
    for lr in (1.0, 0.5):
        made.param_groups[0]["lr"] = lr
        a.grad, b.grad = rl.ones(1, device=device), rl.ones(1, device=device)
        made.step()
    assert (a.item(), b.item()) == (-1.5, -20.0)
    told = ("SGD", "Parameter", "    lr")
    assert [line for line in repr(made).splitlines() if line.startswith(told)] == [
        "SGD (",
        "Parameter Group 0",
        "    lr: 0.5",
        "Parameter Group 1",
        "    lr: 10.0",
    ]


P = nn.Parameter(rl.zeros(2))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("optim.SGD([])", ValueError, "SGD: no parameters to optimize"),
        ("optim.SGD([P], lr=-1.0)", ValueError, "SGD: lr is -1.0; it must not be negative"),
        ("optim.SGD([P], lr=float('nan'))", ValueError, "SGD: lr is nan"),
        ("optim.SGD([P], momentum=-0.1)", ValueError, "SGD: momentum is -0.1"),
        ("optim.SGD([P], nesterov=True)", ValueError, "SGD: nesterov needs a momentum above 0"),
        ("optim.SGD([P, P])", ValueError, r"parameter of shape \(2,\) is passed twice"),
        ("optim.SGD([{'params': [P]}, {'params': P}])", ValueError, "is passed twice"),
        ("optim.SGD([P * 2])", ValueError, "is not a leaf"),
        ("optim.SGD(['w'])", TypeError, "SGD: a parameter is a str, not a Tensor"),
        ("optim.AdamW([P], betas=(1.0, 0.9))", ValueError, r"betas are \(1.0, 0.9\)"),
        ("optim.AdamW([P], eps=-1.0)", ValueError, "AdamW: eps is -1.0"),
        ("optim.AdamW([P], weight_decay=-1.0)", ValueError, "AdamW: weight_decay is -1.0"),
    ],
)
def test_invalid_arguments_are_refused(call: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        eval(call, {"optim": optim, "P": P})


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    a, b = nn.Parameter(rl.zeros(2)), nn.Parameter(rl.zeros(3))
    one, two = optim.AdamW([a]), optim.AdamW([b], lr=0.5)
    for p, made in ((a, one), (b, two)):
        p.grad = p.detach().ones_like()
        made.step()
    before = one.state[a]["exp_avg"].tolist()
    with pytest.raises(rl.LoadError, match=r"exp_avg of parameter 0 is \(3,\); .* is \(2,\)"):
        one.load_state_dict(two.state_dict())
    with pytest.raises(rl.LoadError, match=r"groups of \[2\] parameters; .* of \[1\]"):
        one.load_state_dict(optim.AdamW([a, b]).state_dict())
    assert one.state[a]["exp_avg"].tolist() == before and one.param_groups[0]["lr"] == 1e-3


def test_a_group_keeps_keys_that_are_no_options() -> None:
    w = rl.ones(2, requires_grad=True)
    sgd = rl.optim.SGD([{"params": [w], "name": "head", "lr_scale": 0.5}], lr=0.1)
    assert sgd.param_groups[0]["name"] == "head" and sgd.state_dict()["param_groups"][0]["lr_scale"]
