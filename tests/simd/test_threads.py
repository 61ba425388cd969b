"""The pool of threads: workers keep off the caller's core, and wake for jobs after a pause."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.native


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2,
    reason="a rule of Linux, for two cores or more",
)
def test_workers_may_use_all_cores_but_the_callers() -> None:
    """Linux may wake a worker on the caller's core, where it waits though another one is idle."""
    before = rl.get_num_threads()
    mine = os.sched_getaffinity(0)
    x = rl.randn(512, 512)
    try:
        rl.set_num_threads(3)
        for core in sorted(mine)[:2]:
            os.sched_setaffinity(0, {core})  # this thread alone
            time.sleep(0.01)
            os.sched_setaffinity(0, mine)
            wanted = None
            for _ in range(200):  # until the thread stays on one core for a whole product
                here = _core()
                _ = x @ x
                if _core() == here:
                    wanted = mine - {here}
                    break
            tasks = [int(one.name) for one in Path("/proc/self/task").iterdir()]
            allowed = [os.sched_getaffinity(task) for task in tasks]
            assert wanted in allowed, (wanted, allowed)
    finally:
        os.sched_setaffinity(0, mine)
        rl.set_num_threads(before)


def _core() -> int:
    """The core that this thread is on."""
    stat = Path(f"/proc/self/task/{threading.get_native_id()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[36])


@pytest.mark.parametrize("shape", [(600, 70), (3, 20_000), (20_000, 3), (5, 90, 80), (40_000,)])
def test_parts_of_threads_are_what_one_thread_does(shape: tuple[int, ...]) -> None:
    """Bit by bit, along every dim, with indices of fewer or more places than the tensor has."""
    draws = np.random.default_rng(1)
    before = rl.get_num_threads()

    def normal(shape: Any) -> rl.Tensor:
        return rl.from_numpy(draws.standard_normal(shape).astype(np.float32))

    x = normal(shape)
    try:
        for dim, size in enumerate(shape):
            longer = [n + 3 if d == dim else n for d, n in enumerate(shape)]
            fewer = [n + 3 if d == dim else max(1, n - 1) for d, n in enumerate(shape)]
            every, some = (rl.from_numpy(draws.integers(0, size, part)) for part in (longer, fewer))
            places = rl.from_numpy(draws.integers(0, size, size + 5))
            source, added = normal(fewer), normal([*shape[:dim], size + 5, *shape[dim + 1 :]])
            outside = every.clone()
            outside[..., -1] = size
            found: list[list[Any]] = []
            for threads in (1, 3):
                rl.set_num_threads(threads)
                copied: Any = x.clone()
                made = (
                    x.gather(dim, every),
                    x.gather(dim, some),
                    x.scatter(dim, some, source),
                    x.scatter_add(dim, some, source),
                    x.index_select(dim, places),
                    x.index_add(dim, places, added),
                    x.sum(),
                    x.t().sum() if x.ndim == 2 else x,
                    copied.scatter_add_(dim, some, source),
                )
                found.append([part.numpy() for part in made])
                with pytest.raises(IndexError, match="gather"):
                    x.gather(dim, outside)
            for one, several in zip(*found, strict=True):
                assert one.tobytes() == several.tobytes()
            wanted = np.take_along_axis(x.numpy(), every.numpy(), dim)
            assert (x.gather(dim, every).numpy() == wanted).all()
            assert (found[1][4] == np.take(x.numpy(), places.numpy(), dim)).all()
    finally:
        rl.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["int64", "int16", "float32", "float64"])
@pytest.mark.parametrize("step", [1, -7])
def test_a_range_in_parts_is_the_range(dtype: str, step: int) -> None:
    """The numbers of a part are counted on from its first."""
    count, before = 70_003, rl.get_num_threads()
    wanted = 5 + np.arange(count) * step
    try:
        for threads in (1, 3):
            rl.set_num_threads(threads)
            found = rl.arange(5, 5 + count * step, step, dtype=dtype).numpy()
            assert (found == wanted.astype(dtype)).all()
    finally:
        rl.set_num_threads(before)


def test_an_index_beyond_adds_nothing() -> None:
    x = rl.zeros(300, 300)
    index = rl.full((300, 300), 7, dtype="int64")
    for place, wrong in (((0, 0), 300), ((299, 299), -1), ((150, 3), 2**40)):
        bad = index.clone()
        bad[place] = wrong
        with pytest.raises(IndexError, match="scatter_add"):
            x.scatter_add(1, bad, rl.ones(300, 300))
    assert (x.scatter_add(1, index, rl.ones(300, 300))[:, 7] == 300).all() and not x.any()


def test_a_row_without_elements_has_no_index() -> None:
    """Nothing is read or written where no element is."""
    index = rl.zeros(3, 5, dtype="int64")
    with pytest.raises(IndexError, match="gather"):
        rl.zeros(3, 0).gather(1, index)
    with pytest.raises(IndexError, match="scatter_add"):
        rl.zeros(3, 0).scatter_add(1, index, rl.ones(3, 5))


def test_jobs_after_a_pause_are_done_whole() -> None:
    """Workers that sleep, spin or give way take part, or are too late: no item is lost."""
    before = rl.get_num_threads()
    a = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)
    x, wanted = rl.from_numpy(a), a.astype(np.float64) @ a
    try:
        rl.set_num_threads(3)
        for pause in (0, 0.0003, 0.003, 0.03) * 5:
            time.sleep(pause)
            for _ in range(5):
                np.testing.assert_allclose((x @ x).numpy(), wanted, atol=1e-3)
    finally:
        rl.set_num_threads(before)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_copies_in_parts_are_what_one_thread_copies(order: tuple[int, ...]) -> None:
    """Parts with many runs of their own: what an item shares out is done by its thread."""
    draws = np.random.default_rng(2)
    x = rl.tensor(draws.normal(size=(90, 70, 180)).astype(np.float32))[:, ::2, 1:-1]
    other = rl.tensor(draws.normal(size=(35, 90, 178)).astype(np.float32)).transpose(0, 1)
    yes = rl.tensor(draws.random((90, 35, 178)) < 0.5)
    index = rl.tensor(draws.integers(0, 35, (90, 35, 178)))
    before = rl.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            rl.set_num_threads(threads)
            made = (
                x.permute(order).contiguous(),
                rl.where(yes, x, other),
                x.clone(),
                rl.where(yes, x, 0.0),
                other.scatter(1, index, x),
                other.permute(order).half(),
            )
            found.append([t.numpy() for t in made])
    finally:
        rl.set_num_threads(before)
    for again in found[1:]:
        for mine, whole in zip(again, found[0], strict=True):
            np.testing.assert_array_equal(mine, whole)
    wanted = np.where(yes.numpy(), x.numpy(), other.numpy())
    np.testing.assert_array_equal(found[0][1], wanted)
    np.testing.assert_array_equal(found[0][0], x.numpy().transpose(order))
