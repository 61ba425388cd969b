"""Routes of models that speak and draw, as OpenAI's interface has them."""

from __future__ import annotations

import base64
import io
import re
import wave
from collections.abc import Iterable
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from rushlight.cli.serving.held import Served
from rushlight.cli.serving.server import Server
from rushlight.cli.serving.streams import Json
from rushlight.models.serving.answers import now
from rushlight.models.serving.errors import ApiError
from rushlight.models.serving.fields import Fields
from rushlight.models.tasks.registry import find

MOST_LETTERS = 4096  # of a text that is spoken
MOST_PICTURES = 8
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})\Z")


def _speaks(served: Served) -> bool:
    return "text-to-speech" in served.tasks


def _draws(served: Served) -> bool:
    return "text-to-image" in served.tasks


def _options(task: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a task, checked; ApiError for one that it has not or that is out of range."""
    try:
        checked: dict[str, Any] = task.checked(options)
    except (ValueError, TypeError) as error:
        raise ApiError(str(error)) from None
    return checked


async def speech(server: Server, request: Request) -> Response:
    """The sound of a text: wav, or pcm (16 bits, mono)."""
    fields = await server.fields(request)
    served = await server.named(fields.text("model", most=512), _speaks, "speech")
    text = fields.text("input", most=MOST_LETTERS)
    if not text:
        raise fields.wrong("input", "it must be a text")
    form = fields.choice("response_format", ("wav", "pcm"), "wav")
    options: dict[str, Any] = {}
    if (speed := fields.number("speed", 0.25, 4.0)) is not None:
        options["speed"] = speed
    voice = fields.value("voice")
    if isinstance(voice, int) or (isinstance(voice, str) and voice.isdecimal()):
        options["speaker"] = int(voice)
    elif isinstance(voice, str) and voice in getattr(served.model, "voice_names", ()):
        options["speaker_embeddings"] = voice  # other names are of OpenAI's voices
    fields.only("stream_format", ("audio",), "leave it out")
    fields.ignored("instructions")
    fields.done()
    task = find("text-to-speech")
    checked = _options(task, options)
    said = await server.value(request, lambda: task.run(served.model, text, checked, False))
    samples = (np.clip(np.asarray(said["audio"]), -1, 1) * 32767).astype("<i2").tobytes()
    if form == "pcm":
        return Response(samples, media_type="audio/pcm")
    held = io.BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(int(said["sampling_rate"]))
        file.writeframes(samples)
    return Response(held.getvalue(), media_type="audio/wav")


async def pictures(server: Server, request: Request) -> Response:
    """Pictures of a prompt, as PNG in base64."""
    fields = await server.fields(request)
    served = await server.named(fields.text("model", most=512), _draws, "pictures")
    prompt = fields.text("prompt", most=32_000)
    if not prompt:
        raise fields.wrong("prompt", "it must be a text")
    count = fields.whole("n", 1, MOST_PICTURES) or 1
    options = _size(fields)
    if (seed := fields.whole("seed", 0, (1 << 63) - 1)) is not None:
        options["seed"] = seed
    fields.choice("response_format", ("b64_json",), "b64_json")
    fields.choice("output_format", ("png",), "png")
    fields.ignored("user", "quality", "style", "background", "moderation", "output_compression")
    fields.only("stream", (False,), "leave it out")
    fields.done()
    task = find("text-to-image")
    data = []
    for number in range(count):
        more = {"seed": options["seed"] + number} if "seed" in options else {}
        checked = _options(task, options | more)
        drawn = await server.value(request, _drawing(task, served.model, prompt, checked))
        row = drawn[0] if isinstance(drawn, list) else drawn
        data.append({"b64_json": await server.aside(_png(row["image"]))})
    return Json({"created": now(), "data": data})


def _drawing(task: Any, model: Any, prompt: str, options: Any) -> Any:
    return lambda: task.run(model, prompt, options, True)


def _size(fields: Fields) -> dict[str, Any]:
    text = fields.text("size", "auto", most=32)
    match = _SIZE.match(text)
    if match is None and text != "auto":
        raise fields.wrong("size", "it must be width x height, such as 512x512")
    return {} if match is None else {"width": int(match[1]), "height": int(match[2])}


def _png(pixels: Iterable[Any]) -> Any:
    def packed() -> str:
        try:
            from PIL import Image
        except ImportError:
            raise ApiError(
                "pictures are written by Pillow: pip install 'rushlight[image]'", status=500
            ) from None
        held = io.BytesIO()
        Image.fromarray(np.asarray(pixels)).save(held, "png")
        return base64.b64encode(held.getvalue()).decode()

    return packed
