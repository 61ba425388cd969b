"""What a request asks of a language model, whatever interface it came by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.basis.errors import RushlightError
from rushlight.models.generation.chatting import SAMPLING, calls_asked
from rushlight.models.serving import able
from rushlight.models.serving.errors import ApiError, too_long
from rushlight.models.serving.fields import Fields
from rushlight.models.serving.messages import pictures_in

MOST_ANSWERS, MOST_STOPS, MOST_NEW = 32, 16, 1 << 24
MOST_VARIABLES = 64
# Numbers of sampling beyond OpenAI's, with the names that servers give them, and ranges.
_FURTHER = {
    "min_p": ("min_p", 0.0, 1.0),
    "repetition_penalty": ("repetition_penalty", 1e-6, 1e6),
    "repeat_penalty": ("repetition_penalty", 1e-6, 1e6),  # llama.cpp's name
}


@dataclass
class Ask:
    """An answer that is wanted.

    messages: a conversation, or None where `prompts` are continued: texts or token ids. options: of
    `sampling.Options`, without the length. most: tokens of an answer, None for as many as the
    context holds. count: answers of each prompt. tools: what may be called. variables: of the chat
    template. stops: texts that end the content. one_call: the answer ends after its first call.
    forced: OpenAI's tool_choice, where it forces a call.
    """

    messages: list[dict[str, Any]] | None = None
    prompts: list[str | list[int]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    most: int | None = None
    count: int = 1
    tools: list[dict[str, Any]] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    stops: tuple[str, ...] = ()
    one_call: bool = False
    forced: Any = None
    logprobs: bool = False
    stream: bool = False
    usage: bool = True  # whether a stream ends with the usage


def sampling_of(fields: Fields, *, warmest: float = 2.0) -> dict[str, Any]:
    """The options of sampling that OpenAI's interfaces share, and some of other servers'."""
    options: dict[str, Any] = {}
    for key, least, most in (
        ("temperature", 0.0, warmest),
        ("top_p", 0.0, 1.0),
        ("frequency_penalty", -2.0, 2.0),
        ("presence_penalty", -2.0, 2.0),
    ):
        value = fields.number(key, least, most)
        if value is not None:
            options[key] = value
    if options.get("top_p") == 0:  # the likeliest token alone
        options["top_p"] = 1.0
        options["temperature"] = 0.0
    for key, (name, least, most) in _FURTHER.items():
        value = fields.number(key, least, most)
        if value is not None:
            options[name] = value
    top = fields.whole("top_k", 0, 1 << 30)
    if top is not None:
        options["top_k"] = top
    seed = fields.whole("seed", -(1 << 63), (1 << 64) - 1)
    if seed is not None:
        options["seed"] = seed % (1 << 63)
    if bias := fields.object("logit_bias"):
        options["logit_bias"] = _biases(fields, bias)
    return options | able.further(fields)


def _biases(fields: Fields, bias: Mapping[str, Any]) -> dict[int, float]:
    """OpenAI's biases, by token ids in texts."""
    out: dict[int, float] = {}
    for key, value in bias.items():
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        if not (key.isdecimal() and len(key) < 10 and plain and -100 <= value <= 100):
            raise fields.wrong("logit_bias", "it must be numbers from -100 to 100 by token ids")
        out[int(key)] = float(value)
    if len(out) > 4096:
        raise ApiError(f"logit_bias has {len(out)} tokens; at most 4096", param="logit_bias")
    return out


def variables_of(fields: Fields) -> dict[str, Any]:
    """Variables of the chat template: chat_template_kwargs, and how much to think."""
    variables = dict(fields.object("chat_template_kwargs"))
    if len(variables) > MOST_VARIABLES:
        raise ApiError(f"chat_template_kwargs has {len(variables)} names; at most {MOST_VARIABLES}")
    if fields.has("reasoning_effort"):
        effort = fields.text("reasoning_effort", most=32)
        variables["reasoning_effort"] = effort
        if effort in ("none", "minimal"):
            variables.setdefault("enable_thinking", False)
    return variables


def prompts_of(model: Any, ask: Ask) -> list[list[int]]:
    """The token ids of what is asked; ApiError where they cannot be made or do not fit.

    It runs the chat template and the tokenizer, and the processor of pictures.
    """
    try:
        rows = _prompts(model, ask)
    except ApiError:
        raise
    except (ValueError, TypeError, LookupError, RushlightError) as error:
        raise ApiError(str(error)) from None
    param = "prompt" if ask.messages is None else "messages"
    for ids in rows:
        if len(ids) >= model.context_length:
            raise too_long(len(ids), model.context_length, param)
    return rows


def _prompts(model: Any, ask: Ask) -> list[list[int]]:
    if ask.messages is None:
        return [model.prompt_ids(prompt) for prompt in ask.prompts]
    if pictures_in(ask.messages) and not hasattr(model, "picture_prompt"):
        kind = model.config.model_type
        raise ApiError(f"this model ({kind}) reads texts only; send no pictures", param="messages")
    messages = [_thinking(model, message) for message in ask.messages]
    variables = {"chat_template_kwargs": ask.variables} if ask.variables else {}
    if ask.forced is not None:
        parallel = False if ask.one_call else None
        asked = {"tool_choice": ask.forced, "parallel_tool_calls": parallel}
        asked |= {k: v for k, v in ask.options.items() if k == "response_format"}
        _, more = calls_asked(model.template, ask.tools, asked)
        ask.options |= more
    return [model.chat_ids(messages, tools=ask.tools or None, **variables)]


def _thinking(model: Any, message: dict[str, Any]) -> dict[str, Any]:
    """A message with its thought under the name that the template has for it."""
    template = model.template
    if "reasoning_content" in message and template is not None:
        if template.uses("thinking") and not template.uses("reasoning_content"):
            return {**message, "thinking": message["reasoning_content"]}
    return message


def options_of(model: Any, ask: Ask, ids: Sequence[int], answer: int) -> dict[str, Any]:
    """The options of generation of one answer; `answer` is its number among several.

    ApiError for what `sampling.Options` refuses.
    """
    options = {k: v for k, v in ask.options.items() if k in SAMPLING}
    room = max(1, model.context_length - len(ids))
    options["max_new_tokens"] = room if ask.most is None else min(ask.most, room)
    if "seed" in options:
        options["seed"] += answer
    try:
        chosen = model.followed.options(options)
        from rushlight.models.generation.sampling import checked

        checked(chosen, model.vocab_size, model.device)
    except (ValueError, TypeError) as error:
        raise ApiError(str(error)) from None
    if "seed" not in options and chosen.temperature:
        from secrets import randbits

        options["seed"] = randbits(48)
    return options
