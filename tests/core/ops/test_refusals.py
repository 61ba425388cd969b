"""Arguments that torch refuses and that were taken: weights, tolerances, dtypes, out=."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl

Call = Callable[[], Any]
ONES = rl.ones(3)
CASES: dict[str, tuple[Call, str]] = {
    "negative weight": (lambda: rl.tensor([1.0, -1.0]).multinomial(1), "negative, infinite or nan"),
    "infinite weight": (lambda: rl.tensor([1.0, rl.inf]).multinomial(1, True), "infinite"),
    "too few weights": (lambda: rl.tensor([1.0, 0.0]).multinomial(2), "less than 2 positive"),
    "isclose": (lambda: rl.isclose(ONES, ONES, rtol=-0.1), "isclose: rtol is -0.1"),
    "diff": (lambda: ONES.diff(n=-1), "diff: n is -1; it must not be negative"),
    "masked_fill": (lambda: ONES.masked_fill(ONES > 0, rl.ones(1)), "value is \\(1,\\); .* 0-d"),
    "scatter": (lambda: ONES.scatter(0, rl.tensor([0]), rl.ones(1).half()), "src is float16"),
    "scatter_add": (lambda: ONES.scatter_add(0, rl.tensor([0]), rl.ones(1).half()), "convert one"),
    "cov weights": (lambda: ONES.cov(fweights=ONES), "cov: fweights is float32; fweights are int"),
    "cov length": (lambda: ONES.cov(aweights=rl.ones(2)), r"cov: aweights is \(2,\); it must be"),
    "arange": (lambda: rl.arange(0, rl.inf), "arange: step 1 does not lead from 0 to inf"),
    "linspace": (lambda: rl.linspace(0, 1, 2.0), "cannot be interpreted as an integer"),  # type: ignore[arg-type]
    "out": (lambda: rl.abs(ONES, out=rl.ones(1).expand(3)), "elements of out= share one"),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("name", CASES)
def test_what_torch_refuses(name: str) -> None:
    call, said = CASES[name]
    with pytest.raises((ValueError, RuntimeError, TypeError), match=said):
        call()


def test_the_count_of_non_zeros_keeps_the_graph(device: str) -> None:
    x = rl.tensor([0.0, 2.0, -3.0], device=device, requires_grad=True)
    count = x.norm(0)
    count.backward()
    assert count.item() == 2 and x.grad is not None and x.grad.tolist() == [0, 0, 0]


def test_a_pool_of_single_elements_is_a_copy(device: str) -> None:
    x = rl.ones(1, 2, 4, 4, device=device)
    rl.nn.functional.max_pool2d(x, 1).zero_()
    assert x.sum().item() == 32


def test_out_that_shares_memory_with_an_input() -> None:
    ops: Any = rl  # with out=, which its types do not have
    x, index = rl.arange(6.0), rl.tensor([0, 1, 2])
    assert ops.cat([x[:2], x[2:3]], out=x[3:]).tolist() == [0, 1, 2]  # beside what it reads
    calls: list[Any] = [
        lambda: ops.take(x, index, out=x[:3]),
        lambda: ops.gather(x, 0, index, out=x[:3]),
        lambda: ops.cat([x[:2], x[2:3]], out=x[1:4]),
        lambda: ops.add(x[:3], 1, out=x[1:4]),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="unsupported operation: out= shares memory"):
            call()
    assert ops.add(x[:3], 1, out=x[:3]).tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="float32 does not fit out=float64"):
        ops.take(x, index, out=rl.zeros(3, dtype=rl.float64))
