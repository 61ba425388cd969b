"""What benchmarks/eager.py times: ops on ten elements and on a million, for two libraries.

Rushlight and PyTorch run the same functions, since their names and arguments are the same.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

Ops = dict[str, Callable[[], Any]]


def small(lib: Any) -> Ops:
    """Ops on ten elements: what a call costs."""
    a, b, x = lib.ones(10), lib.ones(10), lib.ones(4, 10)
    mask, rows = lib.tensor([True, False] * 5), [a] * 8
    return {
        "a + b": lambda: a + b,
        "a + 1": lambda: a + 1,
        "exp": a.exp,
        "sum": a.sum,
        "x[0]": lambda: x[0],
        "x[:, 1:]": lambda: x[:, 1:],
        "reshape": lambda: x.reshape(40),
        "stack of 8": lambda: lib.stack(rows),
        "randn": lambda: lib.randn(10),
        "a[mask]": lambda: a[mask],
    }


def arrays() -> dict[str, Any]:
    """The million elements, the same for every library."""
    draw = np.random.default_rng(0)
    return {
        "a": draw.standard_normal((1000, 1000), np.float32),
        "b": draw.standard_normal((1000, 1000), np.float32),
        "index": draw.integers(0, 1000, (1000, 1000)),
        "rows": draw.integers(0, 1000, 1000),
        "image": draw.standard_normal((4, 16, 125, 125), np.float32),
        "kernel": draw.standard_normal((32, 16, 3, 3), np.float32),
        "each": draw.standard_normal((16, 1, 3, 3), np.float32),
    }


def large(lib: Any, nets: Any, from_numpy: Callable[[Any], Any]) -> Ops:
    """Ops on a million elements. nets: the library's nn.functional."""
    t = {name: from_numpy(array) for name, array in arrays().items()}
    a, b, index, rows, image = t["a"], t["b"], t["index"], t["rows"], t["image"]
    mask = a > 0
    leaves = [t[name].clone().requires_grad_() for name in ("image", "kernel", "each")]

    def learned(groups: int) -> Any:
        """A convolution's gradients to the image and to the kernel."""
        x, weight = leaves[0], leaves[1 if groups == 1 else 2]
        x.grad = weight.grad = None
        nets.conv2d(x, weight, padding=1, groups=groups).sum().backward()
        return x.grad

    return {
        "add": lambda: a + b,
        "exp": a.exp,
        "tanh": a.tanh,
        "a > b": lambda: a > b,
        "clamp": lambda: a.clamp(-1, 1),
        "to float16": a.half,
        "to int64": a.long,
        "where": lambda: lib.where(mask, a, b),
        "sum": a.sum,
        "sum, dim 0": lambda: a.sum(0),
        "sum, dim 1": lambda: a.sum(1),
        "max": a.max,
        "argmax, dim 1": lambda: a.argmax(1),
        "any": mask.any,
        "cumsum, dim 1": lambda: a.cumsum(1),
        "a[mask]": lambda: a[mask],
        "nonzero": mask.nonzero,
        "gather, dim 1": lambda: a.gather(1, index),
        "gather, dim 0": lambda: a.gather(0, index),
        "scatter_add": lambda: a.scatter_add(1, index, b),
        "index_select": lambda: a.index_select(0, rows),
        "sort, dim 1": lambda: a.sort(1),
        "sort, flat": lambda: a.reshape(-1).sort(),
        "unique": index.unique,
        "transposed copy": lambda: a.T.contiguous(),
        "arange": lambda: lib.arange(1_000_000),
        "rand": lambda: lib.rand(1000, 1000),
        "randn": lambda: lib.randn(1000, 1000),
        "softmax": lambda: a.softmax(1),
        "layer_norm": lambda: nets.layer_norm(a, (1000,)),
        "batch_norm": lambda: nets.batch_norm(image, None, None, training=True),
        "max_pool2d": lambda: nets.max_pool2d(image, 2),
        "avg_pool2d": lambda: nets.avg_pool2d(image, 2),
        "conv2d": lambda: nets.conv2d(image, t["kernel"], padding=1),
        "depthwise conv2d": lambda: nets.conv2d(image, t["each"], padding=1, groups=16),
        "conv_transpose2d": lambda: nets.conv_transpose2d(image, t["kernel"].transpose(0, 1)),
        "conv2d with gradients": lambda: learned(1),
        "depthwise with gradients": lambda: learned(16),
        "product": lambda: a @ b,
    }


DRAWN = ("rand", "randn")  # no two libraries draw the same numbers


def numpys() -> Ops:
    """What NumPy has of `large`."""
    t = arrays()
    a, b, index, rows = t["a"], t["b"], t["index"], t["rows"]
    mask = a > 0
    return {
        "add": lambda: a + b,
        "exp": lambda: np.exp(a),
        "tanh": lambda: np.tanh(a),
        "a > b": lambda: a > b,
        "clamp": lambda: np.clip(a, -1, 1),
        "to float16": lambda: a.astype(np.float16),
        "to int64": lambda: a.astype(np.int64),
        "where": lambda: np.where(mask, a, b),
        "sum": a.sum,
        "sum, dim 0": lambda: a.sum(0),
        "sum, dim 1": lambda: a.sum(1),
        "max": a.max,
        "argmax, dim 1": lambda: a.argmax(1),
        "any": mask.any,
        "cumsum, dim 1": lambda: a.cumsum(1),
        "a[mask]": lambda: a[mask],
        "nonzero": lambda: np.argwhere(mask),
        "gather, dim 1": lambda: np.take_along_axis(a, index, 1),
        "gather, dim 0": lambda: np.take_along_axis(a, index, 0),
        "index_select": lambda: a[rows],
        "sort, dim 1": lambda: np.sort(a, 1),
        "sort, flat": lambda: np.sort(a.reshape(-1)),
        "unique": lambda: np.unique(index),
        "transposed copy": lambda: np.ascontiguousarray(a.T),
        "arange": lambda: np.arange(1_000_000),
        "product": lambda: a @ b,
    }


def call_seconds(ops: Ops, times: int = 1000) -> dict[str, float]:
    """Seconds of processor time that a call takes; in a tab that is the clock's."""
    seconds = {}
    for name, fn in ops.items():
        fn()
        began = time.process_time()
        for _ in range(times):
            fn()
        seconds[name] = (time.process_time() - began) / times
    return seconds


def measure(rounds: int, times: int) -> dict[str, list[float]]:
    """What a call costs here, per round: for the page."""
    import rushlight as rl

    by_round = [call_seconds(small(rl), times) for _ in range(rounds)]
    return {name: [seconds[name] for seconds in by_round] for name in by_round[0]}


def side(name: str) -> Ops:
    """The ops of "rushlight", "torch" or "numpy"."""
    if name == "numpy":
        return numpys()
    lib = import_module(name)
    return large(lib, lib.nn.functional, lib.from_numpy)


def best_seconds(ops: Ops) -> dict[str, float]:
    """Seconds of each op, the best of five calls."""
    best = dict.fromkeys(ops, float("inf"))
    for name, fn in ops.items():
        for _ in range(5):
            began = time.perf_counter()
            fn()
            best[name] = min(best[name], time.perf_counter() - began)
    return best


if __name__ == "__main__":
    chosen, threads = sys.argv[1:]
    timed = side(chosen)
    if chosen != "numpy":
        import_module(chosen).set_num_threads(int(threads))
    for _ in sys.stdin:  # a line for each answer
        print(json.dumps(best_seconds(timed)), flush=True)
