"""Beam search of a language model, by the beams of text to text.

Groups are diverse beam search (Vijayakumar et al., 2016): they choose one after another, and a
token loses diversity_penalty for each beam of earlier groups that has chosen it at this place.
"""

from __future__ import annotations

from collections.abc import Generator as Steps
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.backends.readback import Readback
from rushlight.models.generation.pictures import plain_ids
from rushlight.models.generation.sampling import Array, Options
from rushlight.models.generation.search.beams import Beams, Found
from rushlight.models.generation.search.options import SearchOptions
from rushlight.models.generation.search.rules import Rules, log_softmax
from rushlight.models.generation.search.run import Draw
from rushlight.models.generation.strategies.rows import RowSteps, check_growth

if TYPE_CHECKING:
    from rushlight.models.generation.generate import CausalLM

# The options that the search for text to text has by the same names.
_SHARED = (
    "min_length",
    "min_new_tokens",
    "early_stopping",
    "length_penalty",
    "top_p",
    "typical_p",
    "epsilon_cutoff",
    "eta_cutoff",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "bad_words_ids",
    "sequence_bias",
    "suppress_tokens",
    "begin_suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "exponential_decay_length_penalty",
)
# Yields readbacks, whose values it is sent, and returns the answers, the best first.
BeamSteps = Steps[Readback[Any], Any, list[Found]]


def by_beams(model: CausalLM, ids: list[int], options: Options) -> BeamSteps:
    """The `num_return_sequences` best answers to a prompt, the best first.

    ValueError if prompt and answer do not fit the context.
    """
    o, first = options, plain_ids(ids)
    check_growth(model, len(first), o.most(len(first)), "num_beams")
    limit = len(first) + o.most(len(first))
    session = model._resume(ids, o.linear, o.cache_type)
    try:
        session.begin(o, ids, host=True)
        logits = yield session.feed(model, ids).readback()
        rows = RowSteps(model, o.num_beams, session.cache, o)
    finally:
        model._session = session
    search = _Groups(o, first, limit, model.vocab_size)
    logits = np.repeat(logits, o.num_beams, 0)
    while True:
        if not np.isfinite(logits).all():
            raise FloatingPointError("generate: the logits are not finite; the weights are damaged")
        parents, tokens = search.step(logits)
        if search.done:
            return search.answers(o.num_return_sequences)
        rows.reorder(parents)
        logits = yield rows.step(tokens)[0].readback()


class _Groups:
    """The beams of each group; one group is plain beam search."""

    def __init__(self, options: Options, first: list[int], limit: int, vocab: int) -> None:
        o, self.groups = options, options.num_beam_groups
        self.size, self.penalty = o.num_beams // self.groups, o.diversity_penalty
        draws = o.temperature > 0
        chosen = SearchOptions(
            num_beams=self.size,
            num_return_sequences=min(self.size, o.num_return_sequences),
            do_sample=draws,
            temperature=o.temperature if draws else 1.0,
            top_k=o.top_k,
            min_p=o.min_p or None,
            eos_token_id=sorted(o.ends),
            max_new_tokens=limit - len(first),
            **{name: getattr(o, name) for name in _SHARED},
        )
        noise = Draw(o.seed or 0).gumbel if draws else None
        self.rules = Rules(chosen, len(first), limit, vocab, [[]] * self.size)
        self.draws = draws
        self.beams = [Beams(1, first, limit, chosen, noise) for _ in range(self.groups)]

    @property
    def done(self) -> bool:
        """Whether no group goes on."""
        return all(beams.done for beams in self.beams)

    def step(self, logits: Array) -> tuple[Array, Array]:
        """For each beam the row that it goes on from, and its new token."""
        parents, tokens = np.arange(len(logits)), np.zeros(len(logits), np.int64)
        counts = np.zeros(logits.shape[1], np.float32)
        for number, beams in enumerate(self.beams):
            rows = slice(number * self.size, (number + 1) * self.size)
            if beams.done:
                continue
            scores = log_softmax(logits[rows])
            if number and self.penalty:
                scores = scores - np.float32(self.penalty) * counts
            scores = self.rules(scores, beams.sequences(), drawn=self.draws)
            parents[rows] = beams.step(scores) + rows.start
            tokens[rows] = beams.rows[0, :, -1]
            np.add.at(counts, tokens[rows], 1)
        return parents, tokens

    def answers(self, count: int) -> list[Found]:
        """The best `count` answers of all groups."""
        every = [answer for beams in self.beams for answer in _all(beams)]
        every.sort(key=lambda answer: -answer.score)
        return every[:count]


def _all(beams: Beams) -> Sequence[Found]:
    return [
        Found(ids[beams.first :], float(score))
        for ids, score, finished in zip(
            beams.found[0], beams.found_scores[0], beams.finished[0], strict=True
        )
        if finished
    ]
