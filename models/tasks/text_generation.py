"""The task text-generation: a language model continues a prompt."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from rushlight.models.generation.chatting import check_variable, check_variables
from rushlight.models.generation.followed import NUMBERS
from rushlight.models.generation.pictures import plain_ids
from rushlight.models.generation.prefill import read_ahead
from rushlight.models.generation.sampling import CACHE_TYPES, Options
from rushlight.models.generation.steps import Token
from rushlight.models.tasks.record import Command, Input, Option, Progress, Run, Task

# Tokens of a prompt that are read between two checks for a stop: half a second of a small model on
# the CPU.
_CHUNK = 64
_TEXT = "A rushlight is a candle made of a rush and a little fat: light anybody could afford. "
_DEFAULTS = Options()


@dataclass(frozen=True)
class Answer:
    """The generated text; seconds: "prefill" until the first token, "decode" after it."""

    text: str
    prompt_ids: list[int]
    ids: list[int]
    stopped: str
    linear: str
    seconds: dict[str, float]


def _option(name: str, kind: str, help: str, choices: tuple[str, ...] = ()) -> Option:
    default = getattr(_DEFAULTS, name)
    if name in NUMBERS:  # the checkpoint's, if it has one
        help, default = f"{help} Default: the checkpoint's, or {default}.", None
    return Option(name, kind, default, help, choices)


# The fields of `sampling.Options`, which checks their ranges.
SAMPLING = (
    _option("max_new_tokens", "int", "The most tokens of an answer."),
    _option("temperature", "float", "0 always picks the likeliest token."),
    _option("top_k", "int", "Draw from this many likeliest tokens; 0: from all."),
    _option("top_p", "float", "Draw from the likeliest tokens that sum to this probability."),
    _option("min_p", "float", "Draw from tokens at least this likely, relative to the likeliest."),
    _option("repetition_penalty", "float", "Divide the logits of earlier tokens by this."),
    _option("frequency_penalty", "float", "Lower a token's logit by this per occurrence."),
    _option("presence_penalty", "float", "Lower the logit of a token that occurred by this."),
    _option("logit_bias", "biases", "Numbers to add to the logits of tokens."),
    _option("token_mask", "mask", "The allowed tokens."),
    _option("seed", "int", "The same seed draws the same tokens."),
    _option("stop", "texts", "A text that ends the answer; repeatable."),
    _option("response_format", "format", "The form of the answer: a schema, a pattern, a grammar."),
    _option(
        "overflow",
        "text",
        "If the context is full: fail, or drop the oldest tokens.",
        ("error", "shift"),
    ),
    _option(
        "linear",
        "text",
        "Products with quantized weights: fast rounds activations, or exact.",
        ("exact", "fast"),
    ),
    _option(
        "cache_type",
        "text",
        "The dtype of cached keys and values; q8_0 is the smallest.",
        CACHE_TYPES,
    ),
)


def answer(
    model: Any, ids: list[int], options: Mapping[str, Any], watched: bool, began: float
) -> Run:
    """Generate after token ids: yields tokens, returns an Answer. began: time of the call."""
    steps = model.steps(ids, **options)  # raises for invalid options before anything is read
    tokens: list[Token] = []
    first, sent = 0.0, None
    with closing(steps):
        if watched:
            ahead = read_ahead(model, ids, _CHUNK, options["linear"], options["cache_type"])
            with closing(ahead) as reading:
                for done in reading:
                    yield Progress("prefill", done, len(ids))
        while True:
            try:
                item = steps.send(sent)
            except StopIteration:
                break
            if isinstance(item, Token):
                first = first or time.perf_counter()
                tokens.append(item)
            sent = yield item
    seconds = {"prefill": first - began, "decode": time.perf_counter() - first}
    return Answer(
        "".join(t.text for t in tokens),
        plain_ids(ids),
        [t.id for t in tokens],
        tokens[-1].stopped,
        model.linear_in_use(options["linear"]),
        seconds,
    )


def run(model: Any, prompt: str | Sequence[int], options: Mapping[str, Any], watched: bool) -> Run:
    """Continue a text or token ids; with the chat template, answer them."""
    began = time.perf_counter()
    chosen = dict(options)
    variables = chosen.pop("chat_template_kwargs") or {}
    if chosen.pop("template"):
        for name in variables:
            check_variable(model.template, name)
        ids = model.chat_ids([{"role": "user", "content": prompt}], **variables)
    else:
        ids = model.prompt_ids(prompt)
    return (yield from answer(model, ids, chosen, watched, began))


def refuse(options: Mapping[str, Any]) -> None:
    """ValueError or TypeError for options of sampling that are out of range."""
    names = [option.name for option in SAMPLING if options[option.name] is not None]
    Options(**{name: options[name] for name in names})


def _refuse(options: Mapping[str, Any]) -> None:
    refuse(options)
    variables = options["chat_template_kwargs"] or {}
    check_variables(variables)
    if variables and not options["template"]:
        raise ValueError(
            f"text-generation: {', '.join(variables)} would have no effect; variables of the chat "
            "template need template=True"
        )


TASK = Task(
    name="text-generation",
    summary="Continue a prompt.",
    input=Input("prompt", "prompt", "The text to continue, or to answer with the template."),
    output="text",
    run=run,
    options=(
        *SAMPLING,
        Option("template", "bool", False, "Lay the prompt out by the chat template.", off="raw"),
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
        "generate",
        "smollm2-135m-instruct",
        {"template": True},
        "Answer a prompt, or continue it with --raw.",
    ),
    samples=tuple((_TEXT * times, {"max_new_tokens": 4}) for times in (1, 5)),
)
