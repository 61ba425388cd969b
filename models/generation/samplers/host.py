"""HostSampler: chooses the tokens of one answer from logits that were read back, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rushlight.core import ops
from rushlight.core.backends import Generator as Random
from rushlight.core.io.text.tokenizer import Tokenizer
from rushlight.models.generation.samplers import narrowing
from rushlight.models.generation.samplers.repetition import breakers_of, dry, penalized
from rushlight.models.generation.sampling import CHAIN, Array, Options

# Scores below it are those of tokens that a mask forbids, see `device_sampling.HIDDEN`.
_HIDDEN = -5e29


class Choice(NamedTuple):
    """A token, the logarithm of its probability, and the likeliest tokens with theirs."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class HostSampler:
    """Chooses one token after another, as `options` say, after the tokens `prompt`.

    vocab: the number of tokens. tokenizer: reads the breakers of DRY.
    """

    def __init__(
        self,
        options: Options,
        prompt: Sequence[int],
        vocab: int,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        self.o, self.vocab, self.prompt = options, vocab, [*prompt]
        self.said: list[int] = []
        self.random = Random(options.seed or 0)
        self.chain = self._names(options)
        self._bias = np.zeros(vocab)
        self._bias[list(options.logit_bias)] = list(options.logit_bias.values())
        breakers = options.dry_sequence_breakers
        texts = (breakers,) if isinstance(breakers, str) else tuple(breakers)
        self._breakers = (
            breakers_of(tokenizer, texts, vocab) if "dry" in self.chain and texts else {}
        )
        self._mirostat = (
            narrowing.Mirostat(options.mirostat, options.mirostat_tau, options.mirostat_eta, vocab)
            if options.mirostat
            else None
        )
        self._rules = _rules(options, len(self.prompt), vocab)

    @staticmethod
    def _names(o: Options) -> list[str]:
        """The samplers that change something, in their order."""
        names: Sequence[str] = CHAIN
        if o.samplers:
            names = (o.samplers,) if isinstance(o.samplers, str) else tuple(o.samplers)
        active = {
            "penalties": o.repetition_penalty != 1 or o.frequency_penalty or o.presence_penalty,
            "dry": o.dry_multiplier > 0,
            "top_n_sigma": o.top_n_sigma > 0,
            "top_k": o.top_k > 0,
            "typical_p": o.typical_p < 1,
            "top_p": o.top_p < 1,
            "min_p": o.min_p > 0,
            "epsilon_cutoff": o.epsilon_cutoff > 0,
            "eta_cutoff": o.eta_cutoff > 0,
            "xtc": o.xtc_probability > 0,
            "temperature": True,
        }
        return [name for name in names if active[name]]

    def choose(self, logits: Array) -> Choice:
        """The next token by logits (vocab,), which is then a part of the answer.

        FloatingPointError for logits that are not finite, ValueError if every token is forbidden.
        """
        scores = self.adjusted(logits)
        top = scores.max()
        if np.isnan(top) or top == np.inf:
            raise FloatingPointError("generate: the logits are not finite; the weights are damaged")
        if top == -np.inf:
            raise ValueError("generate: token_mask and bans allow no token")
        ids, left, greedy = self.narrowed(scores)
        if greedy:
            token = int(ids[left.argmax()])
        else:
            weights = np.exp(left - left.max())
            sums = weights.cumsum()
            # One point in the sum of the weights, as the sampler on the device draws it.
            place = int(np.searchsorted(sums, self._uniform() * sums[-1], "right"))
            place = min(place, int(np.flatnonzero(weights)[-1]))
            token = int(ids[place])
            if self._mirostat is not None:
                self._mirostat.observe(float(weights[place] / sums[-1]))
        self.said.append(token)
        logs = scores - top
        logs = logs - np.log(np.exp(logs).sum())
        likely: list[int] = []
        if self.o.logprobs:
            likely = np.flatnonzero(narrowing.largest(logs, self.o.logprobs)).tolist()
            likely.sort(key=lambda i: -logs[i])
        return Choice(token, float(logs[token]), tuple((i, float(logs[i])) for i in likely))

    def adjusted(self, logits: Array) -> Array:
        """Scores (vocab,) float64 after bias, penalties, DRY, transformers' rules and the caller's.

        logits: of a masked token at most half of `device_sampling.HIDDEN`; it stays -inf.
        """
        scores: Array = logits.astype(np.float64) + self._bias
        hidden = scores <= _HIDDEN
        history = [*self.prompt, *self.said]
        with np.errstate(invalid="ignore"):
            if "penalties" in self.chain:
                scores = penalized(scores, self.o, self.prompt, self.said)
            if "dry" in self.chain:
                scores = dry(scores, self.o, history, self._breakers)
        if self._rules is not None:
            scores = self._rules(scores[None], [history], drawn=False)[0]
        for processor in self.o.processors:
            new = np.asarray(processor(list(history), scores.astype(np.float32)))
            if new.shape != (self.vocab,):
                raise ValueError(
                    f"generate: a logits_processor returned scores {new.shape}; they must be "
                    f"({self.vocab},)"
                )
            scores = new.astype(np.float64)
        scores[hidden] = -np.inf
        return scores

    def narrowed(self, scores: Array) -> tuple[Array, Array, bool]:
        """The ids (n,) that are drawn from, their scores (n,), and whether none is drawn.

        With top_k the ids are in descending order of scores, else ascending. Scores are divided by
        the temperature.
        """
        o = self.o
        allowed = scores > -np.inf
        ids = np.arange(scores.size) if allowed.all() else np.flatnonzero(allowed)
        left = scores if ids.size == scores.size else scores[ids]
        greedy = False
        for name in (*(["temperature"] if o.mirostat else self.chain),):
            keep = None
            if name == "top_n_sigma":
                keep = narrowing.within_sigma(left, o.top_n_sigma)
            elif name == "top_k":
                if o.top_k < left.size:
                    keep = narrowing.largest(left, o.top_k)
            elif name == "typical_p":
                keep = narrowing.typical(left, o.typical_p)
            elif name == "top_p":
                keep = narrowing.nucleus(left, o.top_p)
            elif name == "min_p":
                keep = narrowing.likely(left, o.min_p)
            elif name == "epsilon_cutoff":
                keep = narrowing.above_epsilon(left, o.epsilon_cutoff)
            elif name == "eta_cutoff":
                keep = narrowing.above_eta(left, o.eta_cutoff)
            elif name == "xtc":
                if self._uniform() <= o.xtc_probability:
                    keep = narrowing.without_top(left, o.xtc_threshold)
            elif name == "temperature":
                warm = narrowing.dynamic_temperature(
                    left, o.temperature, o.dynatemp_range, o.dynatemp_exponent
                )
                greedy = warm <= 0
                left = left if greedy else left / warm
            if keep is not None:
                ids, left = ids[keep], left[keep]
        if "temperature" not in self.chain and o.temperature == 0:
            greedy = True
        if self._mirostat is not None:
            keep = self._mirostat.keep(left)
            ids, left = ids[keep], left[keep]
        if 0 < o.top_k < self.vocab:
            order = np.argsort(-left, kind="stable")
            ids, left = ids[order], left[order]
        return ids, left, greedy

    def _uniform(self) -> float:
        return float(ops.rand(1, generator=self.random, device="cpu").numpy()[0])


def _rules(options: Options, prompt: int, vocab: int):  # type: ignore[no-untyped-def]
    """transformers' rules that change scores; what forbids tokens is a mask, see `followed`."""
    if not (options.sequence_bias or options.exponential_decay_length_penalty):
        return None
    from rushlight.models.generation.search.options import SearchOptions
    from rushlight.models.generation.search.rules import Rules

    chosen = SearchOptions(
        sequence_bias=options.sequence_bias,
        exponential_decay_length_penalty=options.exponential_decay_length_penalty,
        eos_token_id=sorted(options.ends),
    )
    return Rules(chosen, prompt, prompt + options.most(prompt), vocab, [[]])


def seeded(options: Options, number: int) -> Options:
    """The options of answer `number` of several: it is drawn with a later seed."""
    return replace(options, seed=(options.seed or 0) + number, num_return_sequences=1)
