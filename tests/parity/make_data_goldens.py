"""What torch's datasets, orders and batches give: tests/core/data/batches.json.

    python tests/parity/make_data_goldens.py

Needs torch (2.13 made the file that is committed). By an expression over `data` (utils.data),
`tensor`, `np` and the names below: its value, or the name of the error's type. Tensors are
[dtype, nested list], tuples {"tuple": [...]}, other types by name.
"""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import data

OUT = Path(__file__).resolve().parents[1] / "core" / "data" / "batches.json"
CASES = """
data.default_collate([1, 2]) | data.default_collate([1.5, 2]) | data.default_collate([True, False])
data.default_collate(["a", "b"]) | data.default_collate([b"a", b"b"])
data.default_collate(("a", "b"))
data.default_collate([np.float32(1), np.float32(2)])
data.default_collate([np.int8(1), np.int8(2)])
data.default_collate([np.zeros((2, 1), "f4"), np.ones((2, 1), "f4")])
data.default_collate([np.array(3), np.array(4)]) | data.default_collate([np.array(["a"])])
data.default_collate([np.array([1, None])]) | data.default_collate([tensor([1, 2]), tensor([3, 4])])
data.default_collate([(1, "a"), (2, "b")]) | data.default_collate([[1, 2.5], [3, 4.5]])
data.default_collate([{"x": 1, "y": (2, 3)}, {"x": 4, "y": (5, 6)}])
data.default_collate([OrderedDict(b=1, a=2), OrderedDict(b=3, a=4)])
data.default_collate([Point(1, tensor([2.0])), Point(3, tensor([4.0]))])
data.default_collate([range(2), range(2)]) | data.default_collate([[1], [1, 2]])
data.default_collate([None, None])
data.default_collate([object()]) | data.default_collate([1j, 2j])
data.default_convert([np.arange(2), (np.float64(1), "a")])
data.default_convert({"a": np.array(["b"]), "c": 1})
list(data.DataLoader(rows)) | list(data.DataLoader(rows, batch_size=2))
list(data.DataLoader(rows, batch_size=2, drop_last=True)) | list(data.DataLoader(rows, None))
list(data.DataLoader(range(5), 2)) | list(data.DataLoader(range(5), batch_size=None))
list(data.DataLoader([np.arange(2), np.arange(3)], None))
list(data.DataLoader([np.arange(2), np.arange(3)], 2))
list(data.DataLoader(range(5), 2, collate_fn=sum)) | list(data.DataLoader("abcd", 3))
list(data.DataLoader(range(9), sampler=[3, 1, 2], batch_size=2))
list(data.DataLoader(range(9), batch_sampler=[[3, 1], [2]])) | list(data.DataLoader([], 2))
len(data.DataLoader(range(5), 2)) | len(data.DataLoader(range(5), 2, drop_last=True))
len(data.DataLoader(range(5), None)) | len(data.DataLoader(range(9), batch_sampler=[[3, 1], [2]]))
data.DataLoader(range(5), 2).batch_sampler.batch_size
data.DataLoader(range(9), batch_sampler=[[3, 1], [2]]).batch_size
list(data.DataLoader(Stream(5), 2)) | list(data.DataLoader(Stream(5), 2, drop_last=True))
list(data.DataLoader(Stream(3), None)) | len(data.DataLoader(Stream(5), 2))
len(data.DataLoader(Stream(5), None)) | list(data.DataLoader(Stream(0), 2))
list(data.DataLoader(Stream(5), 2, num_workers=2)) | list(data.DataLoader(rows, 2, num_workers=2))
list(data.DataLoader(Stream(7), 2, num_workers=3, drop_last=True))
list(data.DataLoader(Stream(7), 2, num_workers=2, worker_init_fn=parts))
list(data.DataLoader(Stream(3), 2, num_workers=5, worker_init_fn=parts))
list(data.DataLoader(range(5), None, num_workers=2))
data.DataLoader(Stream(3), shuffle=True) | data.DataLoader(Stream(3), sampler=[1])
data.DataLoader(Stream(3), batch_sampler=[[1]]) | data.DataLoader([], shuffle=True)
data.DataLoader(rows, shuffle=True, sampler=[1]) | data.DataLoader(rows, 2, batch_sampler=[[1]])
data.DataLoader(rows, shuffle=True, batch_sampler=[[1]]) | data.DataLoader(rows, num_workers=-1)
data.DataLoader(rows, None, drop_last=True) | data.DataLoader(rows, prefetch_factor=2)
data.DataLoader(rows, persistent_workers=True) | data.DataLoader(rows, timeout=-1)
data.DataLoader(rows, num_workers=1, multiprocessing_context="none")
data.DataLoader(rows, multiprocessing_context="fork") | data.DataLoader(rows, 0)
data.DataLoader(rows).__setattr__("batch_size", 3)
rows[1] | rows[-1] | len(rows) | rows[1:3] | data.TensorDataset(tensor([1]), tensor([1, 2]))
(rows + rows)[4] | len(rows + rows) | list(data.ConcatDataset([range(2), "ab", [7]]))
data.ConcatDataset([range(2), "ab"])[-1] | data.ConcatDataset([range(2), "ab"])[4]
data.ConcatDataset([range(2), "ab"])[-5] | data.ConcatDataset([range(2), "ab"]).cumulative_sizes
list(Stream(2) + Stream(3)) | len(data.ChainDataset([Stream(2), Stream(3)]))
data.StackDataset(range(2), "ab")[1] | data.StackDataset(x=range(2), y="ab")[0]
data.StackDataset(range(2), "abc") | data.StackDataset() | data.StackDataset([1], x=[1])
data.StackDataset(range(3), data.Subset("abc", [2, 1, 0])).__getitems__([2, 0])
data.StackDataset(x=range(3), y=rows).__getitems__([1]) | len(data.StackDataset(range(2), "ab"))
data.Subset("abcd", [3, 1])[1] | data.Subset(rows, [2, 0])[[0, 1]] | len(data.Subset("abcd", [3]))
data.Subset("abcd", [3, 1]).__getitems__([1, 0])
list(data.DataLoader(data.Subset(rows, [2, 1]), 2))
[len(s) for s in data.random_split(range(10), [3, 7])]
[len(s) for s in data.random_split(range(10), [0.3, 0.3, 0.4])]
[len(s) for s in data.random_split(range(11), [0.5, 0.25, 0.25])]
[len(s) for s in data.random_split(range(30), [0.35, 0.35, 0.3])]
sorted(i for s in data.random_split(range(7), [0.5, 0.5]) for i in s)
data.random_split(range(10), [3, 6]) | data.random_split(range(10), [1.5, -0.5])
list(data.BatchSampler(data.SequentialSampler(range(5)), 2, False))
list(data.BatchSampler(data.SequentialSampler(range(5)), 2, True))
len(data.BatchSampler(range(5), 2, False)) | len(data.BatchSampler(range(5), 2, True))
data.BatchSampler(range(5), 0, False) | data.BatchSampler(range(5), True, False)
sorted(data.RandomSampler(range(5))) | len(data.RandomSampler(range(5), num_samples=3))
sorted(list(data.RandomSampler(range(3), num_samples=7))[:6])
len(list(data.RandomSampler(range(3), True, 70))) | data.RandomSampler(range(3), num_samples=0)
data.RandomSampler(range(3), replacement=2) | data.RandomSampler([])
sorted(data.SubsetRandomSampler([4, 2, 9])) | len(data.SubsetRandomSampler([4, 2, 9]))
list(data.WeightedRandomSampler([0, 0, 2.0], 3)) | len(data.WeightedRandomSampler([1, 2], 3))
sorted(data.WeightedRandomSampler([0.1, 0, 2.0], 2, replacement=False))
data.WeightedRandomSampler([[1.0]], 2) | data.WeightedRandomSampler([1.0], 0)
data.get_worker_info() | list(data.DataLoader(Told(), 2, num_workers=2))
"""

Point = namedtuple("Point", ["x", "y"])
rows = data.TensorDataset(torch.arange(6.0).reshape(3, 2), torch.tensor([5, 6, 7]))


class Stream(data.IterableDataset):  # type: ignore[misc]
    def __init__(self, end: int) -> None:
        self.start, self.end = 0, end

    def __iter__(self) -> Any:
        return iter(range(self.start, self.end))

    def __len__(self) -> int:
        return self.end - self.start


class Told(data.IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Any:
        info = data.get_worker_info()
        yield from [(info.id, info.num_workers, info.dataset is self)] * 3


def parts(worker: int) -> None:
    info = data.get_worker_info()
    each = -(-len(info.dataset) // info.num_workers)
    start, end = worker * each, info.dataset.end
    info.dataset.start, info.dataset.end = min(start, end), min(start + each, end)


def shown(value: Any) -> Any:
    """A value as JSON holds it."""
    if isinstance(value, torch.Tensor):
        return [str(value.dtype).removeprefix("torch."), value.tolist()]
    if isinstance(value, bool | int | float | str | None):
        return value
    if type(value) in (list, tuple):
        return {type(value).__name__: [shown(v) for v in value]}
    if hasattr(value, "_fields"):
        return {type(value).__name__: [shown(v) for v in value]}
    if isinstance(value, dict):
        return {type(value).__name__: {k: shown(v) for k, v in value.items()}}
    return type(value).__name__


def main() -> None:
    found = {}
    names = {"data": data, "np": np, "Point": Point, "rows": rows, "Stream": Stream, "Told": Told,
             "parts": parts, "tensor": torch.tensor, "OrderedDict": OrderedDict}  # fmt: skip
    for case in (c.strip() for line in CASES.strip().splitlines() for c in line.split(" | ")):
        try:
            found[case] = shown(eval(case, names))
        except Exception as error:
            found[case] = {"raises": type(error).__name__}
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
    OUT.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
