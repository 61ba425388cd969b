"""The task audio-text-to-text: a model that hears answers a text with sounds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rushlight.models.layers.seeing.decoder import as_list
from rushlight.models.tasks.chat import TASK as CHAT
from rushlight.models.tasks.chat import ChatAnswer, prepared
from rushlight.models.tasks.record import Command, Input, Option, Run, Task
from rushlight.models.tasks.text_generation import SAMPLING, answer


def run(model: Any, text: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """Answer a text about `sounds`, or messages that hold them.

    With a chat template a text is the user's message, after its sounds; without one the model goes
    on with it.
    """
    began = time.perf_counter()
    sounds = [] if options["sounds"] is None else as_list(options["sounds"])
    chosen = {k: v for k, v in options.items() if k != "sounds"}
    tools = None if chosen["tool_choice"] == "none" else chosen["tools"]
    if not isinstance(text, str):
        messages = list(text)
        if sounds:
            last = messages.pop() if messages else {"role": "user", "content": ""}
            messages.append({**last, "content": _content(last.get("content") or "", sounds)})
    elif model.template is not None or model.sight.laid is not None:
        messages = [{"role": "user", "content": _content(text, sounds)}]
    else:
        messages, tools = [], None
    if messages:
        ids, sampling = prepared(model, messages, chosen)
    else:
        ids = model.sound_prompt(text, sounds)
        names = {option.name for option in SAMPLING}
        sampling = {k: v for k, v in chosen.items() if k in names}
    generated = yield from answer(model, ids, sampling, watched, began)
    first = generated.ids[0] if isinstance(generated.text, list) else generated.ids
    parts = model.answer_parts(first, ids, tools=tools)
    return ChatAnswer(**vars(generated), **vars(parts))


def _content(words: Any, sounds: list[Any]) -> list[Any]:
    parts = [{"type": "text", "text": words}] if isinstance(words, str) else list(words)
    return [*({"type": "audio", "audio": sound} for sound in sounds), *parts]


TASK = Task(
    name="audio-text-to-text",
    summary="Answer a text about recordings.",
    input=Input("text", "asked", "What to answer: a text, or messages with sounds among them."),
    output="text",
    run=run,
    options=(
        Option("sounds", "recordings", None, "The recordings that the text is about; repeatable."),
        *CHAT.options,
    ),
    streams=True,
    refuse=CHAT.refuse,
    gathers=CHAT.gathers,
    command=Command(
        "listen",
        "",
        {"max_new_tokens": 512},
        "Answer a text about recordings: listen --text 'What is this?' --sounds bird.wav.",
    ),
)
