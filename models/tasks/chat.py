"""The task chat: a language model writes the next answer of a conversation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rushlight.models.tasks.record import Command, Input, Run, Task
from rushlight.models.tasks.text_generation import SAMPLING, answer, refuse


def run(model: Any, messages: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """Answer messages ({"role", "content"}), formatted by the checkpoint's chat template."""
    began = time.perf_counter()
    ids = model.chat_ids(messages)
    return (yield from answer(model, ids, options, watched, began))


TASK = Task(
    name="chat",
    summary="Write the next answer of a conversation.",
    input=Input("messages", "messages", "The conversation: objects with a role and a content."),
    output="text",
    run=run,
    options=SAMPLING,
    streams=True,
    refuse=refuse,
    command=Command(
        "chat", "smollm2-135m-instruct", {"max_new_tokens": 512, "overflow": "shift"},
        "Talk with a model in the terminal; /help shows the commands there.",
    ),
)  # fmt: skip
