"""Workers that read batches: threads, or processes with copies of the dataset."""

from __future__ import annotations

import copy
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rushlight.core.utils.data.reading import Fetcher, Plan, WorkerInfo, local, numbers_of

Task = tuple[int, int, int, Any]  # pass, its seed, number of the batch, index
Result = tuple[int, int, int, Any]  # worker, pass, number of the batch, the batch
_PATIENCE = 5.0  # seconds for a worker to finish its batch after the last one was wanted


class _Text(str):
    """A message that KeyError shows as it is."""

    __repr__ = str.__str__


class Failure:
    """An error of a worker, which `again` raises here with the worker's traceback."""

    def __init__(self, error: BaseException) -> None:
        self.kind = type(error)
        self.error: BaseException | None = error
        self.trace = "".join(traceback.format_exception(error))

    def __getstate__(self) -> Any:
        return self.kind, None, self.trace  # its traceback cannot be sent to another process

    def __setstate__(self, state: Any) -> None:
        self.kind, self.error, self.trace = state

    def again(self, where: str) -> BaseException:
        """The error, of its type where that takes a message; else a RuntimeError."""
        text = _Text(f"Caught {self.kind.__name__} in DataLoader worker {where}.\n{self.trace}")
        copied: BaseException = RuntimeError(text)
        if self.kind is not StopIteration:
            with suppress(Exception):
                copied = self.kind(text)
        copied.__cause__ = self.error
        return copied


def _work(
    plan: Plan, init: Any, info: WorkerInfo, take: Callable[[], Any], give: Callable[[Any], None]
) -> None:
    """Read the batches that `take` asks for, until it gives None."""
    local.info = info
    failed: Failure | None = None
    fetcher, current = None, -1
    if init is not None:
        try:
            with numbers_of(info.seed, 0):
                init(info.id)
        except Exception as error:
            failed = Failure(error)
    while (task := take()) is not None:
        turn, seed, batch, index = task
        result: Any = failed
        failed = None
        if result is None:
            try:
                if fetcher is None or turn != current:
                    # The samples of a stream differ between workers, their numbers must too.
                    shift = info.id if plan.streams else 0
                    fetcher, current = Fetcher(plan.of(info.dataset), seed + shift), turn
                result = fetcher.fetch(batch, index)
            except BaseException as error:
                if not isinstance(error, Exception) and info.worker_method == "process":
                    raise
                result = Failure(error)
        give((info.id, turn, batch, result))


class Threads:
    """Workers in threads of this process. Each has a shallow copy of the dataset."""

    name = "thread"

    def __init__(self, plan: Plan, count: int, seed: int, init: Any) -> None:
        self._out: queue.SimpleQueue[Result] = queue.SimpleQueue()
        self._in: list[queue.SimpleQueue[Task | None]] = []
        self._stop = threading.Event()
        self._threads = []
        for number in range(count):
            dataset = plan.dataset
            with suppress(Exception):  # what cannot be copied is shared
                dataset = copy.copy(dataset)
            info = WorkerInfo(number, count, seed + number, dataset)
            inbox: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
            self._in.append(inbox)
            take = _until(self._stop, inbox)
            thread = threading.Thread(
                target=_work,
                args=(plan, init, info, take, self._out.put),
                daemon=True,
                name=f"DataLoader {number}",
            )
            thread.start()
            self._threads.append(thread)

    def send(self, worker: int, task: Task) -> None:
        """Ask a worker for a batch."""
        self._in[worker].put(task)

    def receive(self, timeout: float | None) -> Result:
        """The next batch that is ready. queue.Empty after `timeout` seconds."""
        return self._out.get(timeout=timeout)

    def close(self) -> None:
        """End the workers after the batch that each is reading."""
        self._stop.set()
        for inbox in self._in:
            inbox.put(None)
        until = time.monotonic() + _PATIENCE
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))


def _until(
    stop: threading.Event, inbox: queue.SimpleQueue[Task | None]
) -> Callable[[], Task | None]:
    def take() -> Task | None:
        task = inbox.get()
        return None if stop.is_set() else task

    return take


class Processes:
    """Workers in processes, started by a context of multiprocessing."""

    name = "process"

    def __init__(self, plan: Plan, count: int, seed: int, init: Any, context: Any) -> None:
        self._processes: list[Any] = []
        self._ends: list[Any] = []
        try:
            for number in range(count):
                ours, theirs = context.Pipe()
                self._ends.append(ours)
                info = WorkerInfo(number, count, seed + number, plan.dataset, "process")
                process = context.Process(
                    target=_process, args=(plan.of(None), init, info, theirs), daemon=True
                )
                process.start()
                theirs.close()
                self._processes.append(process)
        except BaseException:
            self.close()
            raise

    def send(self, worker: int, task: Task) -> None:
        """Ask a worker for a batch."""
        try:
            self._ends[worker].send(task)
        except OSError:
            raise self._ended(worker) from None

    def receive(self, timeout: float | None) -> Result:
        """The next batch that is ready. queue.Empty after `timeout` seconds."""
        from multiprocessing.connection import wait

        sentinels = {p.sentinel: i for i, p in enumerate(self._processes)}
        ready: list[Any] = wait([*self._ends, *sentinels], timeout)
        if not ready:
            raise queue.Empty
        for connection in ready:
            if connection not in sentinels:
                try:
                    result: Result = connection.recv()
                except (EOFError, OSError):
                    raise self._ended(self._ends.index(connection)) from None
                return result
        raise self._ended(sentinels[ready[0]])

    def _ended(self, worker: int) -> RuntimeError:
        process = self._processes[worker]
        process.join(1)
        return RuntimeError(
            f"DataLoader worker {worker} (process {process.pid}) exited "
            f"unexpectedly with code {process.exitcode}"
        )

    def close(self) -> None:
        """End the workers; one that does not end soon is killed."""
        for end in self._ends:
            with suppress(OSError):
                end.send(None)
            end.close()
        until = time.monotonic() + _PATIENCE
        for process in self._processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join(_PATIENCE)


def _process(plan: Plan, init: Any, info: WorkerInfo, end: Any) -> None:
    """The main function of a worker's process."""
    from rushlight.core.backends import set_num_threads

    set_num_threads(1)
    for name in ("random", "numpy.random"):  # libraries of the dataset draw from these
        if (library := sys.modules.get(name)) is not None:
            library.seed(info.seed % 2**32)
    # A thread takes the tasks: a main process that sends one never waits for a batch to be read.
    inbox: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(end, inbox), daemon=True).start()

    def give(result: Any) -> None:
        try:
            end.send(result)
        except OSError:  # nobody waits any more
            inbox.put(None)
        except Exception as error:  # what cannot be pickled
            end.send((*result[:3], Failure(RuntimeError(f"the batch cannot be sent: {error}"))))

    with suppress(KeyboardInterrupt):
        _work(plan, init, info, inbox.get, give)


def _listen(end: Any, inbox: queue.SimpleQueue[Task | None]) -> None:
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    waited = [end] if parent is None else [end, parent.sentinel]
    try:
        while end in wait(waited) and (task := end.recv()) is not None:
            inbox.put(task)
    except (EOFError, OSError):
        pass
    while True:  # drop what nobody waits for
        with suppress(queue.Empty):
            inbox.get_nowait()
            continue
        break
    inbox.put(None)
