"""What captured functions join on cpu: chains of elementwise ops, last states written in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import executable, simd
from rushlight.core.backends.passes import last_states
from rushlight.core.basis.graph import Step
from rushlight.core.ops.recurrence import DELTA_SCAN, SELECTIVE_SCAN
from rushlight.core.tools.testing import draws

F: Any = rl.nn.functional


def on(seed: int, shape: tuple[int, ...]) -> rl.Tensor:
    return rl.tensor(draws(seed, shape)).float()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The steps that the last captured function was compiled to."""
    found: list[Step] = []
    whole = last_states.write_state_in_place

    def write_state_in_place(*given: Any) -> list[Step]:
        found[:] = whole(*given)
        return list(found)

    monkeypatch.setattr(executable, "write_state_in_place", write_state_in_place)
    return found


def agrees(fn: Callable[..., Any], *args: rl.Tensor) -> None:
    """With the passes `fn` gives the bits that it gives without them."""
    plain, joined = rl.jit(fn, passes=()), rl.jit(fn)
    for _ in range(3):
        for mine, theirs in zip(joined(*args), plain(*args), strict=True):
            np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


def gated(x: rl.Tensor, w: rl.Tensor, b: rl.Tensor) -> tuple[rl.Tensor, ...]:
    y = (x * w + b).clamp(-1, 1).exp() - 0.5
    heads = y.reshape(*y.shape[:-1], -1, 1) * b[:1].reshape(1, 1, 1)
    return (F.silu(heads.reshape(x.shape)) * x.flip(1),)


@pytest.mark.parametrize("columns", [1, 7, 16, 63, 300])
def test_chains_give_the_same_bits(variant: str, compiled: list[Step], columns: int) -> None:
    """Rows with gaps, columns, single values, and pieces that end within a vector."""
    wide = on(1, (130, 2 * columns + 1))
    agrees(
        gated,
        wide[:, columns : 2 * columns],
        on(2, (130, 1)).expand(130, columns),
        on(3, (columns,)),
    )
    agrees(gated, on(4, (columns, 9)).t(), on(5, (9, columns)), on(6, (2 * columns,))[::2])


@pytest.mark.native
def test_what_becomes_a_chain(compiled: list[Step]) -> None:
    """A value that is read elsewhere, or a result, or whose inputs change, stays a step."""
    assert simd.library is not None

    def two(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        y = x.exp() * 2
        return y, (y + 1).sqrt()

    agrees(two, on(1, (40,)))
    assert [s.name for s in compiled] == ["chain", "chain"]
    kept = on(2, (40,))

    def written(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        y = kept.exp()
        kept.copy_(x * 2)
        return (y * kept,)

    rl.jit(written)(on(3, (40,)))
    assert [s.name for s in compiled] == ["exp", "mul", "assign", "mul"]

    def many(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        for _ in range(20):
            x = x * 0.5 + 1
        return (x,)

    agrees(many, on(4, (700,)))
    assert sum(s.name == "chain" for s in compiled) == 3


def delta(state: rl.Tensor, length: int) -> Callable[..., Any]:
    def run(r: rl.Tensor, v: rl.Tensor) -> tuple[rl.Tensor, ...]:
        r, v = r / 2, v / 2  # the memory of an argument might be the state's
        both = DELTA_SCAN(r, r[..., :1].sigmoid(), r, v, None, None, state, before=False)
        state.copy_(both[:, :, length:])
        return (both[:, :, :length].transpose(1, 2) * 2,)

    return run


def selective(state: rl.Tensor, length: int) -> Callable[..., Any]:
    def run(r: rl.Tensor, v: rl.Tensor) -> tuple[rl.Tensor, ...]:
        r, v = r / 2, v / 2
        x, dt = v[:, 0], r[:, 0, :, :1].sigmoid().expand(*v[:, 0].shape).contiguous()
        a, b = -v[0, 0, :1].abs().t().expand(v.shape[3], 6), r[:, 0, :, :6].unsqueeze(2)
        both = SELECTIVE_SCAN(x, dt, a, b, b, state.transpose(1, 2))
        state.copy_(both[:, length:])
        return (both[:, :length] * 2,)

    return run


@pytest.mark.parametrize("length", [1, 11])
@pytest.mark.parametrize("kind", [delta, selective])
def test_last_states_are_written_in_place(
    variant: str, compiled: list[Step], kind: Any, length: int
) -> None:
    r, v = on(1, (2, 3, length, 7)), on(2, (2, 3, length, 19))
    shape = (2, 3, 7, 19) if kind is delta else (2, 6, 19)
    one, other = on(3, shape), on(3, shape)
    joined, plain = rl.jit(kind(one, length)), rl.jit(kind(other, length), passes=())
    for _ in range(3):
        np.testing.assert_array_equal(joined(r, v)[0].numpy(), plain(r, v)[0].numpy())
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    if simd.library is not None and "chain" in simd.library.numbers:
        assert "assign" not in [s.name for s in compiled[-3:]]


@pytest.mark.native
def test_a_state_in_another_order_is_copied(compiled: list[Step]) -> None:
    """As many states as channels: the transposed state covers the same memory."""
    state, other = on(1, (1, 6, 6)), on(1, (1, 6, 6))
    r, v = on(2, (1, 1, 5, 7)), on(3, (1, 1, 5, 6))

    def run(kept: rl.Tensor) -> Callable[..., Any]:
        turned = kept.transpose(1, 2)  # what `selective` turns back
        return lambda r, v: selective(turned, 5)(r, v)

    joined, plain = rl.jit(run(state)), rl.jit(run(other), passes=())
    for _ in range(2):
        np.testing.assert_array_equal(joined(r, v)[0].numpy(), plain(r, v)[0].numpy())
        np.testing.assert_array_equal(state.numpy(), other.numpy())
    assert "assign" in [s.name for s in compiled]


@pytest.mark.native
def test_a_state_that_is_read_later_is_copied(compiled: list[Step]) -> None:
    state, r, v = on(1, (1, 2, 7, 5)), on(2, (1, 2, 3, 7)), on(3, (1, 2, 3, 5))

    def again(r: rl.Tensor, v: rl.Tensor) -> tuple[rl.Tensor, ...]:
        both = DELTA_SCAN(r, r[..., :1].sigmoid(), r, v, None, None, state, before=False)
        before = state + 1
        state.copy_(both[:, :, 3:])
        return before, both[:, :, 3:] + 0

    before = state.numpy().copy()
    first, last = rl.jit(again)(r, v)
    np.testing.assert_array_equal(first.numpy(), before + 1)
    np.testing.assert_array_equal(last.numpy(), state.numpy())
    assert "assign" in [s.name for s in compiled]


def test_a_value_of_which_a_part_is_read_stays(variant: str, compiled: list[Step]) -> None:
    """A chain computes as many elements as it gives."""
    agrees(lambda x, m: (((x * m)[:, :1].exp() * m).ceil(),), on(1, (1, 2, 37)), on(2, (1, 1, 37)))
