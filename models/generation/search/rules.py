"""The rules that change scores before tokens are chosen, on arrays (rows, vocab) in float32.

They are those of transformers' LogitsProcessors, in its order. Sources: no repeated n-grams, Paulus
et al., 2017; repetition penalty, Keskar et al., 2019; typical, Meister et al., 2022; eta and
epsilon, Hewitt et al., 2022; top-k, top-p and min-p as in `sampling`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.models.generation.sampling import Array
from rushlight.models.generation.search.options import SearchOptions, ids_of

Rows = Sequence[Sequence[int]]


def log_softmax(scores: Array) -> Array:
    """(rows, vocab) -> logarithms of probabilities."""
    shifted = scores - scores.max(1, keepdims=True)
    logs: Array = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return logs


class Rules:
    """The rules of one search: `first` tokens are given, at most `limit` in all.

    sources: the encoder's ids of each row. Raises ValueError for a token outside the vocabulary.
    """

    def __init__(
        self, options: SearchOptions, first: int, limit: int, vocab: int, sources: Rows
    ) -> None:
        self.o, self.first, self.limit, self.sources = options, first, limit, sources
        o = options
        self.ends = [i for i in o.ends if i < vocab]
        self.least = max(o.min_length, first + (o.min_new_tokens or 0))
        self.biased = [(tuple(ids), float(bias)) for ids, bias in o.sequence_bias or ()]
        self.banned = [
            tuple(ids) for ids in o.bad_words_ids or () if not (len(ids) == 1 and ids[0] in o.ends)
        ]
        forced = [*ids_of(o.forced_bos_token_id), *ids_of(o.forced_eos_token_id)]
        suppressed = [*ids_of(o.suppress_tokens), *ids_of(o.begin_suppress_tokens)]
        listed = [i for ids in (*(ids for ids, _ in self.biased), *self.banned) for i in ids]
        bad = [i for i in (*forced, *suppressed, *listed) if not 0 <= i < vocab]
        if bad or not all([*(ids for ids, _ in self.biased), *self.banned]):
            raise ValueError(
                f"generate: token {bad[0]} is not one of the {vocab} tokens"
                if bad
                else "generate: bad_words_ids or sequence_bias has an empty list"
            )
        self._ngrams = [_ngrams(row, o.encoder_no_repeat_ngram_size) for row in sources]

    def __call__(self, scores: Array, rows: Rows, *, drawn: bool) -> Array:
        """New scores of the token after each of `rows`; drawn: those to draw from."""
        o, length = self.o, len(rows[0])
        scores = scores.copy()
        self._bias(scores, rows)
        for i, row in enumerate(rows):
            source = self.sources[i]
            for ids, penalty in (
                (source, 1 / o.encoder_repetition_penalty),
                (row, o.repetition_penalty),
            ):
                if penalty != 1:
                    seen = sorted({t for t in ids if t < scores.shape[1]})
                    seen_scores = scores[i, seen]
                    scores[i, seen] = np.where(
                        seen_scores < 0, seen_scores * penalty, seen_scores / penalty
                    )
            for size, grams in (
                (o.no_repeat_ngram_size, None),
                (o.encoder_no_repeat_ngram_size, self._ngrams[i]),
            ):
                if size and length + 1 >= size:
                    known = _ngrams(row, size) if grams is None else grams
                    scores[i, known.get(tuple(row[length + 1 - size :]), [])] = -np.inf
        for ids in self.banned:
            scores[self._matches(ids, rows), ids[-1]] = -np.inf
        if length < self.least:
            scores[:, self.ends] = -np.inf
        if o.forced_bos_token_id is not None and length == 1:
            scores = _only(scores, [o.forced_bos_token_id])
        if o.forced_eos_token_id is not None and length == self.limit - 1:
            scores = _only(scores, ids_of(o.forced_eos_token_id))
        if o.remove_invalid_values:
            scores = np.nan_to_num(scores)
        self._decay(scores, length)
        scores[:, ids_of(o.suppress_tokens)] = -np.inf
        begin = self.first + (self.first == 1 and o.forced_bos_token_id is not None)
        if length == begin:
            scores[:, ids_of(o.begin_suppress_tokens)] = -np.inf
        if drawn:
            scores = self._narrowed(scores)
        return log_softmax(scores) if o.renormalize_logits else scores

    def _bias(self, scores: Array, rows: Rows) -> None:
        for ids, bias in self.biased:
            scores[self._matches(ids, rows), ids[-1]] += np.float32(bias)

    def _matches(self, ids: Sequence[int], rows: Rows) -> list[int]:
        """The rows that end with all of `ids` but the last."""
        before = list(ids[:-1])
        return [
            i for i, row in enumerate(rows) if not before or list(row[-len(before) :]) == before
        ]

    def _decay(self, scores: Array, length: int) -> None:
        rule = self.o.exponential_decay_length_penalty
        if rule is None or length <= rule[0] + self.first:
            return
        ends = scores[:, self.ends]
        grown = np.abs(ends) * np.float32(rule[1] ** (length - rule[0] - self.first) - 1)
        scores[:, self.ends] = ends + np.where(np.isfinite(ends), grown, 0)

    def _narrowed(self, scores: Array) -> Array:
        """The scores to draw from; beams keep one token that does not end the answer."""
        o, vocab = self.o, scores.shape[1]
        keep = min((len(self.ends) or 1) + 1 if o.num_beams > 1 else 1, vocab)
        scores = scores / np.float32(o.temperature)
        if 0 < o.top_k:
            kth = np.sort(scores, 1)[:, -min(max(o.top_k, keep), vocab)]
            scores = np.where(scores < kth[:, None], -np.inf, scores)
        if o.top_p < 1:
            order = np.argsort(scores, 1, kind="stable")
            sums = np.exp(log_softmax(np.take_along_axis(scores, order, 1))).cumsum(1)
            out = sums <= 1 - o.top_p
            out[:, vocab - keep :] = False
            scores = _without(scores, order, out)
        if o.min_p is not None:
            p = np.exp(log_softmax(scores))
            scores = _kept(scores, p < o.min_p * p.max(1, keepdims=True), keep)
        if o.typical_p < 1:
            logs = log_softmax(scores)
            p = np.exp(logs)
            entropy = -np.where(p > 0, p * np.where(p > 0, logs, 0), 0).sum(1, keepdims=True)
            distance = np.abs(-logs - entropy)
            order = np.argsort(distance, 1, kind="stable")
            sums = np.take_along_axis(p, order, 1).cumsum(1)
            last = np.minimum((sums < o.typical_p).sum(1), vocab - 1)
            ranked = np.take_along_axis(distance, order, 1)
            out = ranked > np.take_along_axis(ranked, last[:, None], 1)
            out[:, :keep] = False
            scores = _without(scores, order, out)
        if 0 < o.epsilon_cutoff < 1:
            p = np.exp(log_softmax(scores))
            scores = _kept(scores, p < o.epsilon_cutoff, keep)
        if 0 < o.eta_cutoff < 1:
            logs = log_softmax(scores)
            p = np.exp(logs)
            entropy = -np.where(p > 0, p * np.where(p > 0, logs, 0), 0).sum(1, keepdims=True)
            least = np.minimum(o.eta_cutoff, np.sqrt(o.eta_cutoff) * np.exp(-entropy))
            scores = _kept(scores, p < least, keep)
        return scores


def _ngrams(row: Sequence[int], size: int) -> dict[tuple[int, ...], list[int]]:
    """The tokens that follow each run of size - 1 tokens."""
    followers: dict[tuple[int, ...], list[int]] = {}
    for start in range(len(row) - size + 1 if size else 0):
        followers.setdefault(tuple(row[start : start + size - 1]), []).append(row[start + size - 1])
    return followers


def _only(scores: Array, ids: list[int]) -> Array:
    only = np.full_like(scores, -np.inf)
    only[:, ids] = 0
    return only


def _without(scores: Array, order: Array, out: Array) -> Array:
    removed = np.zeros_like(out)
    np.put_along_axis(removed, order, out, 1)
    return np.where(removed, -np.inf, scores)


def _kept(scores: Array, out: Array, keep: int) -> Array:
    """The scores without `out`, but always the `keep` largest."""
    kth = np.sort(scores, 1)[:, -keep]
    return np.where(out & (scores < kth[:, None]), -np.inf, scores)
