"""Penalties of what was said before: by tokens, and DRY, which is by runs of tokens.

DRY (p-e-w, 2024): a token that would go on with a run of tokens which occurred before loses the
more of its score, the longer the run is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rushlight.core.io.text.tokenizer import Tokenizer
from rushlight.models.generation.sampling import Array, Options

# For each token that may begin a breaker: what must follow for one, () for a breaker of its own.
Breakers = Mapping[int, Sequence[tuple[int, ...]]]
# The logarithm of the largest float32: penalties of longer runs grow no more.
_LARGEST = 88.7228391
# The breakers of each tokenizer by their texts.
_known: WeakKeyDictionary[Tokenizer, dict[tuple[str, ...], Breakers]] = WeakKeyDictionary()


def penalized(scores: Array, options: Options, prompt: Sequence[int], said: Sequence[int]) -> Array:
    """New scores (vocab,) by the penalties of repetition, frequency and presence.

    prompt, said: the tokens before the answer, and those of it.
    """
    o = options
    if o.penalty_last_n is None:
        seen, counted = {*prompt, *said}, said
    else:
        history = [*prompt, *said]
        window = history if o.penalty_last_n < 0 else history[-o.penalty_last_n :]
        window = window if o.penalty_last_n else []
        seen, counted = set(window), window
    scores = scores.copy()
    if o.repetition_penalty != 1 and seen:
        ids = np.fromiter(seen, np.int64)
        old = scores[ids]
        scores[ids] = np.where(old <= 0, old * o.repetition_penalty, old / o.repetition_penalty)
    if (o.frequency_penalty or o.presence_penalty) and counted:
        ids, counts = np.unique(np.asarray(counted, np.int64), return_counts=True)
        scores[ids] -= counts * o.frequency_penalty + o.presence_penalty
    return scores


def dry(scores: Array, options: Options, history: Sequence[int], breakers: Breakers) -> Array:
    """New scores (vocab,) by DRY after the tokens `history`."""
    o = options
    last = list(history if o.dry_penalty_last_n < 0 else history[-o.dry_penalty_last_n :])
    if o.dry_penalty_last_n == 0 or len(last) <= o.dry_allowed_length:
        return scores
    last.reverse()  # the newest first
    limit = _unbroken(last, breakers)
    if limit < o.dry_allowed_length:
        return scores
    longest: dict[int, int] = {}
    for place, count in enumerate(_shared(last), 1):
        count = min(count, limit)
        if count >= o.dry_allowed_length:
            token = last[place - 1]
            longest[token] = max(longest.get(token, 0), count)
    scores = scores.copy()
    most = int(_LARGEST / math.log(o.dry_base)) if o.dry_base > 1.000001 else 0
    for token, count in longest.items():
        if () in breakers.get(token, ()):
            continue
        power = count - o.dry_allowed_length
        power = min(power, most) if most else power
        scores[token] -= o.dry_multiplier * o.dry_base**power
    return scores


def _unbroken(last: Sequence[int], breakers: Breakers) -> int:
    """How many of the newest tokens come after the last breaker; last: the newest first."""
    for place, token in enumerate(last):
        matches = [
            len(tail)
            for tail in breakers.get(token, ())
            if len(tail) <= place and list(tail) == list(last[place - len(tail) : place])[::-1]
        ]
        if matches:
            return place - max(matches)
    return len(last)


def _shared(x: Sequence[int]) -> list[int]:
    """For each place from 1 on, how many items from there are those that `x` begins with.

    The Z algorithm (Gusfield, 1997), whose time is linear.
    """
    counts = [0] * len(x)
    left = right = 0
    for place in range(1, len(x)):
        count = min(right - place, counts[place - left]) if place < right else 0
        while place + count < len(x) and x[count] == x[place + count]:
            count += 1
        counts[place] = count
        if place + count > right:
            left, right = place, place + count
    return counts[1:]


def breakers_of(tokenizer: Tokenizer | None, texts: Sequence[str], vocab: int) -> Breakers:
    """The tokens at which runs end: those that hold one of the texts, or that begin one.

    None without a tokenizer. A token whose end begins a text counts if the tokens of the rest
    follow.
    """
    if tokenizer is None or not texts:
        return {}
    key = tuple(texts)
    known = _known.setdefault(tokenizer, {})
    if key in known:
        return known[key]
    made: dict[int, list[Any]] = {}
    rests: dict[str, tuple[int, ...]] = {}
    for token in range(vocab):
        said = tokenizer.decode([token], skip_special_tokens=False)
        for text in texts:
            if text in said:
                made.setdefault(token, []).append(())
                continue
            for count in range(1, min(len(said), len(text) - 1) + 1):
                if said.endswith(text[:count]):
                    rest = text[count:]
                    if rest not in rests:
                        ids = tokenizer.encode(rest, add_special_tokens=False).ids
                        rests[rest] = tuple(ids)
                    made.setdefault(token, []).append(rests[rest])
    known[key] = made
    return made
