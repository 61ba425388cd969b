"""The steps of a search: encode the sources, then choose tokens until every answer has ended."""

from __future__ import annotations

from collections.abc import Generator as Steps
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core import ops
from rushlight.core.backends import Generator as Random
from rushlight.core.backends.readback import Readback
from rushlight.models.generation.sampling import Array
from rushlight.models.generation.search.beams import Beams, Found
from rushlight.models.generation.search.candidates import Candidates
from rushlight.models.generation.search.decoding import DecodingSession, Sessions
from rushlight.models.generation.search.options import SearchOptions, ids_of
from rushlight.models.generation.search.rules import Rules, log_softmax
from rushlight.models.generation.steps import Token
from rushlight.models.generation.streaming import Pieces

if TYPE_CHECKING:
    from rushlight.models.generation.text_to_text import Seq2SeqLM

# Yields tokens of a single answer, and readbacks whose values it is sent; returns the answers of
# each source.
SearchSteps = Steps[Token | Readback[Any], Any, list[list[Found]]]


def first_tokens(options: SearchOptions) -> list[int]:
    """The tokens that a decoder begins with; ValueError if the checkpoint does not name them."""
    tokens = ids_of(options.decoder_start_token_id) or ids_of(options.bos_token_id)
    if not tokens:
        raise ValueError(
            "generate: the checkpoint names no decoder_start_token_id; pass it as an option"
        )
    return tokens


def search(model: Seq2SeqLM, rows: Sequence[Sequence[int]], options: SearchOptions) -> SearchSteps:
    """The answers of sources, rows of token ids, as `options` say."""
    started, o = first_tokens(options), options
    limit = o.limit(len(started), model.context_length)
    if not rows:
        return []
    if limit <= len(started):
        raise ValueError(
            f"generate: max_length is {limit}, but the decoder begins with {len(started)} tokens"
        )
    copies = o.num_beams if o.num_beams > 1 else o.num_return_sequences
    sources = [row for row in rows for _ in range(copies)]
    words = Candidates(model, sources, started, o)
    first, numbered = words.numbers(started), [words.numbers(source) for source in sources]
    rules = Rules(words.options(o), len(first), limit, words.count, numbered)
    if model._sessions is None:
        model._sessions = Sessions()
    width = model.source_width(rows)
    session = model._sessions.take(model, len(rows), copies, width, o.cache_type)
    try:
        session.begin(model, rows, o.pad_token_id or 0, o.linear)
        draw = Draw(o.seed or 0)
        if o.num_beams > 1:
            return (yield from _by_beams(model, session, words, len(rows), first, rules, draw))
        answers = yield from _one_by_one(model, session, words, first, rules, draw)
        return [answers[i : i + copies] for i in range(0, len(answers), copies)]
    finally:
        model._sessions.give(session)


class Draw:
    """Random numbers of a seed, made on the host."""

    def __init__(self, seed: int) -> None:
        self.random = Random(0)
        self.random.manual_seed(seed)

    def uniform(self, rows: int, count: int) -> Array:
        """(rows, count) numbers in [0, 1)."""
        numbers: Array = ops.rand(rows, count, generator=self.random).numpy()
        return numbers

    def gumbel(self, rows: int, count: int) -> Array:
        """Noise whose largest sums with log-probabilities are draws without replacement."""
        noise: Array = -np.log(-np.log(self.uniform(rows, count).clip(1e-12, 1 - 1e-7)))
        return noise


def _by_beams(
    model: Seq2SeqLM,
    session: DecodingSession,
    words: Candidates,
    batch: int,
    first: list[int],
    rules: Rules,
    draw: Draw,
) -> SearchSteps:
    o = rules.o
    beams = Beams(batch, first, rules.limit, o, draw.gumbel if o.do_sample else None)
    new = np.array(beams.sequences(), np.int64)
    while True:
        logits = _checked((yield session.step(model, words.ids(new), words.head)), words)
        scores = rules(log_softmax(logits), beams.sequences(), drawn=o.do_sample)
        parents = beams.step(scores)
        if beams.done:
            return [[_named(answer, words) for answer in answers] for answers in beams.answers()]
        session.reorder(parents)
        new = beams.rows[:, :, -1].reshape(-1, 1)


def _one_by_one(
    model: Seq2SeqLM,
    session: DecodingSession,
    words: Candidates,
    first: list[int],
    rules: Rules,
    draw: Draw,
) -> Steps[Token | Readback[Any], Any, list[Found]]:
    o, count = rules.o, len(rules.sources)
    rows = [list(first) for _ in range(count)]
    totals, ends_at = [0.0] * count, [0] * count  # 0: the answer has not ended
    pieces = [Pieces(model.writes, o.stops) for _ in rows]
    streams, new = count == 1, np.array(rows, np.int64)
    while True:
        logits = _checked((yield session.step(model, words.ids(new), words.head)), words)
        scores = rules(logits, rows, drawn=o.do_sample)
        tokens = scores.argmax(1)
        if o.do_sample:
            sums = np.exp(log_softmax(scores)).cumsum(1)
            tokens = (sums > draw.uniform(count, 1) * sums[:, -1:]).argmax(1)
        logs = log_softmax(logits)
        chosen = words.ids(tokens).tolist()
        for i, token in enumerate(tokens.tolist()):
            rows[i].append(token)
            if ends_at[i]:
                continue
            totals[i] += float(logs[i, token])
            reason = "eos" if token in o.ends else ""
            text, hit = ("", False) if reason else pieces[i].add(chosen[i])
            last = len(rows[i]) >= rules.limit
            reason = reason or ("stop" if hit else "length" if last else "")
            if streams:
                rest = pieces[i].finish() if reason in ("eos", "length") else ""
                yield Token(chosen[i], text + rest, float(logs[i, token]), reason)
            if reason:
                ends_at[i] = len(rows[i])  # what follows is not a part of it
        if all(ends_at):
            answers = [row[len(first) : end] for row, end in zip(rows, ends_at, strict=True)]
            results = [Found(row, total) for row, total in zip(answers, totals, strict=True)]
            return [_named(result, words) for result in results]
        new = np.array([[row[-1]] for row in rows], np.int64)


def _named(found: Found, words: Candidates) -> Found:
    return replace(found, ids=words.ids(np.array(found.ids, np.int64)).tolist())


def _checked(logits: Array, words: Candidates) -> Array:
    if not np.isfinite(logits).all():
        raise FloatingPointError("generate: the logits are not finite; the weights are damaged")
    return words.scores(logits)
