"""Routes of models that draw: pictures of prompts, and of other pictures, as OpenAI's server has
them, with steps, seeds and previews.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from rushlight.cli.serving.engine import Ended, Job, Over, Value, Wrote, as_api_error, running
from rushlight.cli.serving.forms import read_form
from rushlight.cli.serving.held import Served
from rushlight.cli.serving.server import Server
from rushlight.cli.serving.streams import Json, Stream, sse, unless_gone
from rushlight.core.basis.errors import FormatError
from rushlight.models.image.files import load
from rushlight.models.image.png import encode_png
from rushlight.models.serving.answers import now
from rushlight.models.serving.errors import ApiError
from rushlight.models.serving.fields import Fields
from rushlight.models.tasks.registry import find

MOST_PICTURES, MOST_IMAGES, MOST_STEPS = 8, 4, 1000
_FILE_KEYS = ("image", "image[]", "mask", "mask[]")
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})\Z")
_UNUSED = (
    "user", "quality", "style", "background", "moderation", "output_compression", "input_fidelity",
)  # fmt: skip
_PILLOW = "pictures are read by Pillow: pip install 'rushlight[image]'"


@dataclass
class _Ask:
    """What a request asks for. previews: pictures of steps that are sent before each result."""

    name: str
    count: int
    options: dict[str, Any]
    stream: bool
    previews: int
    jobs: list[Job] = field(default_factory=list)  # of its pictures, the last one at work

    def leave(self) -> None:
        """Stop the work: nobody waits for it."""
        for job in self.jobs:
            job.cancel()


Picture = tuple[str, dict[str, Any]]  # an event of a stream: its name and its object


def _draws(served: Served) -> bool:
    return "text-to-image" in served.tasks


async def generations(server: Server, request: Request) -> Response:
    """Pictures of a prompt, as PNG in base64; streamed, with previews before each."""
    fields = await server.fields(request)
    ask = _read(fields, "strength")
    if not ask.options["prompt"]:
        raise fields.wrong("prompt", "it must be a text")
    prompt = ask.options.pop("prompt")
    return await _drawn(server, request, ask, "text-to-image", prompt, "image_generation")


async def edits(server: Server, request: Request) -> Response:
    """Pictures made of the form's image, anew where its mask is clear, or white if it is opaque."""
    fields, files = await _form(server, request)
    ask = _read(fields)
    served = await server.named(ask.name, _draws, "pictures")
    images = [await server.aside(partial(load, raw)) for raw in files["image"]]
    most = served.model.most_references
    if len(images) > max(most, 1):
        raise ApiError(
            f"the form has {len(images)} images; {served.name} takes {max(most, 1)}", param="image"
        )
    if most and "strength" not in ask.options and not files["mask"]:
        prompt = ask.options.pop("prompt")
        ask.options["reference_images"] = images
        return await _drawn(server, request, ask, "text-to-image", prompt, "image_edit")
    task, what = "image-to-image", images[0]
    if files["mask"]:
        task, [raw, *_] = "inpainting", files["mask"]
        ask.options["mask_image"] = await server.aside(lambda: _mask(raw))
    return await _drawn(server, request, ask, task, what, "image_edit")


def _read(fields: Fields, *refused: str) -> _Ask:
    """The fields that both routes have."""
    options: dict[str, Any] = {"prompt": fields.text("prompt", most=32_000), **_size(fields)}
    name = fields.text("model", most=512)
    for key, most in (("seed", (1 << 63) - 1), ("steps", MOST_STEPS)):
        if (value := fields.whole(key, int(key == "steps"), most)) is not None:
            options[key] = value
    for key, low, high in (("guidance", 0.0, 1000.0), ("strength", 0.01, 1.0)):
        if key not in refused and (share := fields.number(key, low, high)) is not None:
            options[key] = share
    if negative := fields.text("negative_prompt", most=32_000):
        options["negative_prompt"] = negative
    count = fields.whole("n", 1, MOST_PICTURES) or 1
    previews = fields.whole("partial_images", 0, MOST_STEPS) or 0
    stream = fields.flag("stream")
    fields.choice("response_format", ("b64_json",), "b64_json")
    fields.choice("output_format", ("png",), "png")
    fields.ignored(*_UNUSED)
    fields.done()
    return _Ask(name, count, options, stream, previews if stream else 0)


def _size(fields: Fields) -> dict[str, Any]:
    text = fields.text("size", "auto", most=32)
    match = _SIZE.match(text)
    if match is None and text != "auto":
        raise fields.wrong("size", "it must be width x height, such as 512x512")
    return {} if match is None else {"width": int(match[1]), "height": int(match[2])}


async def _drawn(
    server: Server, request: Request, ask: _Ask, name: str, what: Any, kind: str
) -> Response:
    """The response to a request, drawn picture by picture.

    name: of the task, what: its input; kind: what the events of a stream are of.
    """
    served = await server.named(ask.name, _draws, "pictures")
    events = _events(server, request, served, ask, name, what, kind)
    if ask.stream:
        first = await unless_gone(request, _first(events))
        return Stream(_streamed(first, events), ask.leave, "text/event-stream")
    data = []
    async with contextlib.aclosing(events):
        async for _, event in events:
            data.append({"b64_json": event["b64_json"]})
    return Json({"created": now(), "data": data})


async def _first(events: AsyncIterator[Picture]) -> Picture:
    return await anext(events)


async def _streamed(first: Any, events: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """The bytes of a stream of events."""
    yield sse(first)
    try:
        async for event in events:
            yield sse(event)
    except Exception as error:
        yield sse(("error", as_api_error(error).openai()))


async def _events(
    server: Server, request: Request, served: Served, ask: _Ask, name: str, what: Any, kind: str
) -> AsyncGenerator[Picture, None]:
    """The events of the pictures, one after another: previews where asked for, then the picture.

    A job that nobody waits for any more ends before its next step.
    """
    task = find(name)
    for number in range(ask.count):
        seed = {"seed": ask.options["seed"] + number} if "seed" in ask.options else {}
        try:
            checked = task.checked({**ask.options, **seed, "previews": ask.previews > 0})
        except (ValueError, TypeError) as error:
            raise ApiError(str(error)) from None
        job = server.job(request, running(partial(task.run, served.model, what, checked, True)))
        ask.jobs.append(job)
        try:
            async for event in _heard(request, job, ask.stream):
                if isinstance(event, Value):
                    row = event.value[0] if isinstance(event.value, list) else event.value
                    settings = {"parameters": json.dumps(row.get("settings", {}))}
                    text = await server.aside(_text(row["image"], settings))
                    shape = {"size": f"{row['image'].shape[1]}x{row['image'].shape[0]}"}
                    yield _event(f"{kind}.completed", text, {"index": number, **shape})
                    continue
                preview: Any = event.token
                if (index := _wanted(preview, ask.previews)) is not None:
                    text = await server.aside(_text(preview.pictures[0], {}))
                    numbers = {"partial_image_index": index, "index": number}
                    steps = {"step": preview.step, "steps": preview.total}
                    yield _event(f"{kind}.partial_image", text, {**numbers, **steps})
        finally:
            job.cancel()


def _event(kind: str, text: str, more: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return kind, {
        "type": kind,
        "b64_json": text,
        "created_at": now(),
        "output_format": "png",
    } | more


async def _heard(request: Request, job: Job, streamed: bool) -> AsyncIterator[Value | Wrote]:
    """Previews and the result of a job. streamed: the response itself sees that a client goes."""
    while True:
        waiting = job.events.get()
        event = await (waiting if streamed else unless_gone(request, waiting))
        if isinstance(event, Ended):
            raise ApiError("the request took too long", status=503)
        if isinstance(event, Over):
            if event.error is not None:
                raise event.error
            return
        if isinstance(event, Value | Wrote):
            yield event


def _wanted(preview: Any, count: int) -> int | None:
    """The number of a step's preview among `count` of them, the last step left out; else None."""
    if not hasattr(preview, "pictures") or preview.step >= preview.total:
        return None
    most = min(count, preview.total - 1)
    before = math.floor((preview.step - 1) * most / (preview.total - 1))
    after = math.floor(preview.step * most / (preview.total - 1))
    return before if after > before else None


def _text(pixels: Any, texts: dict[str, str]) -> Callable[[], str]:
    return lambda: base64.b64encode(encode_png(np.asarray(pixels), texts)).decode()


def _mask(raw: bytes) -> Any:
    """What of an image is drawn anew, in white: where the mask is clear, or white if opaque."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ApiError(_PILLOW, status=500) from None
    try:
        opaque = load(raw)  # within its bounds
        with Image.open(io.BytesIO(raw)) as file:
            alpha = np.asarray(file.convert("RGBA"))[..., 3:]
    except (UnidentifiedImageError, FormatError, OSError, ValueError) as error:
        raise ApiError(f"mask is no image: {error}", param="mask") from None
    return opaque if alpha.min() == 255 else np.repeat(255 - alpha, 3, 2)


async def _form(server: Server, request: Request) -> tuple[Fields, dict[str, list[bytes]]]:
    """The fields of a form, and its files: images, and a mask if there is one."""
    texts, pictures = await read_form(
        request, server.limits.audio, MOST_IMAGES + 1, _FILE_KEYS, "supported: image, mask"
    )
    files: dict[str, list[bytes]] = {"image": [], "mask": []}
    for key, raw in pictures:
        files[key.removesuffix("[]")].append(raw)
    if not files["image"]:
        raise ApiError("image is missing: the picture to change", param="image")
    return Fields(dict(_numbers(dict(texts)))), files


def _numbers(values: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Fields of a form, whose numbers and truth values are texts."""
    for key, text in values.items():
        if key in ("prompt", "negative_prompt", "model", "size", "user"):
            yield key, text
            continue
        try:
            number = json.loads(text)
        except ValueError:
            number = text
        yield key, number if isinstance(number, int | float | bool) else text
