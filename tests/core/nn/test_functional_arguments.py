"""Arguments that the functions of networks share with torch's: inplace, weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.nn import functional as F


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (F.relu, lambda x: np.maximum(x, 0)),
        (F.silu, lambda x: x / (1 + np.exp(-x))),
    ],
)
def test_inplace_writes_over_the_input(fn: Any, expected: Any, device: str) -> None:
    values = np.array([-2.0, -0.5, 0.0, 3.0], np.float32)
    x = rl.tensor(values, device=device)
    assert np.allclose(fn(x).numpy(), expected(values), atol=1e-6)
    assert x.tolist() == values.tolist()
    assert fn(input=x, inplace=True) is x
    assert np.allclose(x.numpy(), expected(values), atol=1e-6)


def test_dropout_in_place(device: str) -> None:
    x = rl.ones(1000, device=device)
    out = F.dropout(x, 0.5, True, True)
    assert out is x and set(x.tolist()) == {0.0, 2.0}
    assert F.dropout(x, 0.5, training=False, inplace=True) is x


def test_losses_with_a_weight(widest: str, device: str) -> None:
    a, b, w = (
        rl.tensor(v, dtype=widest, device=device) for v in ([1.0, 2, 4], [0.0, 4, 1], [1.0, 3, 0.5])
    )
    for fn, each in ((F.mse_loss, [1.0, 12, 4.5]), (F.l1_loss, [1.0, 6, 1.5])):
        assert fn(a, b, reduction="none", weight=w).tolist() == each
        assert fn(a, b, reduction="sum", weight=w).item() == pytest.approx(sum(each))
        assert fn(a, b, weight=w).item() == pytest.approx(sum(each) / 4.5)
        with pytest.raises(ValueError, match=r"input is \(3,\), weight \(2,\)"):
            fn(a, b, weight=w[:2])


@pytest.mark.parametrize("wrong", [2.0, (2.0, 2.0), "ab", None])
def test_a_window_of_no_ints_is_refused_and_spoils_no_later_call(wrong: Any, device: str) -> None:
    x = rl.arange(72.0, device=device).reshape(1, 2, 6, 6)
    for pool in (F.max_pool2d, F.avg_pool2d):
        with pytest.raises(TypeError, match="pool2d: kernel"):
            pool(x, wrong)
        rights: list[Any] = [(2, 2), [2, 2], 2, np.int64(2)]
        for right in rights:
            assert pool(x, right).shape == (1, 2, 3, 3)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16"])
@pytest.mark.parametrize("padding", [0, 1])
def test_the_largest_of_windows_of_each_kind(dtype: str, padding: int, device: str) -> None:
    x = (rl.arange(72).reshape(1, 2, 6, 6) % 5 % 2).to(dtype).to(device)
    found = F.max_pool2d(x, 3, 2, padding)
    beside, at = F.max_pool2d(x, 3, 2, padding, return_indices=True)
    assert found.dtype is x.dtype
    assert found.tolist() == beside.tolist()
    assert x.cpu().reshape(1, 2, 36).gather(2, at.cpu().reshape(1, 2, -1)).flatten().tolist() == (
        found.flatten().tolist()
    )
