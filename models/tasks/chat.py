"""The task chat: a language model writes the next answer of a conversation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.models.generation.answers import AnswerParts
from rushlight.models.tasks.record import Command, Input, Option, Run, Task
from rushlight.models.tasks.text_generation import SAMPLING, Answer, answer, refuse


@dataclass(frozen=True)
class ChatAnswer(Answer, AnswerParts):
    """An Answer and its parts: what was said and thought, and which tools are called."""


def run(model: Any, messages: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """Answer messages ({"role", "content"}), formatted by the checkpoint's chat template."""
    began = time.perf_counter()
    chosen = dict(options)
    tools = chosen.pop("tools")
    ids = model.chat_ids(messages, tools=tools)
    found = yield from answer(model, ids, chosen, watched, began)
    parts = model.answer_parts(found.ids, ids, tools=tools)
    return ChatAnswer(**vars(found), **vars(parts))


TASK = Task(
    name="chat",
    summary="Write the next answer of a conversation.",
    input=Input("messages", "messages", "The conversation: objects with a role and a content."),
    output="text",
    run=run,
    options=(
        *SAMPLING,
        Option("tools", "tools", None, "Functions that the model may call, as JSON Schemas."),
    ),
    streams=True,
    refuse=refuse,
    command=Command(
        "chat", "smollm2-135m-instruct", {"max_new_tokens": 512, "overflow": "shift"},
        "Talk with a model in the terminal; /help shows the commands there.",
    ),
)  # fmt: skip
