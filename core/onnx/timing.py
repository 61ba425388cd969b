"""Runs a module node by node, with the seconds of each: for tables, the command and the page."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.onnx.module import OnnxModule
from rushlight.core.onnx.planning import Step
from rushlight.core.onnx.proto import Node
from rushlight.core.tensor import autograd
from rushlight.core.tensor.tensor import Tensor

Report = Callable[[int, int | None], None]


@dataclass
class NodeTime:
    """One operator that ran.

    title, op: its words, and its name. shape: the sizes of its first result.

    The seconds are those of the operator alone, with what a device needs to start and end it. node:
    the node of the file that it ran for. It raises nothing.
    """

    title: str
    op: str
    shape: tuple[int, ...]
    seconds: float
    node: Node | None = field(default=None, repr=False, compare=False)


def timed(
    module: OnnxModule, *args: Any, report: Report | None = None, **kwargs: Any
) -> tuple[Any, list[NodeTime]]:
    """The results of a call of `module`, and the time of each node. It blocks between nodes.

    args and kwargs are the inputs, as a call takes them, and what a call raises is raised. report:
    told how many operators ran, of how many. A captured call is faster than the sum, since it joins
    operators.
    """
    times: list[NodeTime] = []
    device = module.device
    last = time.perf_counter()

    def after(number: int, count: int, step: Step, results: list[Any]) -> None:
        nonlocal last
        device.backend.synchronize()
        now = time.perf_counter()
        times.append(_time(step, results, now - last))
        if report is not None:
            report(number, count)
        last = time.perf_counter()

    with autograd.no_grad():
        return module.run_watched(after, args, kwargs), times


async def timed_async(
    module: OnnxModule,
    *args: Any,
    report: Report | None = None,
    look: Callable[[Step, list[Any]], None] | None = None,
    **kwargs: Any,
) -> tuple[Any, list[NodeTime]]:
    """`timed` without blocking, for a page: between two nodes it waits for the device.

    module, args, kwargs, report: as `timed` takes them; what a call raises is raised. look: told of
    each step and its results, outside of the time.
    """
    from asyncio import sleep  # a tenth of what loading a file imports

    times: list[NodeTime] = []
    device = module.device
    last = time.perf_counter()

    async def after(number: int, count: int, step: Step, results: list[Any]) -> None:
        nonlocal last
        await device.synchronize_async()
        times.append(_time(step, results, time.perf_counter() - last))
        if look is not None:
            look(step, results)
        if report is not None:
            report(number, count)
        await sleep(0)  # a page that asks to stop is heard
        last = time.perf_counter()

    return await module.run_watched_async(after, args, kwargs), times


def _time(step: Step, results: list[Any], seconds: float) -> NodeTime:
    first = next((r for r in results if isinstance(r, Tensor)), None)
    shape = () if first is None else tuple(first.shape)
    return NodeTime(step.call.title, step.call.node.op, shape, seconds, step.call.node)
