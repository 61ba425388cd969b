"""torch.multiprocessing: Python's own, with torch's `spawn`. Tensors are sent as copies.

A tensor that another process receives has memory of its own: nothing is shared, and writes of one
process are not seen by another. Gradients and weights go through queues and pipes.
"""

from __future__ import annotations

import multiprocessing as _python
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any

from rushlight.core.torch_paths.machine import futures

__all__ = [*_python.__all__, "ProcessContext", "ProcessException", "ProcessExitedException",
           "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies",
           "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes"]  # fmt: skip

_strategy = ["file_system"]
Future = futures.Future


def get_all_sharing_strategies() -> set[str]:
    """torch's names; all of them send copies."""
    return {"file_system", "file_descriptor"}


def get_sharing_strategy() -> str:
    """What was last asked for."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted; tensors are sent as copies. ValueError for names that torch does not know."""
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(
            f"set_sharing_strategy: {new_strategy!r} is not supported; supported: "
            "file_descriptor, file_system"
        )
    _strategy[0] = new_strategy


class ProcessException(Exception):
    """A process of `spawn` failed."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """A process of `spawn` raised; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """A process of `spawn` ended with an exit code that is not 0."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """The processes of `spawn(join=False)`."""

    def __init__(self, processes: list[Any], errors: list[Any]) -> None:
        self.processes, self.errors = processes, errors

    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all have ended: True, or False after the timeout.

        When one fails the others are ended, and ProcessRaisedException or ProcessExitedException
        says which.
        """
        for process in self.processes:
            process.join(timeout)
        failed = [i for i, p in enumerate(self.processes) if p.exitcode not in (0, None)]
        if not failed:
            return all(process.exitcode == 0 for process in self.processes)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()
        index = failed[0]
        process, error = self.processes[index], self.errors[index]
        if not error.empty():
            text = f"process {index} raised:\n\n{error.get()}"
            raise ProcessRaisedException(text, index, process.pid)
        code = process.exitcode
        raise ProcessExitedException(
            f"process {index} ended with exit code {code}", index, process.pid, code
        )


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run fn(i, *args) in a process for each i below nprocs; None, or with join=False a context.

    fn and args are pickled, so fn is a function of a module and tensors arrive as copies.
    """
    context: Any = _python.get_context(start_method)
    errors = [context.SimpleQueue() for _ in range(nprocs)]
    processes = [
        context.Process(target=_run, args=(fn, i, args, errors[i]), daemon=daemon)
        for i in range(nprocs)
    ]
    for process in processes:
        process.start()
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """The same as `start_processes`."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
