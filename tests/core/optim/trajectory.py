"""A course for optimizers that torch and rushlight run alike: where they start, and gradients."""

from __future__ import annotations

from typing import Any

STEPS = 50
SHOWN = (1, 9, 50)  # the steps after which the goldens have the parameters


def start(xp: Any, dtype: Any) -> list[Any]:
    """A matrix (3, 4) and a vector (5,)."""
    whole = xp.arange(17, dtype=xp.float64) * 0.7
    values = (whole.cos() * 1.5).to(dtype)
    return [values[:12].reshape(3, 4).clone(), values[12:].clone()]


def feed(xp: Any, params: list[Any], step: int) -> None:
    """Set the gradients of a step: towards a bowl's middle, with waves that change by the step."""
    for i, p in enumerate(params):
        x = p.detach()
        p.grad = (x - 0.3) * (1.0 + i) + (x * 3 + step * 0.5).cos() * 0.8
    if step == 2 and len(params) > 1:
        params[1].grad = None


def loss(params: list[Any]) -> Any:
    """A valley with waves: what closures compute."""
    x, y = params
    bend = (y[1:] - y[:-1] ** 2) ** 2
    return (
        ((x - 0.3) ** 2).sum() + (x * 3).cos().sum() * 0.4 + bend.sum() * 5 + ((1 - y) ** 2).sum()
    )


def close(made: Any, params: list[Any]) -> float:
    """One step with a closure; the loss at its start."""

    def closure() -> Any:
        made.zero_grad()
        found = loss(params)
        found.backward()
        return found

    return float(made.step(closure))
