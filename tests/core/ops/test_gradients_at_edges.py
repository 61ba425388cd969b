"""Gradients where a function has an edge, with torch 2.14's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn

F = nn.functional
LN2 = 0.6931472


def gradient(fn: Callable[[Any], Any], values: list[float]) -> list[float]:
    x: Any = rl.tensor(values).requires_grad_()
    fn(x * 1.0).sum().backward()
    return [round(g, 5) for g in x.grad.tolist()]


@pytest.mark.parametrize(
    ("fn", "values", "wanted"),
    [
        (lambda x: rl.xlogy(x, rl.tensor(2.0)), [-1.0, 0.0, -0.0, 2.0], [LN2] * 4),
        (lambda x: x.xlogy_(rl.tensor(2.0)), [0.0, 1.0], [LN2] * 2),
        (lambda x: rl.xlogy(x, rl.tensor([0.0, -1.0, 2.0])), [0.0, 0.0, 0.0], [0.0, 0.0, LN2]),
        (lambda x: rl.copysign(x, rl.tensor(-1.0)), [-2.0, 0.0, -0.0, 2.0], [1.0, 0, 0, -1.0]),
        (lambda x: x.copysign_(1.0), [-2.0, 0.0, 3.0], [-1.0, 0.0, 1.0]),
        (lambda x: rl.logit(x, 0.25), [0.1, 0.25, 0.5, 0.75, 0.9], [0, 5.33333, 4, 5.33333, 0]),
    ],
)
def test_gradients_at_edges_are_torchs(
    fn: Callable[[Any], Any], values: list[float], wanted: list[float]
) -> None:
    assert gradient(fn, values) == [pytest.approx(w, abs=1e-5) for w in wanted]


def test_a_celu_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="celu: alpha is 0"):
        F.celu(rl.ones(2), 0.0)


@pytest.mark.parametrize("name", ["leaky_relu", "elu", "celu", "hardtanh", "silu", "rrelu"])
def test_in_place_after_a_bias_gives_the_biass_gradient(name: str) -> None:
    """What broadcasts is summed, also where the activation is written over the sum."""
    grads = []
    for inplace in (False, True):
        b: Any = rl.tensor([0.5, -0.25]).requires_grad_()
        a: Any = rl.tensor([[1.0, -2.0], [3.0, -4.0], [-1.0, 0.3]]).requires_grad_()
        y = getattr(F, name)(a + b, inplace=inplace)
        (y * y).sum().backward()
        grads.append((a.grad.tolist(), b.grad.tolist()))
    assert grads[0] == grads[1]
