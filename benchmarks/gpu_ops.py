"""The operators that benchmarks/gpu.py times: the same calls for Rushlight and for PyTorch.

A case names one call, what it computes and what it must move; `make` takes the library (`rushlight`
or `torch`), a device of it and its `nn.functional`, and returns the call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

Make = Callable[[Any, str, Any], Callable[[], Any]]
ROUNDS = 5


class Case(NamedTuple):
    """A call that is repeated `times` times between two waits."""

    name: str
    make: Make
    flops: float  # of one call
    nbytes: float  # that one call must read and write
    times: int


def _product(n: int, dtype: str) -> Make:
    def make(lib: Any, device: str, _: Any) -> Callable[[], Any]:
        x, y = (lib.randn(n, n, device=device).to(getattr(lib, dtype)) for _ in range(2))
        return lambda: x @ y

    return make


def _of(shape: tuple[int, ...], call: Callable[[Any, Any, Any], Any]) -> Make:
    """A call of one random float32 tensor: call(tensor, library, functional)."""

    def make(lib: Any, device: str, functional: Any) -> Callable[[], Any]:
        x = lib.randn(*shape, device=device)
        return lambda: call(x, lib, functional)

    return make


def _attention(length: int) -> Make:
    def make(lib: Any, device: str, functional: Any) -> Callable[[], Any]:
        q, k, v = (lib.randn(1, 32, length, 64, device=device) for _ in range(3))
        return lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return make


def _convolution(batch: int, channels: int, side: int) -> Make:
    def make(lib: Any, device: str, functional: Any) -> Callable[[], Any]:
        x = lib.randn(batch, channels, side, side, device=device)
        w = lib.randn(channels, channels, 3, 3, device=device)
        return lambda: functional.conv2d(x, w, padding=1)

    return make


def _rows(count: int, width: int) -> Make:
    def make(lib: Any, device: str, _: Any) -> Callable[[], Any]:
        x = lib.randn(count, width, device=device)
        order = lib.arange(count - 1, -1, -1, device=device)
        return lambda: x[order]

    return make


def _scattered(count: int, width: int) -> Make:
    def make(lib: Any, device: str, _: Any) -> Callable[[], Any]:
        x, rows = (lib.randn(count, width, device=device) for _ in range(2))
        order = lib.arange(count - 1, -1, -1, device=device)
        return lambda: x.index_add(0, order, rows)

    return make


def _chosen(count: int) -> Make:
    def make(lib: Any, device: str, _: Any) -> Callable[[], Any]:
        x, y = (lib.randn(count, device=device) for _ in range(2))
        mask = x > 0
        return lambda: lib.where(mask, x, y)

    return make


def _sum_of_two(count: int) -> Make:
    def make(lib: Any, device: str, _: Any) -> Callable[[], Any]:
        x, y = (lib.randn(count, device=device) for _ in range(2))
        return lambda: x + y

    return make


def _layer_norm(rows: int, width: int) -> Make:
    def make(lib: Any, device: str, functional: Any) -> Callable[[], Any]:
        x, w = lib.randn(rows, width, device=device), lib.ones(width, device=device)
        return lambda: functional.layer_norm(x, (width,), w, w)

    return make


def cases(smoke: bool) -> list[Case]:
    """All cases; smoke: of sizes that a software adapter computes in seconds."""
    sizes = (32, 64) if smoke else (1024, 2048, 4096)
    many = 1 << (12 if smoke else 26)
    rows, width = (32, 64) if smoke else (4096, 8192)
    lengths = (32,) if smoke else (2048, 8192)
    batch, channels, side = (1, 8, 8) if smoke else (16, 128, 56)
    table, features = (64, 16) if smoke else (65536, 512)
    keys = 1 << (10 if smoke else 22)
    flat = rows * width
    found = [
        Case(f"matmul {n} {dtype}", _product(n, dtype), 2.0 * n**3, 3.0 * size * n * n, 10)
        for dtype, size in (("float32", 4), ("float16", 2))
        for n in sizes
    ]
    found += [
        Case(
            f"attention, causal, 32 x {n} x 64",
            _attention(n),
            2.0 * 32 * n * n * 64,
            16.0 * 32 * n * 64,
            3,
        )
        for n in lengths
    ]
    taps = 2.0 * batch * channels**2 * 9 * side**2
    found += [
        Case(
            f"conv 3 x 3, {batch} x {channels} x {side} x {side}",
            _convolution(batch, channels, side),
            taps,
            8.0 * batch * channels * side**2,
            10,
        ),
        Case(f"add {many}", _sum_of_two(many), many, 12.0 * many, 10),
        Case(f"where {many}", _chosen(many), many, 13.0 * many, 10),
        Case(f"sum {many}", _of((many,), lambda x, *_: x.sum()), many, 4.0 * many, 10),
        Case(
            f"sum of rows {rows} x {width}",
            _of((rows, width), lambda x, *_: x.sum(1)),
            flat,
            4.0 * flat,
            10,
        ),
        Case(
            f"sum of columns {rows} x {width}",
            _of((rows, width), lambda x, *_: x.sum(0)),
            flat,
            4.0 * flat,
            10,
        ),
        Case(
            f"softmax {rows} x {width}",
            _of((rows, width), lambda x, *_: x.softmax(-1)),
            5.0 * flat,
            8.0 * flat,
            10,
        ),
        Case(f"layer_norm {rows} x {width}", _layer_norm(rows, width), 8.0 * flat, 8.0 * flat, 10),
        Case(
            f"transposed copy {rows} x {width}",
            _of((rows, width), lambda x, *_: x.t().contiguous()),
            0.0,
            8.0 * flat,
            10,
        ),
        Case(
            f"rows by index {table} x {features}",
            _rows(table, features),
            0.0,
            8.0 * table * features,
            10,
        ),
        Case(
            f"index_add {table} x {features}",
            _scattered(table, features),
            1.0 * table * features,
            16.0 * table * features,
            5,
        ),
        Case(f"sort {keys}", _of((keys,), lambda x, lib, _: lib.sort(x)[0]), 0.0, 8.0 * keys, 3),
        Case(f"topk 64 of {keys}", _of((keys,), lambda x, *_: x.topk(64)[0]), 0.0, 4.0 * keys, 3),
        Case(f"cumsum {keys}", _of((keys,), lambda x, *_: x.cumsum(0)), 1.0 * keys, 8.0 * keys, 5),
        Case(
            "add 16, one after another",
            _of((16,), lambda x, *_: x + x),
            16.0,
            192.0,
            20 if smoke else 500,
        ),
    ]
    return found


def timed(case: Case, lib: Any, device: str, functional: Any, wait: Callable[[Any], None]) -> Any:
    """Seconds of one call in each round. wait(result): waits until it is computed."""
    call = case.make(lib, device, functional)
    wait(call())
    samples = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(case.times):
            result = call()
        wait(result)
        samples.append((time.perf_counter() - began) / case.times)
    return samples


def row(case: Case, seconds: float, peer: float | None) -> list[object]:
    """A row of the table: microseconds, rates, and the time as a multiple of the peer's."""
    rate = case.flops / seconds / 1e12
    moved = case.nbytes / seconds / 1e9
    theirs = "" if peer is None or math.isnan(peer) else 1e6 * peer
    return [case.name, 1e6 * seconds, rate, moved, theirs, seconds / peer if peer else ""]
