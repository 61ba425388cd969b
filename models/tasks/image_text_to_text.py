"""The task image-text-to-text: a model that sees answers a text with pictures."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.models.layers.seeing.decoder import as_list
from rushlight.models.tasks.chat import TASK as CHAT
from rushlight.models.tasks.chat import ChatAnswer, prepared
from rushlight.models.tasks.record import Command, Input, Option, Run, Task
from rushlight.models.tasks.text_generation import answer


@dataclass(frozen=True)
class PictureAnswer(ChatAnswer):
    """A ChatAnswer, and the boxes and points that it names, in pixels of the picture."""

    places: list[dict[str, Any]] = field(default_factory=list)


_PIXELS = ("min_pixels", "max_pixels")


def run(model: Any, text: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """Answer a text about `images`, or messages that hold them.

    With a chat template a text is the user's message, after its pictures; without one the model
    goes on with it.
    """
    began = time.perf_counter()
    images = options["images"]
    pictures = [] if images is None else as_list(images)
    limits = {name: options[name] for name in _PIXELS if options[name] is not None}
    chosen = {k: v for k, v in options.items() if k not in ("images", *_PIXELS)}
    if not isinstance(text, str):
        messages = list(text)
        if pictures:
            last = messages.pop() if messages else {"role": "user", "content": ""}
            messages.append({**last, "content": _content(last.get("content") or "", pictures)})
    elif model.template is not None:
        messages = [{"role": "user", "content": _content(text, pictures)}]
    else:
        ids = model.picture_prompt(text, pictures, **limits)
        sampling = {k: v for k, v in chosen.items() if k in _SAMPLING}
        return (yield from _answered(model, ids, sampling, None, watched, began))
    if limits:
        chosen["chat_template_kwargs"] = {**(chosen["chat_template_kwargs"] or {}), **limits}
    ids, sampling = prepared(model, messages, chosen)
    tools = None if chosen["tool_choice"] == "none" else chosen["tools"]
    return (yield from _answered(model, ids, sampling, tools, watched, began))


def _answered(
    model: Any, ids: Any, sampling: Mapping[str, Any], tools: Any, watched: bool, began: float
) -> Run:
    """Generate after a prompt: an answer with its parts and places."""
    generated = yield from answer(model, ids, sampling, watched, began)
    first = generated.ids[0] if isinstance(generated.text, list) else generated.ids
    parts = model.answer_parts(first, ids, tools=tools)
    return PictureAnswer(**vars(generated), **vars(parts), places=model.places_in(first, ids))


def _content(words: Any, pictures: list[Any]) -> list[Any]:
    parts = [{"type": "text", "text": words}] if isinstance(words, str) else list(words)
    return [*({"type": "image", "image": picture} for picture in pictures), *parts]


_SHAPE = ("tools", "tool_choice", "parallel_tool_calls", "documents", "chat_template",
          "add_generation_prompt", "continue_final_message", "chat_template_kwargs")  # fmt: skip
_SAMPLING = frozenset(option.name for option in CHAT.options) - {*_SHAPE}

TASK = Task(
    name="image-text-to-text",
    summary="Answer a text about pictures.",
    input=Input("text", "asked", "What to answer: a text, or messages with pictures among them."),
    output="text",
    run=run,
    options=(
        Option("images", "images", None, "The pictures that the text is about; repeatable."),
        Option("min_pixels", "int", None, "Enlarge smaller pictures to this many pixels.", least=1),
        Option("max_pixels", "int", None, "Shrink larger pictures: fewer tokens.", least=1),
        *CHAT.options,
    ),
    streams=True,
    refuse=CHAT.refuse,
    gathers=CHAT.gathers,
    command=Command(
        "describe",
        "",
        {"max_new_tokens": 512},
        "Answer a text about pictures: describe --text 'What is this?' --images photo.jpg.",
    ),
)
