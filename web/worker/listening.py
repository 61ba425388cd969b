"""The worker's live transcriptions, by number, and the forms of subtitles."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from rushlight.models.speech.live import TASK, LiveTranscriber
from rushlight.models.speech.writers import WRITERS
from rushlight.models.tasks import find
from rushlight.models.tasks.record import camel, unsupported
from rushlight.web.worker.session import Breathe, _driven, given_of, model_of

_lives: dict[int, LiveTranscriber] = {}
_numbers = count(1)


def begin(model: int, rate: float, every: float, options: Any) -> int:
    """Begin a transcription with a model; returns its number.

    options: those of automatic-speech-recognition, in JavaScript's spelling.

    `rate` is the samples per second, `every` the seconds between two readings, `model` its number.
    Raises ValueError for a number of no model.
    """
    names = {camel(name): name for name in find(TASK).names}
    settings = {names.get(name, name): value for name, value in given_of(options).items()}
    live = LiveTranscriber(
        model_of(model, "transcribeLive"), rate=int(rate), every=every, **settings
    )
    number = next(_numbers)
    _lives[number] = live
    return number


async def hear(
    number: int, samples: Any, ended: bool, breathe: Breathe, report: Callable[..., None]
) -> str:
    """Hear more samples in one look, or a part of them; returns what changed, as JSON.

    "more" says that a further call without samples has something to hear, at once. `breathe` runs
    between two steps. If it returns True, this raises asyncio.CancelledError.

    `number` is what `begin` gave, `ended`: nothing comes after; `report` is told of the text.
    """
    live = _lives[number]
    live.take(np.array(given_of(samples), np.float32))
    more = await _driven(live.model, live.step(ended), breathe, report)
    if ended and not more:
        close(number)
    text = live.heard
    return json.dumps(
        {
            "more": more,
            "kept": text.kept,
            "segments": text.segments[text.kept :],
            "tentative": text.tentative,
            "seconds": text.seconds,
            "language": text.language,
        }
    )


def close(number: int) -> None:
    """Forget a transcription."""
    _lives.pop(number, None)


def subtitles(form: str, result: str) -> str:
    """A result of automatic-speech-recognition (JSON) as "srt", "vtt", "tsv", "json" or "txt"."""
    if form not in WRITERS:
        raise ValueError(f"subtitles: {form!r} {unsupported(form, WRITERS)}")
    return WRITERS[form](json.loads(result))
