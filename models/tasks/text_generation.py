"""The task text-generation: a language model continues a prompt."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.backends import LINEAR_MODES
from rushlight.models.generation.chatting import check_variable, check_variables
from rushlight.models.generation.followed import NUMBERS, Followed
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
    """The generated text; seconds: "prefill" until the first token, "decode" after it.

    text, ids: lists of them where several answers were asked for. logprobs: of each token, where
    the option is above 0, "id", "logprob" and "top", the likeliest tokens with theirs.
    """

    text: Any
    prompt_ids: list[int]
    ids: list[Any]
    stopped: str
    linear: str
    seconds: dict[str, float]
    logprobs: list[dict[str, Any]] = field(default_factory=list)


def _option(name: str, kind: str, help: str, choices: tuple[str, ...] = ()) -> Option:
    default = getattr(_DEFAULTS, name)
    if name in NUMBERS:  # the checkpoint's, if it has one
        help, default = f"{help} Default: the checkpoint's, or {default}.", None
    return Option(name, kind, None if kind == "ids" else default, help, choices)


# Of `sampling.Options`, which checks their ranges.
SAMPLING = (
    _option("max_new_tokens", "int", "The most tokens of an answer."),
    _option("temperature", "float", "0 always picks the likeliest token."),
    _option("top_k", "int", "Draw from this many likeliest tokens; 0: from all."),
    _option("top_p", "float", "Draw from the likeliest tokens that sum to this probability."),
    _option("min_p", "float", "Draw from tokens at least this likely, relative to the likeliest."),
    _option("typical_p", "float", "Draw from the tokens of usual surprise that sum to this."),
    _option("top_n_sigma", "float", "Draw from logits within so many deviations of the largest."),
    _option("epsilon_cutoff", "float", "Draw from tokens of at least this probability."),
    _option("eta_cutoff", "float", "The same, with a bound that sinks as the entropy grows."),
    _option("dynatemp_range", "float", "The temperature varies by this much, with the entropy."),
    _option("dynatemp_exponent", "float", "How it follows the entropy."),
    _option("xtc_probability", "float", "How often the likeliest tokens are left out (XTC)."),
    _option("xtc_threshold", "float", "All but the last of the tokens this likely are left out."),
    _option("mirostat", "int", "1 or 2: aim at a surprise in place of what narrows."),
    _option("mirostat_tau", "float", "The surprise in bits."),
    _option("mirostat_eta", "float", "How fast mirostat learns."),
    _option("samplers", "texts", "The samplers that run, in their order; repeatable."),
    Option("do_sample", "bool", None, "Whether to draw: with the checkpoint's temperature, or 1."),
    _option("repetition_penalty", "float", "Divide the logits of earlier tokens by this."),
    _option("frequency_penalty", "float", "Lower a token's logit by this per occurrence."),
    _option("presence_penalty", "float", "Lower the logit of a token that occurred by this."),
    _option("penalty_last_n", "int", "The penalties count the last so many tokens; -1: all."),
    _option("dry_multiplier", "float", "Above 0: lower what would repeat runs of tokens (DRY)."),
    _option("dry_base", "float", "The penalty grows by this factor with each token of a run."),
    _option("dry_allowed_length", "int", "Runs of so many tokens cost the multiplier alone."),
    _option("dry_penalty_last_n", "int", "Look for runs in the last so many tokens; -1: all."),
    _option("dry_sequence_breakers", "texts", "Texts at which runs end; repeatable."),
    _option("no_repeat_ngram_size", "int", "Runs of this many tokens occur once only."),
    _option("logit_bias", "biases", "Numbers to add to the logits of tokens."),
    _option("token_mask", "mask", "The allowed tokens."),
    _option("bad_words_ids", "token_lists", "Runs of tokens that are not written."),
    _option("suppress_tokens", "ids", "Tokens that are not written."),
    _option("begin_suppress_tokens", "ids", "Tokens that an answer does not begin with."),
    _option("forced_bos_token_id", "int", "The second token of all, if the prompt is one token."),
    _option("forced_eos_token_id", "tokens", "The last token of an answer of full length."),
    _option("seed", "int", "The same seed draws the same tokens."),
    _option("stop", "texts", "A text that ends the answer; repeatable."),
    _option("stop_token_ids", "ids", "Tokens that end the answer, besides the checkpoint's."),
    _option("eos_token_id", "tokens", "Tokens that end it in place of the checkpoint's."),
    _option("min_new_tokens", "int", "The fewest tokens of an answer."),
    _option("min_length", "int", "The fewest tokens of prompt and answer."),
    _option("max_length", "int", "The most tokens of prompt and answer."),
    _option("logprobs", "int", "Tell so many of the likeliest tokens with each token."),
    _option("num_return_sequences", "int", "Answers of a prompt, drawn or by beams."),
    _option("num_beams", "int", "Sequences that are continued together; 1 streams."),
    _option("num_beam_groups", "int", "Groups of beams that differ from one another."),
    _option("diversity_penalty", "float", "Lower what earlier groups said at the same place."),
    _option("length_penalty", "float", "Above 0 beams prefer long answers, below 0 short ones."),
    _option("early_stopping", "bool", "Stop when as many answers as beams are found."),
    _option("penalty_alpha", "float", "Above 0, with top_k: contrastive search."),
    _option("prompt_lookup_num_tokens", "int", "Guess so many tokens from the text so far."),
    _option("num_assistant_tokens", "int", "Tokens that an assistant guesses at a time."),
    _option("response_format", "format", "The form of the answer: a schema, a pattern, a grammar."),
    _option(
        "overflow",
        "text",
        "If the context is full: fail, or drop the oldest tokens.",
        ("error", "raise", "shift"),
    ),
    _option("sinks", "int", "So many first tokens stay when the oldest are dropped."),
    _option(
        "linear",
        "text",
        "Products with quantized weights: fast or int8 round activations, or exact.",
        LINEAR_MODES,
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
    several = options.get("num_return_sequences") or 1
    if several > 1:
        return (yield from _several(model, ids, options, began))
    steps = model.steps(ids, **options)  # raises for invalid options before anything is read
    tokens: list[Token] = []
    first, sent = 0.0, None
    with closing(steps):
        if watched and not options.get("penalty_alpha"):
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
        [{"id": t.id, "logprob": t.logprob, "top": [*t.top]} for t in tokens if t.top],
    )


def _several(model: Any, ids: list[int], options: Mapping[str, Any], began: float) -> Run:
    """The Answer of several answers, none of which is given token by token."""
    steps, sent = model.search([ids], **options), None
    with closing(steps):
        while True:
            try:
                item = steps.send(sent)
            except StopIteration as finished:
                answers = finished.value[0]
                break
            sent = None if isinstance(item, Token) else (yield item)
    seconds = {"prefill": 0.0, "decode": time.perf_counter() - began}
    ended = bool(answers[0].ids) and answers[0].ids[-1] in model.eos_ids
    return Answer(
        [model.text_of(answer) for answer in answers],
        plain_ids(ids),
        [answer.ids for answer in answers],
        "eos" if ended else "length",
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
    Followed({}, 0).options({name: options[name] for name in names})


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
