"""Routes of models that speak, as OpenAI's interface has them."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from rushlight.cli.serving.held import Served
from rushlight.cli.serving.server import Server
from rushlight.models.serving.errors import ApiError
from rushlight.models.tasks.registry import find

MOST_LETTERS = 4096  # of a text that is spoken


def _speaks(served: Served) -> bool:
    return "text-to-speech" in served.tasks


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
    recording = io.BytesIO()
    with wave.open(recording, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(int(said["sampling_rate"]))
        file.writeframes(samples)
    return Response(recording.getvalue(), media_type="audio/wav")
