"""Bytes as indices are masks, in reads and writes, alone and in tuples, as in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl


def bytes_of(values: Any, device: str) -> rl.Tensor:
    return rl.tensor(values, dtype=rl.uint8, device=device)


KEYS: list[Any] = [
    lambda m: m([1, 0, 1]),
    lambda m: (m([1, 0, 1]), 1),
    lambda m: (slice(None), m([1, 0, 0, 1])),
    lambda m: (..., m([0, 1, 0, 1])),
    lambda m: (None, m([1, 0, 1])),
    lambda m: m([0, 0, 0]),
    lambda m: m([[1, 0, 0, 2]] * 3),
    lambda m: [m([1, 0, 1]), m([0, 1, 1, 0])],
    lambda m: m(1),
]


@pytest.mark.parametrize("make", KEYS)
def test_bytes_select_as_booleans_do(device: str, make: Any) -> None:
    x = rl.arange(12.0, device=device).reshape(3, 4)
    key = make(lambda values: bytes_of(values, device))
    same = make(lambda values: bytes_of(values, device).bool())
    assert x[key].tolist() == x[same].tolist()
    for value in (7, rl.tensor(5.0, device=device)):
        a, b = x.clone(), x.clone()
        a[key], b[same] = value, value
        assert a.tolist() == b.tolist()
    a, b = x.clone(), x.clone()
    a[key] += 1
    b[same] += 1
    assert a.tolist() == b.tolist()


def test_a_mask_of_bytes_is_no_list_of_rows(device: str) -> None:
    assert rl.arange(3, device=device)[bytes_of([1, 0, 1], device)].tolist() == [0, 2]
    x = rl.arange(3, device=device)
    x[bytes_of([1, 0, 1], device)] = 9
    assert x.tolist() == [9, 1, 9]
    assert x[np.array([0, 1, 0], np.uint8)].tolist() == [1]
    with pytest.raises(IndexError, match=r"mask is \(2,\)"):
        x[bytes_of([1, 0], device)]


def test_bytes_as_a_condition(device: str) -> None:
    x = rl.arange(3.0, device=device)
    assert rl.where(bytes_of([1, 0, 2], device), x, -x).tolist() == [0.0, -1.0, 2.0]
