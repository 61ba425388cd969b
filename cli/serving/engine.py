"""The engine: one thread that does the work of all requests, a small step of each in turn."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

from rushlight.cli.serving.caches import Caches
from rushlight.core.backends.readback import Readback
from rushlight.core.basis.errors import RushlightError
from rushlight.models.generation import rows as beside
from rushlight.models.generation.prefill import read_ahead
from rushlight.models.generation.steps import Token
from rushlight.models.generation.streaming import Pieces
from rushlight.models.serving.errors import ApiError
from rushlight.models.tasks.record import Progress

log = logging.getLogger("rushlight.serve")

CHUNK = 128  # tokens of a prompt between two tokens of other answers
# What a piece of work does: each `next` is a small step.
Work = Generator[None, None, None]


@dataclass(frozen=True)
class Begun:
    """An answer's prompt is read: its tokens, and those of them that a cache held."""

    index: int
    prompt: int
    cached: int


@dataclass(frozen=True)
class Wrote:
    """A token of an answer."""

    index: int
    token: Token


@dataclass(frozen=True)
class Ended:
    """An answer has ended; late: as its request's time was over."""

    index: int
    late: bool = False


@dataclass(frozen=True)
class Value:
    """The result of a task."""

    value: Any


@dataclass(frozen=True)
class Over:
    """A request's work is done; error: or has failed."""

    error: ApiError | None = None


@dataclass(eq=False)
class Job:
    """The work of a request. client: whose turn it takes. until: when its time is over.

    What it produces is put into `events`, in the thread of the event loop.
    """

    client: str
    until: float
    work: Callable[[Job], Work]
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    events: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    cancelled: bool = False
    ended: set[int] = field(default_factory=set)  # answers that nobody waits for any more
    facts: dict[str, Any] = field(default_factory=dict)  # for /slots
    _steps: Work | None = None

    def cancel(self) -> None:
        """Stop the work before its next step: nobody waits for it."""
        self.cancelled = True

    def put(self, event: Any) -> None:
        """Give an event to the event loop."""
        try:
            self.loop.call_soon_threadsafe(self.events.put_nowait, event)
        except RuntimeError:  # the loop is closed: nobody listens
            self.cancelled = True

    @property
    def late(self) -> bool:
        """Whether its time is over."""
        return time.monotonic() > self.until

    def step(self) -> bool:
        """Do a step of the work; whether there is more."""
        if self._steps is None:
            self._steps = self.work(self)
        try:
            next(self._steps)
        except StopIteration:
            self.put(Over())
            return False
        except Exception as error:
            self.put(Over(as_api_error(error)))
            return False
        return True

    def close(self) -> None:
        """End the work where it is."""
        if self._steps is not None:
            self._steps.close()


def as_api_error(error: Exception) -> ApiError:
    """What a client is told of an error: its words if it is about what was asked."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ValueError | TypeError | LookupError | RushlightError):
        return ApiError(str(error) or type(error).__name__)
    log.error("a request failed", exc_info=error)
    return ApiError("the server failed; its log says more", status=500, code="internal_error")


class Engine(threading.Thread):
    """Does the work of jobs: a step of each in turn, at most `parallel` at once.

    Others wait, in turn by their clients; more than `most_waiting` are refused.
    """

    def __init__(self, parallel: int = 4, most_waiting: int = 256) -> None:
        super().__init__(name="rushlight-engine", daemon=True)
        self.parallel, self.most_waiting = parallel, most_waiting
        self._changed = threading.Condition()
        self._waiting: OrderedDict[str, deque[Job]] = OrderedDict()
        self._active: list[Job] = []
        self._stopping = False
        self.counts: Counter[str] = Counter()
        self.seconds: dict[str, float] = {"prompt": 0.0, "writing": 0.0}

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return sum(map(len, list(self._waiting.values())))

    @property
    def active(self) -> list[Job]:
        """The jobs that are worked on."""
        return list(self._active)

    def submit(self, job: Job) -> Job:
        """Let a job wait for its turn; ApiError where too many wait, or the server stops."""
        with self._changed:
            if self._stopping:
                raise ApiError("the server is stopping", status=503, code="stopping")
            if self.waiting >= self.most_waiting:
                raise ApiError(
                    f"{self.waiting} requests wait already; try again later",
                    status=503,
                    code="queue_full",
                )
            self._waiting.setdefault(job.client, deque()).append(job)
            self._changed.notify()
        return job

    def stop(self) -> None:
        """End all work and the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        """Work until `stop`."""
        while True:
            with self._changed:
                while not (self._waiting or self._active or self._stopping):
                    self._changed.wait()
                if self._stopping:
                    break
                self._admit()
            for job in list(self._active):
                if not self._advance(job):
                    self._active.remove(job)
        stopping = ApiError("the server is stopping", status=503, code="stopping")
        for job in [*self._active, *(job for jobs in self._waiting.values() for job in jobs)]:
            job.close()
            job.put(Over(stopping))
        self._active.clear()
        self._waiting.clear()

    def _admit(self) -> None:
        """Begin jobs while there is room, each client's next in turn."""
        for client in list(self._waiting):  # those whose time is over, or who went away
            left = deque(job for job in self._waiting[client] if not self._expired(job))
            if left:
                self._waiting[client] = left
            else:
                del self._waiting[client]
        while self._waiting and len(self._active) < self.parallel:
            client, jobs = next(iter(self._waiting.items()))
            self._active.append(jobs.popleft())
            self._waiting.move_to_end(client)
            if not jobs:
                del self._waiting[client]

    @staticmethod
    def _expired(job: Job) -> bool:
        if job.late and not job.cancelled:
            job.put(
                Over(ApiError("the request waited too long", status=503, code="deadline_exceeded"))
            )
        return job.cancelled or job.late

    def _advance(self, job: Job) -> bool:
        """Do a step of a job; whether it goes on."""
        if job.cancelled:
            job.close()
            return False
        if job.late:
            job.close()
            job.put(Ended(-1, late=True))
            job.put(Over())
            return False
        return job.step()


def writing(
    engine: Engine, model: Any, caches: Caches, rows: Sequence[tuple[list[int], dict[str, Any]]]
) -> Callable[[Job], Work]:
    """The work of answers, a few at a time: each is a prompt's token ids and options."""

    def work(job: Job) -> Work:
        answers = [
            _answer(engine, model, caches, job, index, ids, options, len(rows) == 1)
            for index, (ids, options) in enumerate(rows)
        ]
        with ExitStack() as stack:
            for answer in answers:
                stack.enter_context(closing(answer))
            while answers:
                for answer in answers[: engine.parallel]:
                    if next(answer, _DONE) is _DONE:
                        answers.remove(answer)
                yield

    return work


_DONE = object()


def _answer(
    engine: Engine,
    model: Any,
    caches: Caches,
    job: Job,
    index: int,
    ids: list[int],
    options: dict[str, Any],
    single: bool,
) -> Work:
    """The work of one answer: the prompt in parts, then a token a step.

    single: it is the only one of its request, so that a next turn may go on from it.
    """
    job.facts |= {"prompt": len(ids), "read": 0, "written": 0, "options": options}
    began, begun = time.monotonic(), False
    if beside.can_join(model, ids, options):
        tokens = _beside(model, caches, job, ids, options, single)
    else:
        tokens = _alone(model, caches, job, ids, options)
    with closing(tokens):
        for token in tokens:
            if token is None:
                yield
                continue
            if not begun:
                begun, cached = True, job.facts["cached"]
                job.put(Begun(index, len(ids), cached))
                engine.counts["prompt_tokens"] += len(ids) - cached
                engine.counts["cached_tokens"] += cached
                engine.seconds["prompt"] += time.monotonic() - began
                began = time.monotonic()
            job.facts["written"] += 1
            engine.counts["written_tokens"] += 1
            job.put(Wrote(index, token))
            if token.stopped:
                break
            yield
            if index in job.ended:
                break
    engine.seconds["writing"] += time.monotonic() - began
    job.put(Ended(index))


# Tokens of an answer, and between them None after a part of the prompt.
Tokens = Generator[Token | None, None, None]


def _alone(model: Any, caches: Caches, job: Job, ids: list[int], options: dict[str, Any]) -> Tokens:
    """The tokens of an answer by the model's own steps."""
    steps = model.steps(ids, **options)  # raises before anything is read
    chosen = model.followed.options(options)
    caches.lend(ids)
    intact = False
    try:
        with closing(steps):
            job.facts["cached"] = 0
            ahead = read_ahead(model, ids, CHUNK, chosen.linear, chosen.cache_type)
            with closing(ahead):
                for count, done in enumerate(ahead):
                    if count == 0:
                        job.facts["cached"] = done
                    job.facts["read"] = done
                    yield None
            sent = None
            while True:
                try:
                    item = steps.send(sent)
                except StopIteration:
                    break
                sent = None
                if isinstance(item, Token):
                    yield item
                else:
                    sent = item.wait()
        intact = True
    except GeneratorExit:
        intact = True
        raise
    finally:  # after an error nobody knows what the session holds
        caches.keep() if intact else caches.drop()


def _beside(
    model: Any, caches: Caches, job: Job, ids: list[int], options: dict[str, Any], single: bool
) -> Tokens:
    """The tokens of an answer that is written beside others: a step of the model is one of all.

    single: see `_answer`; else the session that read the prompt is given up for the next answer.
    """
    chosen = model.followed.options(options)
    rows = caches.rows(chosen.linear, chosen.cache_type)
    caches.lend(ids)
    session = model._resume(ids, chosen.linear, chosen.cache_type)
    session.activation_precision = chosen.linear
    job.facts["cached"] = len(session.ids)
    row, written, intact = None, list(ids), False
    try:
        while True:
            logits = session.read(model, ids[len(session.ids) :])
            job.facts["read"] = len(session.ids)
            if len(session.ids) == len(ids):
                break
            yield None
        row = rows.join(session, logits, ids, chosen)
        if not single:
            model._session, session = session, None
            caches.keep()
        pieces = Pieces(model.tokenizer, chosen.stops)
        for count in range(1, chosen.max_new_tokens + 1):
            if not row.ready:
                rows.step()
            ready = row.ready.popleft()
            if isinstance(ready, Exception):
                raise ready
            id, logprob = ready
            written.append(id)
            if id in model.eos_ids:
                yield Token(id, pieces.finish(), logprob, "eos")
                break
            text, hit = pieces.add(id)
            last = count == chosen.max_new_tokens
            rest = pieces.finish() if last and not hit else ""
            yield Token(id, text + rest, logprob, "stop" if hit else "length" if last else "")
            if hit:
                break
        intact = True
    except GeneratorExit:
        intact = True
        raise
    finally:
        if row is not None:
            rows.leave(row, session if intact else None, written)
        model._session = session
        caches.keep() if intact else caches.drop()


def running(steps: Callable[[], Any]) -> Callable[[Job], Work]:
    """The work of a task's steps, as `Pipeline.begin` gives them: tokens, and its value."""

    def work(job: Job) -> Work:
        run, sent = steps(), None
        with closing(run):
            while True:
                try:
                    item = run.send(sent)
                except StopIteration as finished:
                    job.put(Value(finished.value))
                    return
                sent = None
                if isinstance(item, Readback):
                    sent = item.wait()
                elif isinstance(item, Progress):
                    yield
                else:
                    job.put(Wrote(0, item))
                    yield

    return work
