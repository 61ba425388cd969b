"""Responses that end when their client goes away, and bodies within bounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from rushlight.core.basis.errors import FormatError
from rushlight.core.basis.jsontext import parse_json
from rushlight.models.serving.answers import Event
from rushlight.models.serving.errors import ApiError

T = TypeVar("T")
_BODY_SECONDS = 120  # that a body may take to arrive
_DEPTH = 64  # of nested arrays and objects


class Gone(Exception):
    """The client went away."""


async def body_of(request: Request, most: int) -> bytes:
    """The body of a request, at most `most` bytes; ApiError for a longer or a slow one."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(int(declared), most)
    parts, size = [], 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise _too_large(size, most)
                parts.append(chunk)
    except TimeoutError:
        raise ApiError("the body did not arrive in time", status=408) from None
    return b"".join(parts)


def _too_large(size: int, most: int) -> ApiError:
    return ApiError(f"the body has {size} bytes or more; at most {most}", status=413)


async def json_of(request: Request, most: int) -> Any:
    """The value of a request's body in JSON."""
    raw = await body_of(request, most)
    try:
        return parse_json(raw, "the body", depth=_DEPTH, parse_constant=_no_constant)
    except FormatError as error:
        raise ApiError(str(error)) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is given up if the client goes away: then Gone is raised."""
    task, gone = asyncio.create_task(work), asyncio.create_task(_gone(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Gone
        return task.result()
    finally:
        await _ended(task, gone)


async def _gone(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def as_json(value: Any) -> bytes:
    """A value as JSON in ASCII, so that any text has bytes."""
    return json.dumps(value, separators=(",", ":")).encode()


def sse(event: Event) -> bytes:
    """An event of a stream of server-sent events."""
    name, payload = event
    data = payload.encode() if isinstance(payload, str) else as_json(payload)
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + data + b"\n\n"


def line(event: Event) -> bytes:
    """An event as a line of JSON, as Ollama sends them."""
    return as_json(event[1]) + b"\n"


class Json(Response):
    """A value as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes of a value."""
        return as_json(content)


class Stream(Response):
    """Parts that are sent as they come. `gone` is called if the client goes away before the end."""

    def __init__(
        self, parts: AsyncIterator[bytes], gone: Callable[[], None], media_type: str
    ) -> None:
        super().__init__(None, media_type=media_type)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-cache"
        self.headers["x-accel-buffering"] = "no"
        self._parts, self._left = parts, gone

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the parts."""
        await send(
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        )  # fmt: skip
        task = asyncio.create_task(self._pump(send))
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            self._left()
            await _ended(task, gone)

    async def _pump(self, send: Any) -> None:
        async for chunk in self._parts:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
