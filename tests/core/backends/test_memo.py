"""What equal calls of an op share."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.memo import MEMOS
from rushlight.core.ops.common import FULL
from rushlight.core.tensor.op import REGISTRY

ADD = REGISTRY["add"]


def test_equal_calls_share_a_memo_and_others_have_their_own(device: str) -> None:
    ADD.memos.clear()  # type: ignore[union-attr]
    x = rl.arange(12.0, device=device).reshape(3, 4)
    wanted = np.arange(12.0).reshape(3, 4)
    for _ in range(3):
        np.testing.assert_array_equal((x + x).cpu().numpy(), 2 * wanted)
    assert len(ADD.memos) == 1  # type: ignore[arg-type]
    # Another layout, another dtype, another offset.
    np.testing.assert_array_equal((x.T + x.T).cpu().numpy(), 2 * wanted.T)
    np.testing.assert_array_equal((x.int() + x.int()).cpu().numpy(), 2 * wanted.astype(int))
    np.testing.assert_array_equal((x[1] + x[2]).cpu().numpy(), wanted[1] + wanted[2])
    np.testing.assert_array_equal((x[2] + x[1]).cpu().numpy(), wanted[1] + wanted[2])
    assert len(ADD.memos) == 5  # type: ignore[arg-type]


def test_operands_in_one_memory(device: str) -> None:
    x = rl.arange(6.0, device=device)
    for _ in range(2):  # by a memo that was made for operands apart, too
        np.testing.assert_array_equal((x[:3] + x[3:]).cpu().numpy(), [3, 5, 7])
        apart = rl.arange(6.0, device=device)[3:]
        np.testing.assert_array_equal((x[:3] + apart).cpu().numpy(), [3, 5, 7])


def test_attributes_that_are_equal_but_differ(device: str) -> None:
    for value in (0.0, -0.0, 0.0, -0.0):
        found = FULL(device=rl.device(device), shape=(3,), value=value, dtype=rl.float32)
        assert math.copysign(1, found.cpu().numpy()[0]) == math.copysign(1, value)
    for value, dtype in ((1, rl.int32), (1.0, rl.float32), (True, rl.bool), (1, rl.float32)):
        found = FULL(device=rl.device(device), shape=(3,), value=value, dtype=dtype)
        assert found.dtype is dtype
        assert found.cpu().numpy().tolist() == [1, 1, 1]
    x = rl.tensor([[1.0, 2.0, 4.0]], device=device)
    for eps in (1e-5, 10.0, 1e-5):
        normed = rl.nn.functional.layer_norm(x, (3,), eps=eps).cpu().numpy()
        data = np.array([1.0, 2.0, 4.0])
        wanted = (data - data.mean()) / np.sqrt(data.var() + eps)
        np.testing.assert_allclose(normed[0], wanted, rtol=1e-5)


def test_memos_are_bounded(device: str) -> None:
    for n in range(1, MEMOS + 20):
        x = rl.zeros(n, device=device)
        x + x
        assert 0 < len(ADD.memos) <= MEMOS  # type: ignore[arg-type]


def test_checks_hold_after_a_memo_is_kept(device: str) -> None:
    x, empty = rl.ones(3, device=device), rl.ones(3, device="meta")
    x + x
    for _ in range(2):
        with pytest.raises(ValueError, match="meta"):
            ADD(x, empty)
        with pytest.raises(TypeError, match="complex"):
            REGISTRY["erf"](rl.ones(3, dtype="complex64"))


def test_a_profile_sees_what_runs_by_a_memo(device: str) -> None:
    x = rl.ones(7, device=device)
    x + x
    with rl.profile(device) as found:
        x + x
    assert "add" in str(found)


def test_kernels_are_switched_off_after_a_memo_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from rushlight.core.backends.cpu import simd

    x = rl.arange(5.0)
    x + x
    monkeypatch.setattr(simd, "library", None)
    np.testing.assert_array_equal((x + x).numpy(), [0, 2, 4, 6, 8])


def test_constants_whose_zeros_differ_in_sign() -> None:
    x, mask = rl.tensor([-2 + 0j]), rl.tensor([True])
    for value in (complex(-1.0, 0.0), complex(-1.0, -0.0)):
        found = rl.where(mask, value, x).numpy()[0]
        assert math.copysign(1, found.imag) == math.copysign(1, value.imag)
    for value in (0.0, -0.0):
        assert (rl.ones(2) / value).tolist() == [math.copysign(math.inf, value)] * 2
