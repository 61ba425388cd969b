"""What webgpu does not hold is refused by name: float64, and int64 beyond 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

HINT = r"convert with .to\(rl.float32\), or compute on cpu"


def test_float64_is_refused(gpu: rl.Device) -> None:
    with pytest.raises(TypeError, match=f"webgpu has no float64; {HINT}"):
        rl.tensor(np.zeros(3), device=gpu)
    with pytest.raises(TypeError, match=f"webgpu has no float64; {HINT}"):
        rl.zeros(3, dtype=rl.float64, device=gpu)
    x = rl.ones(3, device=gpu)
    with pytest.raises(TypeError, match=f"webgpu has no float64; {HINT}"):
        x.double()
    assert x.tolist() == [1, 1, 1], "the device goes on"


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**40, 2**63 - 1, -(2**63)])
def test_wide_int64_is_refused(gpu: rl.Device, value: int) -> None:
    text = f"{value} is beyond the 32 bits that webgpu holds int64 in"
    with pytest.raises(OverflowError, match=text):
        rl.tensor([1, value, 2], device=gpu)
    with pytest.raises(OverflowError, match=text):
        rl.full((3,), value, device=gpu)


def test_int64_at_its_ends_comes_back(gpu: rl.Device) -> None:
    values = [2**31 - 1, -(2**31), 0, -1, 46341]
    x = rl.tensor(values, device=gpu)
    assert x.dtype is rl.int64 and x.tolist() == values
    assert x[1:4].clone().tolist() == values[1:4]
    assert x.cpu().numpy().dtype == np.int64
