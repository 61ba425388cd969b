"""Tiny training steps called eagerly on cpu beside PyTorch: in place, recurrent, by hand.

    python benchmarks/small_steps.py

Both libraries are in one process with one thread and take turns; a row is the processor time of a
call. Results are compared first (1e-3 of the largest); draws only by their range.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from statistics import median
from typing import Any

import numpy as np
from measure import markdown, run, step
from peers import TORCH, pypi
from turns import SETTLE_S

ROUNDS, TIMES = 5, 200
DRAWN = ("Categorical.sample",)


def rows(name: str) -> dict[str, Callable[[], Any]]:
    """The calls of one library; those that write start from the same numbers in both."""
    lib = importlib.import_module(name)
    nn, draws = (importlib.import_module(f"{name}.{module}") for module in ("nn", "distributions"))
    numbers = np.random.default_rng(0)

    def tensor(*shape: int) -> Any:
        return lib.from_numpy(numbers.standard_normal(shape, np.float32))

    x, y, mask = tensor(10), tensor(10).abs(), tensor(10) > 0
    calls: dict[str, Callable[[], Any]] = {
        "x.add_(y)": lambda: x.add_(y),
        "x.mul_(0.9)": lambda: x.mul_(0.9),
        "x.add_(y, alpha=0.1)": lambda: x.add_(y, alpha=0.1),
        "x.addcmul_(y, y, value=0.1)": lambda: x.addcmul_(y, y, value=0.1),
        "x.lerp_(y, 0.1)": lambda: x.lerp_(y, 0.1),
        "x.clamp_(-1, 1)": lambda: x.clamp_(-1, 1),
        "x.sigmoid_()": lambda: x.sigmoid_(),
        "x.masked_fill_(mask, 1)": lambda: x.masked_fill_(mask, 1.0),
        "x.copy_(y)": lambda: x.copy_(y),
        "x.zero_()": lambda: x.zero_(),
        "Categorical.sample": draws.Categorical(lib.tensor([0.1, 0.2, 0.3, 0.4])).sample,
    }
    for kind in ("LSTM", "GRU", "RNN"):
        for width, size, length, batch in ((8, 8, 10, 1), (16, 32, 20, 4)):
            net = _filled(getattr(nn, kind)(width, size), tensor)
            label = f"{kind}({width}, {size}), {length} steps of {batch}, and backward"
            calls[label] = _layer(net, tensor(length, batch, width))
        cell = _filled(getattr(nn, f"{kind}Cell")(8, 8), tensor)
        calls[f"{kind}Cell(8, 8), 10 steps of 2, and backward"] = _cells(cell, tensor(10, 2, 8))
    for label, optimizer in (("SGD", _sgd), ("momentum", _momentum), ("Adam", _adam)):
        weights = [tensor(20, 20).requires_grad_() for _ in range(4)]
        for weight in weights:
            weight.grad = tensor(20, 20)
        calls[f"{label} by hand, 4 tensors of 20 x 20"] = optimizer(lib, weights)
    return calls


def _filled(net: Any, tensor: Callable[..., Any]) -> Any:
    for p in net.parameters():
        p.data = tensor(*p.shape) / 4
    return net


def _layer(net: Any, x: Any) -> Callable[[], Any]:
    def call() -> Any:
        net.weight_hh_l0.grad = None
        net(x)[0].square().sum().backward()
        return net.weight_hh_l0.grad

    return call


def _cells(cell: Any, x: Any) -> Callable[[], Any]:
    def call() -> Any:
        cell.weight_hh.grad = None
        state: Any = None
        for now in x:
            state = cell(now, state)
        (state[0] if isinstance(state, tuple) else state).square().sum().backward()
        return cell.weight_hh.grad

    return call


def _sgd(lib: Any, weights: list[Any]) -> Callable[[], Any]:
    def call() -> Any:
        with lib.no_grad():
            for w in weights:
                w -= 1e-3 * w.grad
        return weights[0]

    return call


def _momentum(lib: Any, weights: list[Any]) -> Callable[[], Any]:
    means = [lib.zeros(20, 20) for _ in weights]

    def call() -> Any:
        with lib.no_grad():
            for w, m in zip(weights, means, strict=True):
                m.mul_(0.9).add_(w.grad)
                w.add_(m, alpha=-1e-3)
        return weights[0]

    return call


def _adam(lib: Any, weights: list[Any]) -> Callable[[], Any]:
    means, squares = ([lib.zeros(20, 20) for _ in weights] for _ in range(2))

    def call() -> Any:
        with lib.no_grad():
            for w, m, v in zip(weights, means, squares, strict=True):
                m.mul_(0.9).add_(w.grad, alpha=0.1)
                v.mul_(0.999).addcmul_(w.grad, w.grad, value=0.001)
                w.addcdiv_(m / 0.1, (v / 0.1).sqrt().add_(1e-8), value=-1e-3)
        return weights[0]

    return call


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """In one process, one thread each."""
    sys.path.append(str(pypi(TORCH)))
    libraries = {name: importlib.import_module(name) for name in ("rushlight", "torch")}
    for lib in libraries.values():
        lib.set_num_threads(1)
    sides = {name: rows(name) for name in libraries}
    with step("compare the results"):
        _compare(sides["rushlight"], sides["torch"])
    seconds: dict[str, dict[str, list[float]]] = {name: {} for name in sides}
    with step("time them"):
        for _ in range(ROUNDS):
            for name, calls in sides.items():
                time.sleep(SETTLE_S)
                for label, call in calls.items():
                    seconds[name].setdefault(label, []).append(_seconds(call))
    return {
        "samples": seconds,
        "versions": {
            "python": platform.python_version(),
            "torch": libraries["torch"].__version__,
            "numpy": np.__version__,
            "rushlight": version("rushlight"),
        },
    }


def _compare(ours: dict[str, Callable[[], Any]], theirs: dict[str, Callable[[], Any]]) -> None:
    for label, call in ours.items():
        a, b = (np.asarray(x.detach().numpy()) for x in (call(), theirs[label]()))
        if label in DRAWN:
            good = a.shape == b.shape and bool(0 <= a < 4)
        else:
            close = 1e-3 * max(np.abs(b).max(), 1e-3)
            good = a.shape == b.shape and bool(np.allclose(a, b, rtol=0, atol=close))
        if not good:
            raise SystemExit(f"{label}: the results differ: {a}, {b}")


def _seconds(call: Callable[[], Any]) -> float:
    began = time.process_time()
    for _ in range(TIMES):
        call()
    return (time.process_time() - began) / TIMES


def table(found: dict[str, Any]) -> str:
    """Microseconds of a call, and times torch's."""
    ours, theirs = (
        {label: 1e6 * median(times) for label, times in found["samples"][side].items()}
        for side in ("rushlight", "torch")
    )
    lines = [[label, ours[label], theirs[label], ours[label] / theirs[label]] for label in ours]
    return markdown(["microseconds", "rushlight", "torch", "times torch"], lines)


if __name__ == "__main__":
    run("small_steps", __doc__, {"native": native}, table)
