"""Options of a search, with transformers' names, and the defaults that a checkpoint stores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rushlight.core.backends import LINEAR_MODES
from rushlight.models.generation.sampling import CACHE_TYPES

# Tokens of an answer if neither the caller nor the checkpoint says how many.
DEFAULT_TOKENS = 256
MOST_BEAMS = 1024
Ids = Sequence[int]


@dataclass(frozen=True)
class SearchOptions:
    """How to search; ValueError or TypeError for an invalid option.

    max_length counts the decoder's first tokens, max_new_tokens does not and precedes it.
    num_beams: sequences that are continued together; 1 continues the likeliest token, or with
    do_sample a drawn one. num_return_sequences: answers of each source. early_stopping: true stops
    when as many answers as beams are found, "never" only when none can become better, false when
    this is unlikely. length_penalty: scores are divided by length**length_penalty.
    forced_bos_token_id: the first token of an answer. forced_eos_token_id: the last at max_length.
    Others are as in transformers' GenerationConfig. seed, stop, linear and cache_type: see
    `sampling.Options`.
    """

    max_new_tokens: int | None = None
    max_length: int | None = None
    min_length: int = 0
    min_new_tokens: int | None = None
    do_sample: bool = False
    num_beams: int = 1
    num_return_sequences: int = 1
    early_stopping: bool | str = False
    length_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    min_p: float | None = None
    typical_p: float = 1.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0
    repetition_penalty: float = 1.0
    encoder_repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    encoder_no_repeat_ngram_size: int = 0
    bad_words_ids: Sequence[Ids] | None = None
    sequence_bias: Sequence[tuple[Ids, float]] | None = None
    suppress_tokens: Ids | None = None
    begin_suppress_tokens: Ids | None = None
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | Ids | None = None
    exponential_decay_length_penalty: tuple[int, float] | None = None
    remove_invalid_values: bool = False
    renormalize_logits: bool = False
    decoder_start_token_id: int | Ids | None = None
    bos_token_id: int | None = None
    eos_token_id: int | Ids | None = None
    pad_token_id: int | None = None
    seed: int | None = None
    stop: str | Sequence[str] = ()
    linear: str = "fast"
    cache_type: str = "float32"

    def __post_init__(self) -> None:
        for name, low, high in _WHOLE:
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"generate: {name} is {value!r}; it must be a whole number")
            if not low <= value <= high:
                raise ValueError(f"generate: {name} is {value}; it must be from {low} to {high}")
        for name, least, most in _NUMBERS:
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                raise TypeError(f"generate: {name} is {value!r}; it must be a number")
            if not least <= value <= most:  # nor is NaN
                raise ValueError(f"generate: {name} is {value}; it must be from {least} to {most}")
        listed = {
            "early_stopping": (True, False, "never"),
            "linear": LINEAR_MODES,
            "cache_type": CACHE_TYPES,
        }
        for name, choices in listed.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"generate: {name} is {getattr(self, name)!r}; supported: "
                    f"{', '.join(map(str, choices))}"
                )
        wanted = self.num_return_sequences
        if self.num_beams > 1 and wanted > self.num_beams:
            raise ValueError(
                f"generate: num_return_sequences is {wanted}, more than num_beams {self.num_beams}"
            )
        if self.num_beams == 1 and wanted > 1 and not self.do_sample:
            raise ValueError(
                f"generate: num_return_sequences is {wanted}, but the likeliest tokens are one "
                "answer; pass num_beams or do_sample=True"
            )
        if any(not isinstance(s, str) or not s for s in self.stops):
            raise ValueError(f"generate: stop is {self.stop!r}; each must be a non-empty text")
        if self.stops and self.num_beams > 1:
            raise ValueError("generate: stop is not supported with num_beams; leave one out")

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop texts."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end an answer."""
        return frozenset(ids_of(self.eos_token_id))

    def limit(self, first: int, context: int) -> int:
        """The largest length of an answer with its `first` tokens, within the context."""
        if self.max_new_tokens is not None:
            return min(first + self.max_new_tokens, context)
        return min(self.max_length or first + DEFAULT_TOKENS, context)


_WHOLE = (
    ("max_new_tokens", 1, 1 << 30),
    ("max_length", 1, 1 << 30),
    ("min_length", 0, 1 << 30),
    ("min_new_tokens", 0, 1 << 30),
    ("num_beams", 1, MOST_BEAMS),
    ("top_k", 0, 1 << 30),
    ("num_return_sequences", 1, MOST_BEAMS),
    ("no_repeat_ngram_size", 0, 1 << 30),
    ("encoder_no_repeat_ngram_size", 0, 1 << 30),
    ("seed", 0, 1 << 64),
    ("forced_bos_token_id", 0, 1 << 30),
    ("bos_token_id", 0, 1 << 30),
    ("pad_token_id", 0, 1 << 30),
)
_TINY = math.ulp(0.0)
_NUMBERS = (
    ("length_penalty", -1e6, 1e6),
    ("temperature", _TINY, 1e6),
    ("top_p", _TINY, 1.0),
    ("min_p", 0.0, 1.0),
    ("typical_p", _TINY, 1.0),
    ("epsilon_cutoff", 0.0, 1.0),
    ("eta_cutoff", 0.0, 1.0),
    ("repetition_penalty", _TINY, 1e6),
    ("encoder_repetition_penalty", _TINY, 1e6),
)
NAMES = frozenset(field.name for field in fields(SearchOptions))


def ids_of(value: int | Ids | None) -> list[int]:
    """Token ids that a configuration gives as one number, a list, or not at all."""
    if value is None:
        return []
    return [value] if isinstance(value, int) else [int(i) for i in value]


def chosen(stored: Mapping[str, Any], given: Mapping[str, Any]) -> SearchOptions:
    """The options of a call: those `given` that are not None, then those `stored`.

    A length of the caller precedes a stored one.
    """
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise TypeError(
            f"generate: option {unknown[0]!r} is not supported; supported: "
            f"{', '.join(sorted(NAMES))}"
        )
    asked = {name: value for name, value in given.items() if value is not None}
    defaults = dict(stored)
    if {"max_length", "max_new_tokens"} & asked.keys():
        defaults.pop("max_length", None)
        defaults.pop("max_new_tokens", None)
    return SearchOptions(**defaults | asked)
