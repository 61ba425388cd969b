"""Calls whose work no memory bounds are refused at once, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl

F: Any = rl.nn.functional
FAR = 2**40
NONE = rl.zeros(1)

CALLS: dict[str, Callable[[], Any]] = {
    "adaptive_max_pool1d: 16777216 parts": lambda: F.adaptive_max_pool1d(rl.ones(1, 1, 4), 2**24),
    "adaptive_avg_pool1d: 16777216 parts": lambda: F.adaptive_avg_pool1d(rl.ones(1, 1, 4), 2**24),
    "adaptive_max_pool2d: .* parts": lambda: F.adaptive_max_pool2d(rl.ones(1, 1, 4, 4), (2, FAR)),
    "unbind: .* views": lambda: NONE.expand(FAR).unbind(),
    "unbind: .* views are": lambda: iter(NONE.expand(FAR)),
    "split: .* views": lambda: NONE.expand(FAR).split(1),
    "split: .* views are": lambda: NONE.expand(FAR).chunk(FAR),
    "tensor_split: .* views": lambda: NONE.expand(FAR).tensor_split(FAR),
    "channel_shuffle: 0 groups": lambda: F.channel_shuffle(rl.ones(1, 4, 2, 2), 0),
    "full: fill_value is a list": lambda: rl.full((2, 2), []),  # type: ignore[arg-type]
    "output_size is 5; the result has 3": lambda: rl.repeat_interleave(
        rl.ones(2), rl.tensor([1, 2]), 0, output_size=5
    ),
    "repeats hold -1": lambda: rl.repeat_interleave(rl.ones(2), rl.tensor([-1, 2]), 0),
}


@pytest.mark.parametrize("words", CALLS)
def test_calls_beyond_bounds_are_refused_by_name(words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        CALLS[words]()


@pytest.mark.parametrize(
    "name",
    "inv det cholesky eigh svd qr slogdet pinv eigvals eig lu matrix_rank cond svdvals "
    "eigvalsh lu_factor ldl_factor matrix_exp".split(),
)
def test_batches_of_matrices_without_elements_are_bounded(name: str) -> None:
    with pytest.raises(ValueError, match="matrices without elements"):
        getattr(rl.linalg, name)(rl.zeros(FAR, 0, 0))
    if name not in ("cond", "matrix_rank"):
        getattr(rl.linalg, name)(rl.zeros(3, 0, 0))


def test_polygamma_of_large_orders_is_infinite() -> None:
    assert rl.polygamma(FAR, rl.ones(2)).tolist() == [-float("inf")] * 2
    assert rl.polygamma(201, rl.ones(2)).tolist() == [float("inf")] * 2
    assert rl.polygamma(2, rl.ones(1)).item() == pytest.approx(-2.4041138, rel=1e-6)


def test_decimals_beyond_all_digits_give_nan() -> None:
    for decimals in (2**40, -(2**40), 400):
        x: Any = rl.ones(2)
        assert x.round(decimals=decimals).isnan().all().item()
        assert x.round_(decimals=decimals).isnan().all().item()
