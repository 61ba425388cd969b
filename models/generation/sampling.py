"""Sampling: the options of language models, which say how to choose tokens and when to stop.

The rules apply in llama.cpp's order: logit bias; token mask and bans; repetition penalty (Keskar et
al., 2019), frequency and presence penalties (as in OpenAI's API); DRY; the caller's processors;
top-n-sigma; top-k (Fan et al., 2018); typical (Meister et al., 2022); top-p (Holtzman et al.,
2019); min-p (Nguyen et al., 2024); XTC; temperature. `samplers/` has those that run on the host.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rushlight.core.backends import LINEAR_MODES, Device
from rushlight.core.basis.dtype import bool_
from rushlight.core.tensor.tensor import Tensor

Array = npt.NDArray[Any]

# The dtypes of a cache that generation takes.
CACHE_TYPES = ("float32", "float16", "q8_0")


# The samplers that narrow or draw, in llama.cpp's order, by the names that `samplers` takes.
CHAIN = (
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typical_p",
    "top_p",
    "min_p",
    "epsilon_cutoff",
    "eta_cutoff",
    "xtc",
    "temperature",
)
BREAKERS = ("\n", ":", '"', "*")
Ids = Sequence[int]
# processor(ids, scores): new scores (vocab,) float32 of the token after `ids`, prompt and answer.
Processor = Callable[[list[int], Array], Array]


@dataclass(frozen=True)
class Options:
    """How to choose tokens and when to stop; ValueError or TypeError for an invalid option.

    temperature 0 is greedy. top_k 0, top_p 1, min_p 0, typical_p 1, top_n_sigma 0 and the cutoffs 0
    keep all tokens. logit_bias: a number added to the logit, by token id. token_mask: a boolean per
    token, false for forbidden ones. If it is a tensor on the model's device, the caller may write
    to it between two tokens: the next token obeys it, and no step is computed ahead. stop: text
    that ends the answer and is not part of it. overflow: "error" (or "raise") raises if the context
    is full, "shift" drops the oldest half but for the first `sinks` tokens (Xiao et al., 2023).
    linear: the mode of products with quantized weights, see `rl.set_linear_mode`. cache_type: the
    dtype of cached keys and values; float16 takes half of float32's memory, q8_0 about a quarter.

    dynatemp_range r: the temperature is between temperature - r and temperature + r, by the
    entropy of what is left to the power dynatemp_exponent. xtc_probability: that of leaving out all
    but the last of the tokens of at least xtc_threshold. dry_multiplier: above 0 what would repeat
    dry_allowed_length tokens or more loses dry_multiplier * dry_base**(length -
    dry_allowed_length); repetitions are looked for in the last dry_penalty_last_n tokens (-1: all)
    and end at dry_sequence_breakers. mirostat 1 or 2 (Basu et al., 2020) aims at a surprise of
    mirostat_tau bits at the rate mirostat_eta in place of all that narrows. penalty_last_n: the
    penalties count the last so many tokens of prompt and answer (-1: all); without it repetition
    counts all tokens, frequency and presence those of the answer. samplers: the names of `CHAIN`
    that run, in their order; what is not named does not.

    max_length counts the prompt, max_new_tokens does not and precedes it, so with the least
    lengths. eos_token_id: what ends an answer in place of the checkpoint's; stop_token_ids: what
    ends it besides. no_repeat_ngram_size, bad_words_ids, suppress_tokens, begin_suppress_tokens,
    forced_bos_token_id, forced_eos_token_id, sequence_bias and exponential_decay_length_penalty
    are as in transformers' GenerationConfig. logits_processor: functions (ids, scores) of token ids
    and float32 scores (vocab,) that return new ones. logprobs: so many of the likeliest tokens are
    told with each token.

    num_return_sequences: answers of `answers`. num_beams, num_beam_groups, diversity_penalty,
    length_penalty and early_stopping: search by beams, see `search.options`. penalty_alpha, with
    top_k: contrastive search. assistant_model, prompt_lookup_num_tokens: assisted decoding, whose
    answers are those of plain decoding; num_assistant_tokens are proposed at a time.
    response_format: the form of the answer, see `constrained.formats.form_of`.
    """

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    token_mask: Tensor | Sequence[bool] | Array | None = field(default=None, compare=False)
    seed: int | None = None
    stop: str | Sequence[str] = ()
    response_format: Any = field(default=None, compare=False)
    overflow: str = "error"
    linear: str = "fast"
    cache_type: str = "float32"
    typical_p: float = 1.0
    top_n_sigma: float = 0.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: str | Sequence[str] = BREAKERS
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    penalty_last_n: int | None = None
    samplers: str | Sequence[str] | None = None
    max_length: int | None = None
    min_length: int = 0
    min_new_tokens: int | None = None
    no_repeat_ngram_size: int = 0
    bad_words_ids: Sequence[Ids] | None = None
    suppress_tokens: Ids | None = None
    begin_suppress_tokens: Ids | None = None
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | Ids | None = None
    sequence_bias: Sequence[tuple[Ids, float]] | None = None
    exponential_decay_length_penalty: tuple[int, float] | None = None
    eos_token_id: int | Ids | None = None
    stop_token_ids: Ids = ()
    logprobs: int = 0
    logits_processor: Processor | Sequence[Processor] = field(default=(), compare=False)
    num_return_sequences: int = 1
    num_beams: int = 1
    num_beam_groups: int = 1
    diversity_penalty: float = 0.0
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    penalty_alpha: float = 0.0
    assistant_model: Any = field(default=None, compare=False)
    prompt_lookup_num_tokens: int = 0
    num_assistant_tokens: int = 5
    sinks: int = 4

    def __post_init__(self) -> None:
        if self.overflow == "raise":
            object.__setattr__(self, "overflow", "error")
        for name, least in _WHOLE.items():
            if getattr(self, name) is not None or name == "max_new_tokens":
                _whole(name, getattr(self, name), least)
        for name, (low, high) in _NUMBERS.items():
            _within(name, getattr(self, name), low, high, open_low=name in _OPEN)
        for name in ("stop", "dry_sequence_breakers"):
            value = getattr(self, name)
            if any(not isinstance(s, str) or not s for s in _tuple(value)):
                raise ValueError(f"generate: {name} is {value!r}; each must be a non-empty text")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"generate: {name} is {getattr(self, name)!r}; it must be one of "
                    f"{', '.join(map(str, choices))}"
                )
        self._check_together()

    def _check_together(self) -> None:
        """Raise ValueError or TypeError for options that do not go together."""
        for name in _tuple(self.samplers or ()):
            if name not in CHAIN:
                near = difflib.get_close_matches(str(name), CHAIN, 1)
                hint = f" did you mean {near[0]!r}?" if near else ""
                raise ValueError(
                    f"generate: samplers names {name!r}, which is not supported;{hint} supported: "
                    f"{', '.join(CHAIN)}"
                )
        if not all(map(callable, self.processors)):
            raise TypeError(
                f"generate: logits_processor is {self.logits_processor!r}; each must be a function "
                "(ids, scores) -> scores"
            )
        if self.mirostat:
            narrows = [n for n, value in _NARROWS.items() if getattr(self, n) != value]
            narrows += ["top_n_sigma"] * (self.top_n_sigma > 0)
            if narrows or self.samplers:
                raise ValueError(
                    f"generate: mirostat takes the place of {(narrows or ['samplers'])[0]}; leave "
                    "one of them out"
                )
            if self.temperature == 0:
                raise ValueError("generate: mirostat draws; pass a temperature above 0")
        strategies = {
            "num_beams": self.num_beams > 1,
            "penalty_alpha": self.penalty_alpha > 0,
            "assistant_model": self.assistant_model is not None,
            "prompt_lookup_num_tokens": self.prompt_lookup_num_tokens > 0,
            "mirostat": self.mirostat > 0,
        }
        active = [name for name, on in strategies.items() if on]
        if len(active) > 1:
            raise ValueError(f"generate: {active[0]} and {active[1]} exclude each other")
        if self.num_beams % self.num_beam_groups:
            raise ValueError(
                f"generate: num_beams is {self.num_beams}, which num_beam_groups "
                f"{self.num_beam_groups} does not divide"
            )
        if self.diversity_penalty and self.num_beam_groups == 1:
            raise ValueError("generate: diversity_penalty needs num_beam_groups above 1")
        if self.penalty_alpha and (self.top_k < 2 or self.temperature):
            raise ValueError(
                "generate: penalty_alpha needs top_k of 2 or more, and temperature 0: contrastive "
                "search chooses among the likeliest tokens and draws none"
            )
        wanted = self.num_return_sequences
        if self.num_beams > 1 and wanted > self.num_beams:
            raise ValueError(
                f"generate: num_return_sequences is {wanted}, more than num_beams {self.num_beams}"
            )
        if wanted > 1 and self.num_beams == 1 and self.temperature == 0:
            raise ValueError(
                f"generate: num_return_sequences is {wanted}, but the likeliest tokens are one "
                "answer; pass num_beams, or a temperature above 0"
            )
        if self.num_beams > 1 or self.penalty_alpha:
            what = "num_beams" if self.num_beams > 1 else "penalty_alpha"
            lone = [n for n, neutral in _ALONE.items() if getattr(self, n) not in neutral]
            if lone or self.token_mask is not None or self.processors:
                names = [*lone, "token_mask" if self.token_mask is not None else "logits_processor"]
                raise ValueError(
                    f"generate: {names[0]} is not supported with {what}; leave one out"
                )
        if (self.assistant_model is not None or self.prompt_lookup_num_tokens) and (
            isinstance(self.token_mask, Tensor)
        ):
            raise ValueError(
                "generate: assisted decoding reads several tokens at once, so a token_mask that is "
                "written to between tokens is not supported; pass it as an array"
            )

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop texts."""
        return _tuple(self.stop)

    @property
    def processors(self) -> tuple[Processor, ...]:
        """The caller's functions of scores."""
        given = self.logits_processor
        return (given,) if callable(given) else tuple(given or ())

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end an answer, stop tokens too."""
        return frozenset((*ids_of(self.eos_token_id), *self.stop_token_ids))

    @property
    def on_host(self) -> bool:
        """Whether a rule is active that is computed on the host, of logits that are read back."""
        penalized = self.repetition_penalty != 1 or self.frequency_penalty or self.presence_penalty
        return bool(
            any(getattr(self, name) != value for name, value in _ON_HOST.items())
            or self.top_n_sigma > 0
            or (self.samplers and _tuple(self.samplers) != CHAIN)
            or (self.penalty_last_n is not None and penalized)
            or self.sequence_bias
            or self.exponential_decay_length_penalty
            or self.processors
        )

    def most(self, prompt: int) -> int:
        """The most new tokens after a prompt of `prompt` tokens; ValueError if there are none."""
        if self.max_length is None:
            return self.max_new_tokens
        if self.max_length <= prompt:
            raise ValueError(
                f"generate: max_length is {self.max_length}, but the prompt has {prompt} tokens; "
                "pass max_new_tokens, which does not count them"
            )
        return self.max_length - prompt


def ids_of(value: int | Ids | None) -> list[int]:
    """Token ids given as one number, a list, or not at all."""
    if value is None:
        return []
    return [value] if isinstance(value, int) else [int(i) for i in value]


def _tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


# The least of each; those that may be None are checked where they are not.
_WHOLE = {
    "max_new_tokens": 1,
    "top_k": 0,
    "seed": 0,
    "dry_allowed_length": 1,
    "dry_penalty_last_n": -1,
    "penalty_last_n": -1,
    "max_length": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "no_repeat_ngram_size": 0,
    "forced_bos_token_id": 0,
    "logprobs": 0,
    "num_return_sequences": 1,
    "num_beams": 1,
    "num_beam_groups": 1,
    "prompt_lookup_num_tokens": 0,
    "num_assistant_tokens": 1,
    "sinks": 0,
}
_NUMBERS: dict[str, tuple[float, float]] = {
    "temperature": (0, 1e6),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repetition_penalty": (0, 1e6),
    "frequency_penalty": (-1e6, 1e6),
    "presence_penalty": (-1e6, 1e6),
    "typical_p": (0, 1),
    "top_n_sigma": (-1, 1e6),
    "epsilon_cutoff": (0, 1),
    "eta_cutoff": (0, 1),
    "dynatemp_range": (0, 1e6),
    "dynatemp_exponent": (0, 1e6),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "dry_multiplier": (0, 1e6),
    "dry_base": (1, 1e6),
    "mirostat_tau": (0, 1e6),
    "mirostat_eta": (0, 1e6),
    "length_penalty": (-1e6, 1e6),
    "diversity_penalty": (0, 1e6),
    "penalty_alpha": (0, 1),
}
_OPEN = ("top_p", "typical_p", "repetition_penalty")  # zero is none of their values
_CHOICES: dict[str, tuple[Any, ...]] = {
    "linear": LINEAR_MODES,
    "cache_type": CACHE_TYPES,
    "overflow": ("error", "shift"),
    "mirostat": (0, 1, 2),
    "early_stopping": (True, False, "never"),
}
# What only the host computes, with the values that change nothing.
_ON_HOST = {
    "typical_p": 1,
    "epsilon_cutoff": 0,
    "eta_cutoff": 0,
    "dynatemp_range": 0,
    "xtc_probability": 0,
    "dry_multiplier": 0,
    "mirostat": 0,
}
_NARROWS = {
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "typical_p": 1,
    "epsilon_cutoff": 0,
    "eta_cutoff": 0,
    "xtc_probability": 0,
    "dynatemp_range": 0,
}
_TOKENS = (
    "suppress_tokens",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "stop_token_ids",
)
# What beams and contrastive search do not do, with the values that change nothing.
_ALONE: dict[str, tuple[Any, ...]] = {
    "stop": ((), []),
    "logit_bias": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "penalty_last_n": (None,),
    "dry_multiplier": (0,),
    "xtc_probability": (0,),
    "dynatemp_range": (0,),
    "logprobs": (0,),
    "samplers": (None, (), []),
    "overflow": ("error",),
}


def _whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"generate: {name} is {value!r}; it must be a whole number")
    if value < least:
        raise ValueError(f"generate: {name} is {value}; it must be at least {least}")


def _within(name: str, value: Any, low: float, high: float, *, open_low: bool = False) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"generate: {name} is {value!r}; it must be a number")
    if not low <= value <= high or (open_low and value == low) or math.isnan(value):
        raise ValueError(f"generate: {name} is {value}; it must be from {low} to {high}")


def checked(options: Options, vocab: int, device: Device) -> None:
    """Raise TypeError or ValueError if a bias or mask does not fit the model's vocabulary."""
    for name in ("logit_bias", *_TOKENS):
        value = getattr(options, name)
        for i in value if name == "logit_bias" else ids_of(value):
            if not 0 <= i < vocab:
                raise ValueError(f"generate: {name} names token {i}; the vocabulary has {vocab}")
    for name in ("bad_words_ids", "sequence_bias"):
        for entry in getattr(options, name) or ():
            ids = entry if name == "bad_words_ids" else entry[0]
            if not ids or any(not 0 <= i < vocab for i in ids):
                raise ValueError(
                    f"generate: {name} has {list(ids)}; each must be tokens below {vocab}"
                )
    mask = options.token_mask
    if mask is None:
        return
    place = mask.device if isinstance(mask, Tensor) else device
    truths = mask if isinstance(mask, Tensor) else np.asarray(mask)
    if truths.dtype not in (bool_, np.bool_):
        raise TypeError("generate: token_mask must hold a boolean for each token")
    if truths.shape != (vocab,):
        raise ValueError(
            f"generate: token_mask is {tuple(truths.shape)}; it must be ({vocab},), a boolean "
            "for each token"
        )
    if place is not device:
        raise ValueError(f"generate: token_mask is on {place}, the model is on {device}")
