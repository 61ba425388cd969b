"""What cannot be drawn is refused by name on every device, and the random numbers stay in order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.backends.registry import Generator

D: Any = rl.distributions
F: Any = rl.nn.functional
BAD_WEIGHTS = [[0.0, 0.0], [math.nan, 1.0], [-1.0, 2.0], [math.inf, 1.0]]


@pytest.mark.parametrize("weights", BAD_WEIGHTS)
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("captured", [True, False])
def test_weights_of_nothing_are_refused(
    device: str, weights: list[float], replacement: bool, captured: bool
) -> None:
    def draw(x: rl.Tensor) -> rl.Tensor:
        return rl.multinomial(x, 1, replacement)

    call = rl.jit(draw) if captured else draw
    bad, good = rl.tensor(weights, device=device), rl.tensor([0.0, 2.0], device=device)
    for _ in range(3):
        assert call(good).tolist() == [1]
        with pytest.raises(ValueError, match="multinomial: (x holds a weight|a row of x has less)"):
            call(bad).tolist()
    assert call(good).tolist() == [1]


@pytest.mark.parametrize("name", ["Categorical", "OneHotCategorical"])
@pytest.mark.parametrize("weights", [[math.nan, 1.0], [math.inf, 1.0]])
@pytest.mark.parametrize("validate", [True, False])
def test_distributions_of_nan_are_refused(
    device: str, name: str, weights: list[float], validate: bool
) -> None:
    with pytest.raises(ValueError, match="multinomial: x holds|must be real"):
        made = getattr(D, name)(
            logits=rl.tensor(weights, device=device), validate_args=validate or None
        )
        made.sample().tolist()


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda t: rl.bernoulli(t([math.nan])), "bernoulli: x has a probability out of"),
        (lambda t: rl.bernoulli(t([1.5])), "bernoulli: x has a probability out of"),
        (lambda t: rl.poisson(t([-1.0])), "poisson: input has a negative rate"),
        (lambda t: rl.normal(t([0.0]), t([-1.0])), "normal: std has a negative element"),
    ],
)
def test_parameters_out_of_range_are_refused(
    device: str, draw: Callable[..., rl.Tensor], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        draw(lambda values: rl.tensor(values, device=device)).tolist()


HUGE = 2**60
CALLS: list[Any] = [
    lambda **k: rl.randn(HUGE, **k),
    lambda **k: rl.rand(HUGE, **k),
    lambda **k: rl.randint(0, 9, (HUGE,), **k),
    lambda **k: rl.randn(2**31, 2**31, **k),
    lambda **k: rl.rand(2**59, dtype=rl.float16, **k),
    lambda **k: rl.randperm(2**58, **k),
    lambda **k: rl.empty(1, **k).expand(HUGE).bernoulli(),
    lambda **k: rl.normal(0.0, 1.0, (HUGE,), **k),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_refused_draws_leave_the_random_numbers_where_they_were(device: str, number: int) -> None:
    rl.manual_seed(5)
    wanted = rl.rand(4, device=device).tolist()
    rl.manual_seed(5)
    for _ in range(70):
        with pytest.raises((MemoryError, ValueError, RuntimeError)):
            CALLS[number](device=device)
    assert rl.rand(4, device=device).tolist() == wanted
    assert rl.isfinite(F.dropout(rl.ones(8, device=device), 0.5)).all().item()


def test_words_are_given_back_only_where_no_other_call_came_between() -> None:
    generator = Generator(3)
    _, first = generator.reserve(8)
    _, second = generator.reserve(8)
    generator.give_back(first, 8)
    assert generator.offset == second + 2
    generator.give_back(second, 8)
    assert generator.offset == second
