"""Make what torch's optimizers and schedules compute, for the tests of optim.

Usage: `python tests/parity/make_optim_goldens.py` writes tests/core/data/optim_goldens.json. The
cases are the lines of `OPTIMIZERS` and `SCHEDULES`, which the tests run too, from the file.
Optimizers run 50 steps in float64, with gradients that `gradient` of tests/core/optim/trajectory.py
computes; of Lion, which torch lacks, the reference is written here.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.core.optim import trajectory  # noqa: E402

TARGET = ROOT / "tests" / "core" / "data" / "optim_goldens.json"
# A name and what makes the optimizer; `ps` is two parameters, a matrix and a vector.
OPTIMIZERS = [
    "SGD(ps, 0.05)",
    "SGD(ps, 0.05, momentum=0.9, dampening=0.4, weight_decay=0.1)",
    "SGD(ps, 0.02, momentum=0.8, nesterov=True, weight_decay=0.01, maximize=True)",
    "SGD([{'params': ps[:1], 'lr': 0.2}, {'params': ps[1:], 'momentum': 0.5}], lr=0.01)",
    "ASGD(ps)",
    "ASGD(ps, 0.05, lambd=0.1, alpha=0.6, t0=20, weight_decay=0.02)",
    "ASGD(ps, 0.05, maximize=True)",
    "Adam(ps, 0.03)",
    "Adam(ps, 0.03, (0.8, 0.95), 1e-4, 0.1, True)",
    "Adam(ps, 0.03, weight_decay=0.1, maximize=True, foreach=True)",
    "Adam(ps, 0.03, weight_decay=0.1, decoupled_weight_decay=True, fused=True)",
    "AdamW(ps, 0.03)",
    "AdamW(ps, 0.03, weight_decay=0.2, amsgrad=True, maximize=True)",
    "AdamW([{'params': ps[:1], 'weight_decay': 0.0}, {'params': ps[1:], 'lr': 0.1}], 0.01)",
    "Adamax(ps, 0.03)",
    "Adamax(ps, 0.03, (0.7, 0.9), weight_decay=0.1, maximize=True)",
    "NAdam(ps, 0.03)",
    "NAdam(ps, 0.03, weight_decay=0.1, momentum_decay=0.02)",
    "NAdam(ps, 0.03, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)",
    "RAdam(ps, 0.03)",
    "RAdam(ps, 0.03, (0.9, 0.9), weight_decay=0.1)",
    "RAdam(ps, 0.03, weight_decay=0.1, decoupled_weight_decay=True, maximize=True)",
    "Adadelta(ps)",
    "Adadelta(ps, 0.5, 0.8, 1e-3, 0.1, maximize=True)",
    "Adagrad(ps, 0.1)",
    "Adagrad(ps, 0.1, 0.05, 0.1, 0.3, maximize=True)",
    "RMSprop(ps, 0.02)",
    "RMSprop(ps, 0.02, 0.9, momentum=0.7, centered=True)",
    "RMSprop(ps, 0.02, weight_decay=0.1, momentum=0.5, maximize=True)",
    "Rprop(ps)",
    "Rprop(ps, 0.05, (0.6, 1.1), (1e-3, 0.1), maximize=True)",
    "Adafactor(ps, 0.1)",
    "Adafactor(ps, 0.1, -0.6, (1e-6, 1e-2), 1.5, 0.1, maximize=True)",
    "Muon(ps[:1], 0.05)",
    "Muon(ps[:1], 0.05, nesterov=False, adjust_lr_fn='match_rms_adamw', ns_steps=3)",
    "Lion(ps, 0.02)",
    "Lion(ps, 0.02, (0.8, 0.9), 0.1, maximize=True)",
]

# Optimizers whose step takes a closure, which evaluates `loss` of trajectory.py.
CLOSURES = [
    "LBFGS(ps)",
    "LBFGS(ps, 0.1, max_iter=6, history_size=3)",
    "LBFGS(ps, line_search_fn='strong_wolfe')",
    "LBFGS(ps, 3.0, 7, 12, 1e-5, 1e-8, 4, 'strong_wolfe')",
    "Adam(ps, 0.1)",
]
SCHEDULES = [
    "ConstantLR(o, 0.4, 3)",
    "LinearLR(o, 0.2, 0.9, 6)",
    "ExponentialLR(o, 0.8)",
    "MultiStepLR(o, [2, 5, 5, 9], 0.3)",
    "PolynomialLR(o, 7, 2.0)",
    "StepLR(o, 3, 0.5)",
    "MultiplicativeLR(o, lambda n: 1 - 0.05 * n)",
    "LambdaLR(o, lambda n: 0.9 ** n)",
    "CosineAnnealingLR(o, 5, 0.01)",
    "CosineAnnealingWarmRestarts(o, 3, 2, 0.02)",
    "CosineAnnealingWarmRestarts(o, 4)",
    "CyclicLR(o, 0.01, 0.3, 3)",
    "CyclicLR(o, [0.01, 0.02], 0.3, 2, 3, 'triangular2')",
    "CyclicLR(o, 0.01, 0.3, 3, None, 'exp_range', 0.9, cycle_momentum=False)",
    "CyclicLR(o, 0.01, 0.3, 2, scale_fn=lambda n: 1 / n)",
    "OneCycleLR(o, 0.4, 14)",
    "OneCycleLR(o, [0.4, 0.1], epochs=4, steps_per_epoch=3, "
    "anneal_strategy='linear', three_phase=True, final_div_factor=10)",
    "SequentialLR(o, [LinearLR(o, 0.2, 1.0, 3), CosineAnnealingLR(o, 5), StepLR(o, 2)], [3, 8])",
    "SequentialLR(o, [ConstantLR(o, 0.1, 2), MultiStepLR(o, [0, 2]), PolynomialLR(o, 3)], [4, 9])",
    "SequentialLR(o, [ExponentialLR(o, 0.9), LambdaLR(o, lambda n: 0.5 ** n)], [5])",
    "ChainedScheduler([ConstantLR(o, 0.1, 2), ExponentialLR(o, 0.9)])",
    "ChainedScheduler([LinearLR(o), CosineAnnealingLR(o, 6)], o)",
    "swa_utils.SWALR(o, [0.05, 0.2], 4)",
    "swa_utils.SWALR(o, 0.05, 3, 'linear')",
]


class Lion(torch.optim.Optimizer):  # type: ignore[misc]
    """Algorithm 2 of Chen et al. (2023)."""

    def __init__(
        self,
        params: Any,
        lr: float,
        betas: Any = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        own = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(
            params,
            own
            | dict.fromkeys(("foreach",))
            | dict.fromkeys(("capturable", "differentiable"), False),
        )

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self) -> None:
        for group in self.param_groups:
            lr, (one, two) = group["lr"], group["betas"]
            for p in (p for p in group["params"] if p.grad is not None):
                grad = -p.grad if group["maximize"] else p.grad
                mean = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                interpolated = one * mean + (1 - one) * grad
                p.sub_(lr * (interpolated.sign() + group["weight_decay"] * p))
                mean.copy_(two * mean + (1 - two) * grad)


def optimizer(text: str) -> dict[str, Any]:
    """Parameters along 50 steps, the keys of the state with shapes and sums, keys of groups."""
    ps = [torch.nn.Parameter(p) for p in trajectory.start(torch, torch.float64)]
    made = eval(text, {**vars(torch.optim), "Lion": Lion, "ps": ps})
    trace = []
    for step in range(trajectory.STEPS):
        trajectory.feed(torch, ps, step)
        made.step()
        if step + 1 in trajectory.SHOWN:
            shown = [p.detach().flatten().tolist() for p in ps]
            trace.append([[float(f"{x:.13g}") for x in values] for values in shown])
        if step + 1 == trajectory.SHOWN[1]:
            middle = json.loads(json.dumps(made.state_dict(), default=_listed))
    state = made.state_dict()
    kept = {
        str(n): {
            k: [list(v.shape), float(f"{float(v.sum()):.7g}")]
            for k, v in sorted(s.items())
            if v is not None
        }
        for n, s in state["state"].items()
    }
    keys = [sorted(g) for g in state["param_groups"]]
    return {"trace": trace, "state": kept, "keys": keys[0], "middle": middle}


def _listed(x: torch.Tensor) -> Any:
    """A tensor of a state as nested lists."""
    numbers = torch.tensor([float(f"{v:.13g}") for v in x.flatten().tolist()], dtype=x.dtype)
    return numbers.reshape(x.shape).tolist()


def closure(text: str) -> list[Any]:
    """Six steps with a closure: the loss, the counts of the state, the parameters."""
    ps = [torch.nn.Parameter(p) for p in trajectory.start(torch, torch.float64)]
    made = eval(text, {**vars(torch.optim), "ps": ps})
    trace = []
    for _ in range(6):
        value = trajectory.close(made, ps)
        state = made.state[ps[0]]
        counts = [state.get(key, 0) for key in ("n_iter", "func_evals")]
        shown = [p.detach().flatten().tolist() for p in ps]
        trace.append([value, counts, [[float(f"{x:.13g}") for x in one] for one in shown]])
    return trace


def schedule(text: str) -> list[list[float]]:
    """The rates of two groups in twelve epochs, and their momenta."""
    ps = [torch.nn.Parameter(p) for p in trajectory.start(torch, torch.float64)]
    groups = [{"params": ps[:1]}, {"params": ps[1:], "lr": 0.1}]
    o = torch.optim.SGD(groups, lr=0.5, momentum=0.7)
    names = {**vars(torch.optim.lr_scheduler), "swa_utils": torch.optim.swa_utils, "o": o}
    made = eval(text, names)
    rates = []
    for _ in range(12):
        rates.append([*made.get_last_lr(), *(g["momentum"] for g in o.param_groups)])
        o.step()
        made.step()
    return rates


# Objects with variables of their own, whose state torch keeps.
class Halving:
    """A factor that halves in each call of an epoch that is new to it."""

    def __init__(self) -> None:
        self.seen, self.factor = 0, 1.0

    def __call__(self, epoch: float) -> float:
        """The factor of an epoch."""
        if epoch > self.seen:
            self.seen, self.factor = int(epoch), self.factor / 2
        return self.factor


RESUMED = [
    *SCHEDULES,
    "ReduceLROnPlateau(o, patience=1, cooldown=1, min_lr=[0.001, 0.0])",
    "ReduceLROnPlateau(o, 'max', 0.5, 0, threshold_mode='abs')",
    "LambdaLR(o, Halving())",
    "MultiplicativeLR(o, [lambda n: 0.9, lambda n: 0.8])",
    "CyclicLR(o, 0.01, 0.3, 2, scale_fn=Halving())",
    "SequentialLR(o, [StepLR(o, 2), MultiStepLR(o, [1, 3, 3], 0.5)], [5])",
    "SequentialLR(o, [StepLR(o, 2), ExponentialLR(o, 0.5)], [0])",
    "ChainedScheduler([MultiStepLR(o, [4, 7, 7], 0.5), LambdaLR(o, lambda n: 0.9 ** n)])",
]
BEFORE, AFTER = 6, 6  # steps before the state is taken, and after


def advance(made: Any, number: int) -> None:
    """A step of a schedule; a plateau gets a metric."""
    plateau = "Plateau" in type(made).__name__
    made.step(*[1.0 + number % 4 * 0.1] * plateau)


def resumed(text: str) -> list[Any]:
    """The states of a schedule and of its optimizer's groups, and the rates that follow."""
    ps = [torch.nn.Parameter(p) for p in trajectory.start(torch, torch.float64)]
    o = torch.optim.SGD([{"params": ps[:1]}, {"params": ps[1:], "lr": 0.1}], lr=0.5, momentum=0.7)
    names = {**vars(torch.optim.lr_scheduler), "swa_utils": torch.optim.swa_utils, "o": o}
    made = eval(text, {**names, "Halving": Halving})
    for number in range(BEFORE):
        o.step()
        advance(made, number)
    state = json.loads(json.dumps([made.state_dict(), o.state_dict()["param_groups"]]))
    rates = []
    for number in range(BEFORE, BEFORE + AFTER):
        advance(made, number)
        rates.append([float(g[key]) for key in ("lr", "momentum") for g in o.param_groups])
    return [*state, rates]


if __name__ == "__main__":
    torch.set_num_threads(1)
    found: dict[str, Any] = {"optimizers": {text: optimizer(text) for text in OPTIMIZERS}}
    found["closures"] = {text: closure(text) for text in CLOSURES}
    found["schedules"] = {text: schedule(text) for text in SCHEDULES}
    found["resumed"] = {text: resumed(text) for text in RESUMED}
    lines = json.dumps(found, separators=(",", ":")).replace(']},"', ']},\n"')
    TARGET.write_text(lines + "\n", encoding="utf-8")
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")
