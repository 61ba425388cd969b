"""Order, running sums, draws and maps on webgpu: over the binding limit, in place, at odd offsets,
over 65535 workgroups, and with nothing in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.webgpu.lowering import indexing
from rushlight.core.basis.errors import DeviceError
from rushlight.core.tools.testing import assert_close, draws

LONG = 400_000  # elements of four bytes: more than 1 MiB


def on(x: Any, dtype: str = "float32") -> rl.Tensor:
    return rl.tensor(np.asarray(x, dtype), device="webgpu")


# --- over the binding limit ---------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(LONG,), (700, 600), (2, 200_000), (200_000, 2)])
@pytest.mark.parametrize("dim", [0, -1])
def test_running_sums(small_bindings: Any, shape: tuple[int, ...], dim: int) -> None:
    x = np.floor(draws(1, shape, -50, 50))
    found = on(x, "int32").cumsum(dim)
    assert found.dtype is rl.int64
    assert np.array_equal(found.numpy(), x.astype(np.int64).cumsum(dim))
    real = on(x / 64).cumsum(dim).numpy()  # 64ths of small numbers: every sum is exact
    assert np.array_equal(real, (x / 64).cumsum(dim))


@pytest.mark.native  # a minute in the tab
@pytest.mark.parametrize("shape", [(4, 60_000), (60_000, 5), (900, 400)])
def test_order(small_bindings: Any, shape: tuple[int, ...]) -> None:
    x = np.floor(draws(1, shape, 0, 5000)).astype(np.float32)
    for dim in (0, -1):
        values, order = on(x).sort(dim)
        want = np.argsort(x, axis=dim, kind="stable")
        assert np.array_equal(order.numpy(), want), dim
        assert np.array_equal(values.numpy(), np.take_along_axis(x, want, dim)), dim


@pytest.mark.parametrize("shape", [(5, 60_000), (900, 400)])
def test_the_largest(small_bindings: Any, shape: tuple[int, ...]) -> None:
    x = draws(1, shape).astype(np.float32)
    values, order = on(x).topk(7)
    want = np.argsort(-x, axis=-1, kind="stable")[..., :7]
    assert np.array_equal(order.numpy(), want)
    assert np.array_equal(values.numpy(), np.take_along_axis(x, want, -1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_draws(small_bindings: Any, dtype: str) -> None:
    def drawn(device: str) -> rl.Tensor:
        rl.manual_seed(3)
        if dtype == "int64":
            return rl.randint(0, 1000, (LONG,), device=device)
        return rl.rand(LONG * 2, device=device, dtype=dtype)

    assert np.array_equal(drawn("webgpu").numpy(), drawn("cpu").numpy())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "int64"])
def test_maps_and_reductions(small_bindings: Any, dtype: str) -> None:
    size = {"float16": 2, "bool": 1}.get(dtype, 4)
    n = (1 << 20) // size + 1027
    x = np.floor(draws(1, (n,), -3, 4)).astype(dtype)
    t = on(x, dtype)
    assert np.array_equal((t == t.flip(0)).numpy(), x == x[::-1])
    assert np.array_equal(t[3:-2].clone().numpy(), x[3:-2])
    assert np.array_equal(t.to(rl.float32).numpy(), x.astype(np.float32))
    assert t.argmax().item() == int(np.argmax(x))
    assert bool(t.any().item()) and not bool(t.all().item())
    if dtype != "float16":
        assert t.sum().item() == int(x.sum())
    index = on(np.arange(n - 1, -1, -1), "int64")
    assert np.array_equal(t.index_select(0, index).numpy(), x[::-1])
    assert np.array_equal(t.gather(0, index).numpy(), x[::-1])


def test_a_row_too_long_to_sort_says_so(small_bindings: Any) -> None:
    with pytest.raises(DeviceError, match="argsort: an operand of shape .* binds 1048576 at once"):
        rl.zeros(LONG, device="webgpu").argsort()


# --- in place and at odd offsets ----------------------------------------------------------------


CHANGES: tuple[tuple[Callable[[rl.Tensor], Any], Callable[[Any], Any]], ...] = (
    (lambda t: t.mul_(2), lambda x: x * 2),
    (lambda t: t.fill_(3), lambda x: x * 0 + 3),
    (lambda t: t.add_(t), lambda x: x + x),
    (lambda t: t.copy_(t.flip(0)), lambda x: x[::-1].copy()),
)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "int16", "int64"])
@pytest.mark.parametrize("start", [1, 2, 3, 5])
def test_in_place_at_odd_offsets(dtype: str, start: int) -> None:
    """Neighbours in the same word stay as they were."""
    whole = np.floor(draws(1, (41,), 1, 9))
    for stop in (start, start + 1, start + 6, 41 - start):
        for change, same in CHANGES:
            t = rl.tensor(whole).to(dtype).to("webgpu")
            want = whole.copy()
            change(t[start:stop])
            want[start:stop] = same(want[start:stop])
            assert np.array_equal(t.cpu().float().numpy(), want), (start, stop)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_results_from_operands_at_odd_offsets(dtype: str) -> None:
    x = np.floor(draws(1, (3, 23), 0, 90)).astype(dtype)
    t = on(x, dtype)
    for start, step in ((1, 1), (3, 2), (5, 3)):
        part, want = t[:, start::step], x[:, start::step]
        assert np.array_equal((part + part).numpy(), want + want)
        assert np.array_equal(part.argsort(-1).numpy(), np.argsort(want, -1, kind="stable"))
        assert np.array_equal(part.topk(3)[0].numpy(), -np.sort(-want.astype(np.int64))[:, :3])
        exact = part.to(rl.int64).cumsum(-1).numpy()
        assert np.array_equal(exact, want.astype(np.int64).cumsum(-1))
        assert np.array_equal(rl.cat([part, part], 1).numpy(), np.concatenate([want, want], 1))


def test_overlapping_operands_of_one_buffer() -> None:
    t = on(np.arange(20))
    t[1:].add_(t[:-1])
    assert t.tolist() == [0, *(i + i - 1 for i in range(1, 20))]
    t = on(np.arange(20), "float16")
    t[:-1].copy_(t[1:].clone())
    assert t.tolist() == [*range(1, 20), 19]


# --- grids over 65535 ---------------------------------------------------------------------------


@pytest.mark.native  # a minute in the tab
def test_more_workgroups_than_an_axis_holds() -> None:
    """64 elements of a map are a workgroup, a row of a norm, of a softmax or of a sort is one."""
    n = 65536 * 64 + 77
    t = rl.arange(n, device="webgpu", dtype=rl.int32)
    assert (t + 1)[-1].item() == n
    assert (t * 2)[::65537].tolist() == list(range(0, 2 * n, 2 * 65537))
    rows = t[: 3 * 66_000].reshape(66_000, 3).float()
    assert rows.softmax(-1)[-1].tolist() == pytest.approx(rows[0].softmax(-1).tolist())
    assert rl.nn.functional.rms_norm(rows, (3,))[-1].tolist() == pytest.approx([1, 1, 1], 1e-4)
    assert rows.sum(-1)[-1].item() == 3 * (3 * 66_000 - 2)
    assert np.array_equal(rows.argsort(-1).numpy(), np.tile([0, 1, 2], (66_000, 1)))
    assert rows.cumsum(-1)[-1].tolist() == np.cumsum(rows[-1].numpy()).tolist()
    batch = rl.ones(70_000, 1, 2, device="webgpu") @ rl.ones(70_000, 2, 1, device="webgpu")
    assert batch.sum().item() == 140_000


# --- nothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (2, 0, 3)])
def test_nothing(shape: tuple[int, ...]) -> None:
    for device in ("cpu", "webgpu"):
        t = rl.zeros(shape, device=device)
        assert (t + 1).shape == t.exp().shape == t.cumsum(-1).shape == t.softmax(-1).shape == shape
        assert t.sum().item() == 0 and t.to(rl.float16).shape == shape
        assert t.sort(-1)[0].shape == shape and t.flip(0).shape == shape
        assert rl.cat([t, t], 0).shape == (2 * shape[0], *shape[1:])
        assert rl.rand(shape, device=device).shape == shape
        assert t.add_(1).shape == shape and t.clone().numpy().shape == shape
        assert t.sum(0).shape == shape[1:]
        filled = t.sum(-1)
        assert filled.shape == shape[:-1] and not filled.any().item()
        index = rl.zeros(0, dtype=rl.int64, device=device)
        assert rl.ones(3, 2, device=device)[index].shape == (0, 2)
    assert_close(
        rl.ones(3, device="webgpu").index_add(0, index.to("webgpu"), t.reshape(0)).cpu(), np.ones(3)
    )


@pytest.mark.parametrize("most", [1, 7, 1 << 14])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_additions_link_some_entries_at_a_time(
    dim: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "_LINKED", most)
    x, source = draws(1, (6, 41, 7)), draws(2, (5, 40, 3))
    size = x.shape[dim]
    index = draws(3, source.shape, 0, size).astype(np.int32)
    rows = draws(4, (50,), 0, size).astype(np.int64)
    added = draws(5, tuple(50 if d == dim else n for d, n in enumerate(x.shape)))
    found = []
    for device in ("cpu", "webgpu"):
        a, b, c = (rl.tensor(v.astype(np.float32), device=device) for v in (x, source, added))
        i, j = rl.tensor(index, device=device), rl.tensor(rows, device=device)
        found.append((a.scatter_add(dim, i, b), a.index_add(dim, j, c)))
    for got, want in zip(found[1], found[0], strict=True):
        assert_close(got.cpu(), want.numpy().astype(np.float64), "several")


def test_many_additions_to_one_row() -> None:
    """More entries than llvmpipe takes rounds of a loop."""
    index = rl.zeros(70001, dtype=rl.int32, device="webgpu")
    source = rl.ones(70001, 2, device="webgpu")
    got = rl.zeros(3, 2, device="webgpu").index_add(0, index, source)
    assert got.tolist() == [[70001, 70001], [0, 0], [0, 0]]
