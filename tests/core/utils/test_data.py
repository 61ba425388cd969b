"""Datasets, samplers and DataLoader: torch's facts, workers of both kinds, seeds, errors."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.utils import data

# What takes workers cannot run in the tab, which has no threads.
native = pytest.mark.native
Point = namedtuple("Point", ["x", "y"])


class Stream(data.IterableDataset[int]):
    """The numbers below `end`; a copy in a worker may read a part of them."""

    def __init__(self, end: int) -> None:
        self.start, self.end = 0, end

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.end))

    def __len__(self) -> int:
        return self.end - self.start


class Told(data.IterableDataset[Any]):
    """What a worker is told, three times."""

    def __iter__(self) -> Iterator[Any]:
        info = data.get_worker_info()
        assert info is not None
        yield from [(info.id, info.num_workers, info.dataset is self)] * 3


def parts(worker: int) -> None:
    """A worker_init_fn as torch's documentation has it: each reads its part of a Stream."""
    info = data.get_worker_info()
    assert info is not None and info.id == worker
    each = -(-len(info.dataset) // info.num_workers)
    start, end = worker * each, info.dataset.end
    info.dataset.start, info.dataset.end = min(start, end), min(start + each, end)


class Noisy(data.Dataset[Any]):
    """Samples that draw random numbers, as an augmentation does."""

    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> Any:
        return rl.rand(2), index


class Faulty(data.Dataset[Any]):
    """Sample 2 fails in the way that was asked for."""

    def __init__(self, how: Callable[[], Any]) -> None:
        self.how = how

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return self.how() if index == 2 else index


def missing() -> None:
    raise KeyError("no such sample")


def done() -> None:
    raise StopIteration


def killed() -> None:
    os._exit(3)


def slow() -> int:
    time.sleep(2)
    return 2


def lock() -> Any:
    return threading.Lock()


def shown(value: Any) -> Any:
    """A value as the golden file holds it."""
    if isinstance(value, rl.Tensor):
        return [value.dtype.name, value.tolist()]
    if isinstance(value, bool | int | float | str | None):
        return value
    if type(value) in (list, tuple) or hasattr(value, "_fields"):
        return {type(value).__name__: [shown(v) for v in value]}
    if isinstance(value, dict):
        return {type(value).__name__: {k: shown(v) for k, v in value.items()}}
    return type(value).__name__


ROWS = data.TensorDataset(rl.arange(6.0).reshape(3, 2), rl.tensor([5, 6, 7]))
NAMES = {"data": data, "np": np, "Point": Point, "rows": ROWS, "Stream": Stream, "Told": Told,
         "parts": parts, "tensor": rl.tensor, "OrderedDict": OrderedDict}  # fmt: skip
# Errors of another type than torch's.
OURS = {"data.TensorDataset(tensor([1]), tensor([1, 2]))": "ValueError"}


@native
@pytest.mark.filterwarnings("ignore:DataLoader. a stream")
def test_everything_is_as_in_torch(golden: Callable[[str], Any]) -> None:
    wrong = {}
    for case, expected in golden("batches").items():
        try:
            found = shown(eval(case, dict(NAMES)))
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            wanted = OURS.get(case, expected["raises"] if "raises" in expected else None)
            found = {"raises": wanted} if wanted in kinds else {"raises": kinds[0]}
            expected = {"raises": wanted}
        if found != expected:
            wrong[case] = found, expected
    assert wrong == {}


def batches(loader: Any) -> list[Any]:
    return [(x.tolist(), y.tolist()) for x, y in loader]


def test_a_seed_gives_the_order_and_the_numbers() -> None:
    orders = []
    for seed in (1, 1, 2):
        rl.manual_seed(seed)
        loader = data.DataLoader(Noisy(), 4, shuffle=True)
        orders.append([batches(loader), batches(loader)])
    assert orders[0] == orders[1] != orders[2]
    first, second = orders[0]
    assert first != second
    assert sorted(i for _, part in first for i in part) == list(range(11))
    generators = [rl.Generator(7), rl.Generator(7)]
    loaders = [data.DataLoader(Noisy(), 3, shuffle=True, generator=g) for g in generators]
    assert batches(loaders[0]) == batches(loaders[1])


def test_the_generator_of_the_device_moves_on_alike() -> None:
    """What a sample draws is the batch's own: it does not shift what the model draws."""
    after = []
    for dataset in (Noisy(), range(11)):
        rl.manual_seed(4)
        list(data.DataLoader(dataset, 4, shuffle=True))
        after.append(rl.rand(3).tolist())
    assert after[0] == after[1]


def test_a_sample_may_seed_its_own_numbers() -> None:
    class Seeded(Noisy):
        def __getitem__(self, index: int) -> Any:
            rl.manual_seed(index)
            return rl.rand(2), index

    rl.manual_seed(2)
    ((x, y),) = data.DataLoader(Seeded(), 11, shuffle=True)
    rl.manual_seed(int(y[3]))
    assert rl.equal(rl.rand(2), x[3])


@pytest.mark.parametrize("start", [0, 1, 2, 3, 9])
def test_a_pass_from_the_middle(start: int) -> None:
    found = []
    for first in (0, start):
        rl.manual_seed(3)
        loader = data.DataLoader(Noisy(), 4, shuffle=True)
        found.append(batches(loader.iterate_from(first)))
    assert found[1] == found[0][start:]
    stream = data.DataLoader(Stream(7), 2)
    whole = [b.tolist() for b in stream]
    assert [b.tolist() for b in stream.iterate_from(start)] == whole[start:]


def test_batches_before_the_start_are_not_read() -> None:
    read: list[int] = []

    class Noted(Noisy):
        def __getitem__(self, index: int) -> Any:
            read.append(index)
            return index

    list(data.DataLoader(Noted(), 4).iterate_from(2))
    assert read == [8, 9, 10]


def test_rows_are_taken_as_samples_are(device: str) -> None:
    x = rl.arange(12, dtype=rl.float32, device=device).reshape(6, 2)
    y = rl.arange(6, device=device)
    rows: Any = data.Subset(data.TensorDataset(x, y), [5, 0, -1, 3])
    one_by_one = data.DataLoader(rows, 3, collate_fn=lambda batch: data.default_collate(batch))
    for got, wanted in zip(data.DataLoader(rows, 3), one_by_one, strict=True):
        assert type(got) is list and [t.device for t in got] == [x.device, x.device]
        assert all(rl.equal(a, b) for a, b in zip(got, wanted, strict=True))


KINDS = [{}, {"multiprocessing_context": "fork"}, {"multiprocessing_context": "spawn"}]


@native
@pytest.mark.parametrize("kind", KINDS, ids=["threads", "fork", "spawn"])
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_give_the_same_batches(kind: Any, workers: int) -> None:
    found = []
    both: list[Any] = [{}, {"num_workers": workers, **kind}]
    for options in both:
        rl.manual_seed(5)
        loader = data.DataLoader(Noisy(), 2, shuffle=True, **options)
        found.append([batches(loader), batches(loader.iterate_from(2))])
    assert found[0] == found[1]
    streams: Any = data.DataLoader(Stream(7), 2, num_workers=2, worker_init_fn=parts, **kind)
    assert [b.tolist() for b in streams] == [[0, 1], [4, 5], [2, 3], [6]]


@native
@pytest.mark.parametrize("kind", KINDS[:2], ids=["threads", "fork"])
def test_persistent_workers_stay(kind: Any) -> None:
    made: list[int] = []

    def init(worker: int) -> None:
        made.append(worker)

    options: Any = {"num_workers": 2, "persistent_workers": True, "worker_init_fn": init, **kind}
    found = []
    both: list[Any] = [{}, options]
    for workers in both:
        rl.manual_seed(5)
        loader = data.DataLoader(Noisy(), 2, shuffle=True, **workers)
        left = iter(loader)
        next(left)  # a pass that is left in the middle
        found.append([batches(loader), batches(loader)])
    assert found[0] == found[1]
    with pytest.raises(RuntimeError, match="a later pass began"):
        list(left)
    if not kind:
        assert sorted(made) == [0, 1]
    # The workers live as long as a pass does whose loader nobody else holds.
    assert len(list(iter(data.DataLoader(Noisy(), 2, **options)))) == len(found[0][0])


@native
@pytest.mark.parametrize("kind", KINDS[:2], ids=["threads", "fork"])
def test_errors_of_workers_are_raised_here(kind: Any) -> None:
    def loader(how: Callable[[], Any], **more: Any) -> Any:
        return iter(data.DataLoader(Faulty(how), 1, num_workers=2, **kind, **more))

    found = loader(missing)
    assert [next(found).tolist(), next(found).tolist()] == [[0], [1]]
    with pytest.raises(KeyError, match="(?s)in DataLoader worker.*0.*no such sample"):
        next(found)
    assert [b.tolist() for b in found] == [[3], [4], [5]]
    with pytest.raises(RuntimeError, match="Caught StopIteration in DataLoader worker"):
        list(loader(done))
    with pytest.raises(ZeroDivisionError, match="Caught ZeroDivisionError in DataLoader worker"):
        list(loader(lambda: 0, worker_init_fn=lambda worker: 1 // 0))
    with pytest.raises(RuntimeError, match=r"no batch within timeout=0\.05 s"):
        list(loader(slow, timeout=0.05))


@native
def test_a_process_that_dies_is_named() -> None:
    options: Any = {"num_workers": 2, "multiprocessing_context": "fork"}
    with pytest.raises(RuntimeError, match=r"worker 0 \(process \d+\) exited.* with code 3"):
        list(data.DataLoader(Faulty(killed), 1, **options))
    with pytest.raises(RuntimeError, match="the batch cannot be sent: .*pickle"):
        list(data.DataLoader(Faulty(lock), None, **options))
    with pytest.raises(Exception, match="pickle"):
        data.DataLoader(
            [1], num_workers=1, multiprocessing_context="spawn", collate_fn=lambda b: b
        ).__iter__()


@native
def test_workers_end_with_the_loop() -> None:
    def running() -> set[Any]:
        threads = {t for t in threading.enumerate() if t.name.startswith("DataLoader")}
        return threads | set(multiprocessing.active_children())

    before = running()
    for options in ({}, {"multiprocessing_context": "fork"}):
        given: Any = options
        for _ in data.DataLoader(range(99), num_workers=2, **given):
            break
        list(data.DataLoader(range(9), num_workers=2, **given))
    assert running() <= before  # what other tests left may end meanwhile


@native
def test_only_so_many_batches_are_read_ahead() -> None:
    read: list[int] = []

    class Noted(Noisy):
        def __getitem__(self, index: int) -> Any:
            read.append(index)
            return index

    loader = iter(data.DataLoader(Noted(), 1, num_workers=2, prefetch_factor=2))
    next(loader)
    for _ in range(100):
        time.sleep(0.001)
    assert len(read) <= 5
    list(loader)
    assert sorted(read) == list(range(11))


@native
def test_batches_as_they_are_ready() -> None:
    last = threading.Event()

    def late() -> int:
        assert last.wait(120)
        return 2

    found: list[int] = []
    for batch in data.DataLoader(Faulty(late), 1, num_workers=3, in_order=False):
        found.append(int(batch))
        if len(found) == 4:
            last.set()
    # The worker that waits has batch 5 too.
    assert sorted(found[:4]) == [0, 1, 3, 4] and found[4:] == [2, 5]


def test_the_browser_reads_in_its_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "emscripten")
    with pytest.warns(UserWarning, match="num_workers=2: the browser has no threads"):
        loader = data.DataLoader(range(5), 2, num_workers=2, persistent_workers=True, timeout=3)
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3], [4]]


def test_a_stream_longer_than_it_says_warns() -> None:
    class Long(Stream):
        def __len__(self) -> int:
            return 2

    loader = data.DataLoader(Long(5), 1)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="a stream of 2 samples, as its length says, gave more"):
        assert len(list(loader)) == 5


def test_an_empty_share_warns() -> None:
    with pytest.warns(UserWarning, match="subset 1 is empty"):
        data.random_split(range(3), [0.9, 0.1])


def test_splits_and_weights_follow_a_generator() -> None:
    made = [
        [s.indices for s in data.random_split(range(9), [4, 5], generator=rl.Generator(1))]
        for _ in "ab"
    ]
    assert made[0] == made[1]
    draws = list(data.WeightedRandomSampler([1, 3], 4000, generator=rl.Generator(2)))
    assert abs(sum(draws) / 4000 - 0.75) < 0.03
    orders = [list(data.RandomSampler(range(9), generator=rl.Generator(3))) for _ in "ab"]
    assert orders[0] == orders[1]
    again = data.RandomSampler(range(9), generator=rl.Generator(3))
    assert list(again) != list(again)


def test_samples_of_different_shapes_say_so() -> None:
    with pytest.raises(rl.errors.ShapeError, match=r"samples have \[1, 2\] parts"):
        data.default_collate([[1], [1, 2]])
    with pytest.raises(rl.errors.ShapeError, match=r"arrays of shapes \(2,\), \(3,\)"):
        data.default_collate([np.zeros(2), np.zeros(3)])
