"""Moves on webgpu: in place only the region, narrow dtypes beside one another, over the limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.tools.testing import assert_close, draws

DTYPES = ["float32", "float16", "bfloat16", "int16", "uint8", "bool", "int64"]


def both(dtype: str, shape: tuple[int, ...], device: rl.Device) -> tuple[rl.Tensor, rl.Tensor]:
    """The same values on cpu and on the device."""
    whole = rl.tensor(np.floor(draws(1, shape, 0, 9))).to(dtype)
    return whole, whole.to(device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("start", range(4))
def test_assignment_leaves_neighbours_alone(gpu: rl.Device, dtype: str, start: int) -> None:
    here, there = both(dtype, (5, 7), gpu)
    for x in (here, there):
        x[1:4, start : start + 3] = 1
        x[0] = x[4]
        x[:, 6] = x[:, start]
        x[start:, 1::3] = x[: 5 - start, 0::3][:, :2]
        x[2].zero_()
        x.t()[start, 1:3] = 1
    assert_close(there.cpu(), here.host_values(), "exact")


def test_assignment_writes_the_region_only(gpu: rl.Device, backend: Any) -> None:
    x, value = rl.zeros(64, 64, device=gpu), rl.ones(2, 3, device=gpu)
    x.tolist()
    before = backend.recorder.dispatches
    x[5:7, 8:11] = value
    assert backend.recorder.dispatches - before == 1, "no copy of the whole"
    assert x.cpu().sum().item() == 6


MOVES: dict[str, Callable[[rl.Tensor], rl.Tensor]] = {
    "flip": lambda x: x.flip(0, 2),
    "flip of a view": lambda x: x.permute(2, 0, 1)[1:].flip(0, 1),
    "cat": lambda x: rl.cat([x, x[:, :1], x.flip(1)], 1),
    "cat along the last": lambda x: rl.cat([x[..., :1], x, x[..., 1:4]], 2),
    "cat of many": lambda x: rl.cat([x[:, :, i : i + 1] for i in range(5)] * 5, 2),
    "pad": lambda x: rl.pad(x, (1, 2, 0, 3), value=1),
    "roll": lambda x: x.roll((1, 2), (0, 2)),
    "where": lambda x: rl.where(x.float() > 3, x, x.flip(2)),
    "repeat": lambda x: x.repeat(2, 1, 3),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_moves(gpu: rl.Device, dtype: str, name: str) -> None:
    here, there = both(dtype, (3, 4, 5), gpu)
    assert_close(MOVES[name](there).cpu(), MOVES[name](here).host_values(), "exact")


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("name", ["flip", "cat", "pad", "assign", "where"])
def test_moves_over_the_binding_limit(
    gpu: rl.Device, small_bindings: Any, dtype: str, name: str
) -> None:
    calls: dict[str, Any] = {
        "flip": lambda x: x.flip(0, 1),
        "cat": lambda x: rl.cat([x, x[:, :3]], 1),
        "pad": lambda x: rl.pad(x, (1, 2), value=1),
        "where": lambda x: rl.where(x > 3, x, x.flip(1)),
    }
    here, there = both(dtype, (3, 700001), gpu)
    if name == "assign":
        here[1:, 5:600000], there[1:, 5:600000] = here[:2, 9:600004].clone(), there[:2, 9:600004]
        assert np.array_equal(there.cpu().numpy(), here.numpy())
    else:
        assert np.array_equal(calls[name](there).cpu().numpy(), calls[name](here).numpy())


@pytest.mark.parametrize("name", ["scatter", "put"])
def test_the_last_of_several_writes_stays(gpu: rl.Device, name: str) -> None:
    index = rl.tensor(np.floor(draws(3, (3000,), 0, 7)).astype(np.int64))
    for dtype in ("float32", "float16", "uint8"):
        values = rl.tensor(np.floor(draws(4, (3000,), 0, 200))).to(dtype)
        results = []
        for device in ("cpu", gpu):
            x, i, v = (t.to(device) for t in (rl.zeros(9, dtype=dtype), index, values))
            if name == "put":
                x[i] = v
            else:
                x = x.scatter(0, i, v)
            results.append(x.tolist())
        assert results[0] == results[1]


def test_sums_by_index_repeat(gpu: rl.Device) -> None:
    """Twice the same bits, and near a sum in float64; strided operands, a lane of many repeats."""
    index = rl.tensor(np.floor(draws(3, (500,), 0, 4)).astype(np.int64)).to(gpu)
    source = rl.tensor(draws(5, (6, 500)).astype(np.float32)).to(gpu).t()
    x = rl.zeros(6, 4, device=gpu).t()
    found = x.index_add(0, index, source).cpu().numpy()
    assert np.array_equal(found, x.index_add(0, index, source).cpu().numpy())
    want = np.zeros((4, 6))
    np.add.at(want, index.cpu().numpy(), source.cpu().numpy().astype(np.float64))
    assert_close(found, want, "sum")
    wide = index.reshape(-1, 1).expand(500, 6)
    assert_close(x.scatter_add(0, wide, source).cpu(), want, "sum")


def test_int64_sums_that_overflow_say_so(gpu: rl.Device) -> None:
    x = rl.tensor([2**31 - 1, 0], device=gpu)
    out = x.index_add(0, rl.tensor([0], device=gpu), rl.tensor([1], device=gpu))
    with pytest.raises(OverflowError, match="index_add: an int64 result is beyond the 32 bits"):
        out.cpu()


def test_negative_indices_and_masks(gpu: rl.Device) -> None:
    here, there = both("float32", (4, 5, 6), gpu)
    keys = [
        (rl.tensor([-1, 2, 0]),),
        (slice(None), rl.tensor([[0], [-2]]), rl.tensor([1, -1, 5])),
        (rl.tensor([3, 0]), slice(None), rl.tensor([1, -1])),
        (..., rl.tensor([0, 0, 5])),
    ]
    for key in keys:
        moved = tuple(k.to(gpu) if isinstance(k, rl.Tensor) else k for k in key)
        assert_close(there[moved].cpu(), here[key].numpy(), "exact")
        here[key], there[moved] = 7.0, 7.0
        assert_close(there.cpu(), here.numpy(), "exact")
    assert there[there > 6].tolist() == here[here > 6].tolist()
