"""Memory of freed tensors serves the next ones, and never one that something still refers to."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.backends.cpu import memory

pytestmark = pytest.mark.native
N = 1 << 16  # of float32: 256 KB


@pytest.fixture(autouse=True)
def nothing_free() -> None:
    gc.collect()
    memory._idle.clear()


def free() -> int:
    """Bytes that wait for a tensor."""
    return sum(n * len(arrays) for n, arrays in memory._idle.items())


def test_a_freed_tensors_memory_is_the_next_ones() -> None:
    x = rl.ones(N)
    address = x.storage.address
    del x
    assert free() == 4 * N
    x = rl.zeros(N)
    assert x.storage.address == address and not free()
    del x
    y = rl.zeros(N // 2)  # of another size
    assert y.storage.address != address and free() == 4 * N


@pytest.mark.parametrize(
    "refer",
    [
        lambda x: x[5:7],
        lambda x: x.numpy(),
        lambda x: x.numpy()[3:][::2],
        np.asarray,
        lambda x: memoryview(x.numpy()),
        lambda x: x.view(2, -1),
        np.from_dlpack,
    ],
)
def test_what_refers_to_memory_keeps_it(refer: Callable[[rl.Tensor], Any]) -> None:
    x = rl.ones(N)
    held = refer(x)
    del x
    others = [rl.zeros(N) for _ in range(3)]
    assert free() == 0 and np.asarray(held).reshape(-1)[0] != 0
    del held
    assert free() == 4 * N
    del others


def test_small_and_vast_memory_is_the_systems() -> None:
    for n in (16, (1 << 24) // 4 + 1):
        x = rl.ones(n)
        assert x.sum().item() == n
        del x
        assert free() == 0


def test_what_is_kept_is_bounded() -> None:
    many = [rl.ones(1 << 20) for _ in range(20)]
    del many
    assert 0 < free() <= memory.MOST_IDLE


def test_threads_do_not_share_memory() -> None:
    wrong = []

    def work(value: int) -> None:
        for _ in range(200):
            x = rl.full((N,), value)
            y = x + x
            if not (y.numpy() == 2 * value).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
