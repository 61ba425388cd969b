"""Many small captured training steps: what lives, and what memory is held, as they go on.

python benchmarks/soak.py [--device cpu|webgpu|both] [--steps 100000] [--samples 20]

A step is a small network in bfloat16 autocast with dropout, clipping, AdamW and a schedule. Objects
that live (all that Python's collector knows, tensors, storages, nodes) and the process's memory are
sampled at equal distances; the last lines of a device say how much grew since the second sample,
and of which types. On webgpu GPUBindGroup may grow by some hundreds, and then no more: one is kept
for each set of buffers that a dispatch has met, 8,192 at most, and the pool may take a few more
buffers as it goes.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight import nn
from rushlight.core.tensor.autograd import Node
from rushlight.core.tensor.storage import Storage

KINDS = ("objects", "tensors", "storages", "nodes")


def training(device: str) -> Callable[[], rl.Tensor]:
    """A function that takes a captured step and returns its loss."""
    rl.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4)
    ).to(device)
    optimizer = rl.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = rl.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    x = rl.randn(32, 16, device=device)
    y = rl.randint(0, 4, (32,), device=device)

    @rl.jit
    def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        with rl.autocast(device, rl.bfloat16):
            loss: rl.Tensor = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    def run() -> rl.Tensor:
        loss = step(x + 0.01, y)
        schedule.step()
        return loss

    return run


def living() -> dict[str, Any]:
    """How many objects there are, by kind, and by the name of their type."""
    gc.collect()
    every = gc.get_objects()
    types = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in every)
    counts: dict[str, Any] = {"objects": len(every), "types": types}
    for name, kind in (("tensors", rl.Tensor), ("storages", Storage), ("nodes", Node)):
        counts[name] = sum(isinstance(each, kind) for each in every)
    return counts


def memory() -> int:
    """Bytes of the process: resident, or the most so far where that is not told."""
    told = Path("/proc/self/statm")
    if told.is_file():
        return int(told.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def soak(device: str, steps: int, samples: int) -> Iterator[dict[str, Any]]:
    """Take the steps; a sample after each part of them."""
    run, began = training(device), time.perf_counter()
    loss = run()
    for number in range(1, steps + 1):
        loss = run()
        if number % max(1, steps // samples) == 0:
            value = loss.item()
            yield {
                "step": number,
                "loss": value,
                **living(),
                "memory": memory(),
                "seconds": time.perf_counter() - began,
            }


def main() -> None:
    """Print the samples of each device, and what grew."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--device", default="both", choices=("cpu", "webgpu", "both"))
    arguments.add_argument("--steps", type=int, default=100_000)
    arguments.add_argument("--samples", type=int, default=20)
    args = arguments.parse_args()
    for device in ("cpu", "webgpu") if args.device == "both" else (args.device,):
        samples = []
        for sample in soak(device, args.steps, args.samples):
            samples.append(sample)
            counts = ", ".join(f"{sample[kind]} {kind}" for kind in KINDS)
            print(
                f"{device} step {sample['step']}: loss {sample['loss']:.4f}, {counts}, "
                f"{sample['memory'] / 1e6:.1f} MB, {sample['seconds']:.1f} s",
                flush=True,
            )
        first, last = samples[min(1, len(samples) - 1)], samples[-1]
        grown = ", ".join(f"{last[kind] - first[kind]:+d} {kind}" for kind in KINDS)
        print(
            f"{device}: since step {first['step']} {grown}, "
            f"{(last['memory'] - first['memory']) / 1e6:+.1f} MB"
        )
        more = (last["types"] - first["types"]).most_common(8)
        print(f"{device}: {', '.join(f'{count:+d} {name}' for name, count in more)}")


if __name__ == "__main__":
    main()
