"""The server's state: its models, the engine, and what all routes share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from rushlight.cli.serving.engine import (
    Begun,
    Ended,
    Engine,
    Job,
    Over,
    Value,
    Work,
    Wrote,
    as_api_error,
    running,
    writing,
)
from rushlight.cli.serving.held import Limits, Memory, Served
from rushlight.cli.serving.streams import Json, Stream, json_of, line, sse, unless_gone
from rushlight.models.serving.answers import Answer, Delta, Usage, Writer
from rushlight.models.serving.asking import Ask, options_of, prompts_of
from rushlight.models.serving.errors import ApiError
from rushlight.models.serving.fields import Fields
from rushlight.models.serving.messages import pictures_in

# An answer, and what a token adds to it; None: it has ended.
Growth = tuple[Answer, Delta | None]


@dataclass
class Server:
    """The models by what they are for, and the engine. The first model writes."""

    models: list[Served]
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.engine = Engine(self.limits.parallel, self.limits.waiting)
        # Chat templates and tokenizers run beside the engine, one text at a time.
        self._aside = ThreadPoolExecutor(1, "rushlight-texts")
        self.memory = Memory(self.models, self.limits.memory)
        self.stopping = False

    def stop(self) -> None:
        """End all work."""
        self.stopping = True
        self.engine.stop()
        self._aside.shutdown(wait=False, cancel_futures=True)

    async def named(self, name: str, fits: Callable[[Served], bool], what: str) -> Served:
        """The model that a request names, or the first that fits, loaded; ApiError without one."""
        served = self.row(name, fits, what)
        await self.memory.hold(served, self.limits.seconds)
        return served

    def row(self, name: str, fits: Callable[[Served], bool], what: str) -> Served:
        """The same, which need not be loaded."""
        able = [served for served in self.models if fits(served)]
        plain = name.removesuffix(":latest")
        for served in able:
            if plain in ("", served.name):
                return served
        if any(plain == served.name for served in self.models):
            raise ApiError(f"model {plain!r} does not serve {what}", param="model")
        if not able:
            raise ApiError(f"no model here serves {what}", status=404, code="model_not_found")
        known = ", ".join(served.name for served in able)
        raise ApiError(
            f"model {plain[:80]!r} is not served; supported: {known}",
            status=404,
            param="model",
            code="model_not_found",
        )

    async def writer(self, fields: Fields) -> Served:
        """The language model that a request names, loaded."""
        model = fields.text("model", most=512)
        name = self._adapter(fields) or model
        return await self.named(name, lambda served: served.writes, "text generation")

    def _adapter(self, fields: Fields) -> str:
        """The name of the adapter that llama.cpp's field `lora` asks for; "" for none."""
        adapters = [served for served in self.models if served.base is not None]
        names: list[str] = []
        for i, item in enumerate(fields.items("lora", 64)):
            chosen = Fields(item, f"lora[{i}]")
            number = chosen.whole("id", 0, max(len(adapters) - 1, 0))
            scale = chosen.number("scale", 0, 1)
            chosen.done()
            if number is None or not adapters:
                raise chosen.wrong("id", "it must be the id of one of /lora-adapters")
            if scale not in (None, 0, 1):
                raise chosen.wrong("scale", "it must be 0 or 1")
            names += [adapters[number].name] if scale != 0 else []
        if len(names) > 1:
            raise fields.wrong("lora", "one adapter at a time is supported")
        return names[0] if names else ""

    async def fields(self, request: Request) -> Fields:
        """The fields of a request's body."""
        return Fields(await json_of(request, self.limits.body))

    def job(self, request: Request, work: Callable[[Job], Work]) -> Job:
        """Submit the work of a request."""
        client = request.client
        name = f"{client.host}:{client.port}" if client else ""
        return self.engine.submit(Job(name, time.monotonic() + self.limits.seconds, work))

    async def aside(self, work: Callable[[], Any]) -> Any:
        """The result of a function of texts, run beside the event loop and the engine."""
        return await asyncio.get_running_loop().run_in_executor(self._aside, work)

    async def value(self, request: Request, steps: Callable[[], Any]) -> Any:
        """The result of a task's steps, run by the engine."""
        job = self.job(request, running(steps))

        async def result() -> Any:
            value = None
            while not isinstance(event := await job.events.get(), Over):
                if isinstance(event, Ended):
                    raise ApiError("the request took too long", status=503)
                value = event.value if isinstance(event, Value) else value
            if event.error is not None:
                raise event.error
            return value

        try:
            return await unless_gone(request, result())
        finally:
            job.cancel()

    async def prompts(self, request: Request, model: Any, ask: Ask) -> list[list[int]]:
        """The token ids of what is asked."""

        def steps() -> Any:
            yield from ()
            return prompts_of(model, ask)

        if ask.messages is not None and pictures_in(ask.messages):
            rows: list[list[int]] = await self.value(request, steps)  # a processor computes
            return rows
        rows = await self.aside(lambda: prompts_of(model, ask))
        return rows

    async def answer(
        self, request: Request, served: Served, ask: Ask, writer_of: Callable[[Usage], Writer],
        *, lines: bool = False,
    ) -> Response:  # fmt: skip
        """The response to a request for answers: one object, or a stream of events.

        writer_of: makes the interface's writer, given the usage, which has the counts of the prompt
        by then. lines: a stream is of lines of JSON, as Ollama's.
        """
        model = served.model
        prompts = await self.prompts(request, model, ask)
        rows = [(ids, options_of(model, ask, ids, n)) for ids in prompts for n in range(ask.count)]
        answers = [Answer(model, ask, ids, i) for i, (ids, _) in enumerate(rows)]
        usage = Usage(prompt=sum(map(len, prompts)))
        job = self.job(request, writing(self.engine, model, served.caches, rows))
        growth = _grown(job, ask, answers, usage)
        try:
            if not ask.stream:
                await unless_gone(request, _all(growth))
                return Json(writer_of(usage).body(answers, usage))
            first = await unless_gone(request, _first(growth))
        except BaseException:
            job.cancel()
            raise
        parts = _events(writer_of(usage), first, growth, answers, usage, line if lines else sse)
        kind = "application/x-ndjson" if lines else "text/event-stream"
        return Stream(parts, job.cancel, kind)


async def _first(growth: AsyncIterator[Growth]) -> Growth:
    return await anext(growth)


async def _all(growth: AsyncIterator[Growth]) -> None:
    async for _ in growth:
        pass


async def _grown(job: Job, ask: Ask, answers: list[Answer], usage: Usage) -> AsyncIterator[Growth]:
    """What is added to answers, one after another, as the engine writes them; counts the usage."""
    began, reading = time.monotonic(), True
    open_answers = {answer.index for answer in answers}

    def end(index: int) -> list[Growth]:
        open_answers.discard(index)
        answer = answers[index]
        last = answer.end()
        usage.written += len(answer.ids)
        usage.thinking += answer.thoughts
        usage.writing_seconds = time.monotonic() - began - usage.reading_seconds
        return [(answer, last), (answer, None)]

    while True:
        event = await job.events.get()
        if isinstance(event, Over):
            if event.error is not None:
                raise event.error
            return
        if isinstance(event, Begun):
            usage.cached += event.cached if event.index % ask.count == 0 else 0
            if reading:
                reading, usage.reading_seconds = False, time.monotonic() - began
        elif isinstance(event, Wrote):
            answer = answers[event.index]
            if answer.reason:
                continue  # it has ended before this token
            yield answer, answer.add(event.token)
            if answer.reason:
                job.ended.add(event.index)
        elif isinstance(event, Ended):
            for index in sorted(open_answers) if event.late else [event.index]:
                for grown in end(index):
                    yield grown


async def _events(
    writer: Writer, first: Growth, growth: AsyncIterator[Growth], answers: list[Answer],
    usage: Usage, form: Callable[[Any], bytes],
) -> AsyncIterator[bytes]:  # fmt: skip
    """The bytes of a stream."""

    def bytes_of(grown: Growth) -> bytes:
        answer, delta = grown
        events = writer.ended(answer) if delta is None else writer.delta(answer, delta)
        return b"".join(map(form, events))

    yield b"".join(map(form, writer.opening())) + bytes_of(first)
    try:
        async for grown in growth:
            if chunk := bytes_of(grown):
                yield chunk
        yield b"".join(map(form, writer.closing(answers, usage)))
    except Exception as error:
        yield b"".join(map(form, writer.failed(as_api_error(error))))
