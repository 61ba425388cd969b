"""The task chat: a language model writes the next answer of a conversation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.models.generation.answers import AnswerParts
from rushlight.models.generation.chatting import (
    calls_asked,
    check_variable,
    check_variables,
    divided,
)
from rushlight.models.tasks.record import Command, Input, Option, Run, Task
from rushlight.models.tasks.text_generation import SAMPLING, Answer, answer, refuse


@dataclass(frozen=True)
class ChatAnswer(Answer, AnswerParts):
    """An Answer and its parts: what was said and thought, and which tools are called.

    Of several answers these are the parts of the first.
    """


def run(model: Any, messages: Any, options: Mapping[str, Any], watched: bool) -> Run:
    """Answer messages ({"role", "content"}), formatted by the checkpoint's chat template."""
    began = time.perf_counter()
    ids, chosen = prepared(model, messages, options)
    generated = yield from answer(model, ids, chosen, watched, began)
    first = generated.ids[0] if isinstance(generated.text, list) else generated.ids
    tools = None if options["tool_choice"] == "none" else options["tools"]
    parts = model.answer_parts(first, ids, tools=tools)
    return ChatAnswer(**vars(generated), **vars(parts))


def prepared(
    model: Any, messages: Any, options: Mapping[str, Any]
) -> tuple[list[int], dict[str, Any]]:
    """The tokens of messages by the chat template, and the options of sampling.

    TypeError for a variable that looks like an option of sampling.

    `model` chats; `options` are the task's, checked.
    """
    asked = {k: v for k, v in options.items() if v is not None}
    tools, asked = calls_asked(model.template, asked.pop("tools", None), asked)
    shape, chosen = divided(model.template, asked)
    if tools is not None:
        shape["tools"] = tools
    for name in options.get("chat_template_kwargs") or ():
        check_variable(model.template, name)
    return model.chat_ids(messages, **shape), chosen


def _refuse(options: Mapping[str, Any]) -> None:
    refuse(options)
    check_variables(options["chat_template_kwargs"] or {})


TASK = Task(
    name="chat",
    summary="Write the next answer of a conversation.",
    input=Input("messages", "messages", "The conversation: objects with a role and a content."),
    output="text",
    run=run,
    options=(
        *SAMPLING,
        Option("tools", "tools", None, "Functions that the model may call, as JSON Schemas."),
        Option(
            "tool_choice",
            "choice",
            None,
            'Whether tools are called: "auto", "none", "required", or a function.',
        ),
        Option(
            "parallel_tool_calls", "bool", None, "Whether an answer may have several forced calls."
        ),
        Option("documents", "documents", None, "What the answer may draw on."),
        Option("chat_template", "text", None, "The name of one of the templates, or a template."),
        Option("add_generation_prompt", "bool", None, "Whether to begin a new answer."),
        Option(
            "continue_final_message",
            "continued",
            None,
            "Whether to go on with the last message; so if it is the assistant's.",
        ),
        Option(
            "chat_template_kwargs",
            "variables",
            None,
            "Variables of the template, such as enable_thinking=false; repeatable.",
        ),
    ),
    streams=True,
    refuse=_refuse,
    gathers="chat_template_kwargs",
    command=Command(
        "chat",
        "smollm2-135m-instruct",
        {"max_new_tokens": 512, "overflow": "shift"},
        "Talk with a model in the terminal; /help shows the commands there.",
    ),
)
