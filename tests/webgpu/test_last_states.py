"""Captured recurrences on webgpu write their last state where a copy would put it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.passes import last_states
from rushlight.core.backends.webgpu.compiler import replay
from rushlight.core.basis.graph import Step
from rushlight.core.ops.recurrence import DELTA_SCAN, SELECTIVE_SCAN
from rushlight.core.tools.testing import draws

pytestmark = pytest.mark.native


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, backend: Any) -> list[Step]:
    """The steps that the last captured function was compiled to."""
    found: list[Step] = []
    whole = last_states.write_state_in_place

    def write_state_in_place(*given: Any, **options: Any) -> list[Step]:
        found[:] = whole(*given, **options)
        return list(found)

    monkeypatch.setattr(replay, "write_state_in_place", write_state_in_place)
    return found


def on(seed: int, shape: tuple[int, ...]) -> rl.Tensor:
    return rl.tensor(draws(seed, shape) / 4).float().to("webgpu")


def delta(kept: rl.Tensor, before: rl.Tensor | None, length: int) -> Callable[..., Any]:
    def run(r: rl.Tensor, v: rl.Tensor) -> tuple[rl.Tensor, ...]:
        r, v = r / 2, v / 2  # the memory of an argument might be the state's
        both = DELTA_SCAN(r, r[..., :1].sigmoid(), r, v, None, None, before, before=False)
        kept.copy_(both[:, :, length:])
        return (both[:, :, :length].transpose(1, 2) * 2,)

    return run


def selective(kept: rl.Tensor, before: rl.Tensor | None, length: int) -> Callable[..., Any]:
    def run(r: rl.Tensor, v: rl.Tensor) -> tuple[rl.Tensor, ...]:
        r, v = r / 2, v / 2
        x, dt = v[:, 0], r[:, 0, :, :1].sigmoid().expand(*v[:, 0].shape).contiguous()
        a, b = -v[0, 0, :1].abs().t().expand(v.shape[3], 6), r[:, 0, :, :6].unsqueeze(2)
        first = None if before is None else before.transpose(1, 2)
        both = SELECTIVE_SCAN(x, dt, a, b, b, first)
        kept.copy_(both[:, length:])
        return (both[:, :length] * 2,)

    return run


@pytest.mark.parametrize("place", ["the same", "none", "another"])
@pytest.mark.parametrize(("length", "keys", "values"), [(1, 80, 20), (1, 7, 19), (5, 16, 12)])
@pytest.mark.parametrize("kind", [delta, selective])
def test_last_states_are_written_in_place(
    compiled: list[Step], kind: Any, length: int, keys: int, values: int, place: str
) -> None:
    """Of a state read from elsewhere there is a copy: a kernel has no binding left for both."""
    r, v = on(1, (2, 3, length, keys)), on(2, (2, 3, length, values))
    shape = (2, 3, keys, values) if kind is delta else (2, 6, values)
    kept, twin, other = on(3, shape), on(3, shape), on(4, shape)
    first = {"the same": kept, "none": None, "another": other}[place]
    second = {"the same": twin, "none": None, "another": other}[place]
    joined, plain = rl.jit(kind(kept, first, length)), rl.jit(kind(twin, second, length), passes=())
    for _ in range(3):
        np.testing.assert_array_equal(joined(r, v)[0].numpy(), plain(r, v)[0].numpy())
        np.testing.assert_array_equal(kept.numpy(), twin.numpy())
    assert ("assign" in [step.name for step in compiled]) == (place == "another")
