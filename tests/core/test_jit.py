"""jit on cpu calls through: results, gradients and writes are those of the function."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl


def test_the_three_ways_to_write_it(device: str) -> None:
    def f(x: rl.Tensor, k: float = 2) -> rl.Tensor:
        """Scales."""
        return x * k

    plain = rl.jit(f)
    again = rl.jit(f, reuse_outputs=True)

    @rl.jit
    def bare(x: rl.Tensor) -> rl.Tensor:
        return x * 2

    @rl.jit(reuse_outputs=True)
    def with_options(x: rl.Tensor) -> rl.Tensor:
        return x * 2

    for seed in range(3):
        x = rl.arange(3.0, device=device) + seed
        for g in (plain, again, bare, with_options):
            assert g(x).tolist() == (x * 2).tolist()
    assert plain(x, k=3).tolist() == (x * 3).tolist()
    assert plain.__name__ == "f" and plain.__doc__ == "Scales."


def test_results_are_the_callers_own(device: str) -> None:
    f: Any = rl.jit(lambda x: {"sum": x.sum(), "parts": [x + 1, (x * 2, 7)]})
    first = f(rl.ones(2, device=device))
    second = f(rl.zeros(2, device=device))
    assert first["sum"].item() == 2 and second["sum"].item() == 0
    assert first["parts"][0].tolist() == [2, 2] and first["parts"][1][1] == 7


def test_writes_and_gradients(device: str) -> None:
    state = rl.zeros(2, device=device)

    @rl.jit
    def step(x: rl.Tensor) -> rl.Tensor:
        state.add_(x)
        return state * 2

    for i in range(3):
        assert step(rl.ones(2, device=device)).tolist() == [2 * (i + 1)] * 2
    x = rl.ones(2, device=device, requires_grad=True)
    square: Any = rl.jit(lambda t: (t * t).sum())
    square(x).backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2]


def test_errors_pass_through() -> None:
    failing: Any = rl.jit(lambda x: x.softmax(5))
    with pytest.raises(IndexError, match="softmax: dim 5"):
        failing(rl.ones(2))
