"""What narrows the tokens that are drawn from, each a function of float64 scores.

Scores are unnormalized logarithms; what was left out before is not among them. Each returns a
boolean per score, false for what leaves. Ties and bounds are as llama.cpp has them.
"""

from __future__ import annotations

import numpy as np

from rushlight.models.generation.sampling import Array

# Of so many of the likeliest a nucleus is sought first.
_FEW = 1024


def probabilities(scores: Array) -> Array:
    """The probabilities (n,) of scores (n,); -inf has none."""
    weights = np.exp(scores - scores.max())
    out: Array = weights / weights.sum()
    return out


def entropy(p: Array) -> float:
    """The entropy of probabilities in nats."""
    some = p[p > 0]
    return float(-(some * np.log(some)).sum())


def largest(scores: Array, count: int) -> Array:
    """The `count` largest; of equal ones the first."""
    keep = np.zeros(scores.size, np.bool_)
    if count >= scores.size:
        return ~keep
    least = np.partition(scores, scores.size - count)[scores.size - count]
    keep[scores > least] = True
    equal = np.flatnonzero(scores == least)
    keep[equal[: count - int(keep.sum())]] = True
    return keep


def within_sigma(scores: Array, sigmas: float) -> Array:
    """Those at most `sigmas` standard deviations below the largest (Tang et al., 2024)."""
    finite = scores[np.isfinite(scores)]
    keep: Array = scores >= scores.max() - sigmas * finite.std()
    return keep


def nucleus(scores: Array, mass: float) -> Array:
    """The smallest set of the likeliest whose probabilities sum to `mass`."""
    p = probabilities(scores)
    few = np.flatnonzero(largest(p, _FEW))  # sorting these is enough, if they hold the mass
    if p[few].sum() < mass:
        few = np.arange(p.size)
    return _until(p, few[np.argsort(-p[few], kind="stable")], mass, False)


def typical(scores: Array, mass: float) -> Array:
    """Those whose surprise is nearest to the entropy, until their sum exceeds `mass`."""
    p = probabilities(scores)
    middle = entropy(p)
    # A surprise of over twice the entropy is farther from it than every smaller one.
    few = np.flatnonzero(p >= np.exp(-2 * middle))
    if p[few].sum() <= mass:
        few = np.arange(p.size)
    with np.errstate(divide="ignore"):
        distance = np.abs(-np.log(p[few]) - middle)
    return _until(p, few[np.argsort(distance, kind="stable")], mass, True)


def _until(p: Array, order: Array, mass: float, above: bool) -> Array:
    """The first of `order` until their sum reaches `mass`, or is `above` it."""
    sums = p[order].cumsum()
    count = int(np.searchsorted(sums, mass, "right" if above else "left")) + 1
    keep = np.zeros(p.size, np.bool_)
    keep[order[:count]] = True
    return keep


def likely(scores: Array, share: float) -> Array:
    """Those at least `share` times as likely as the likeliest (Nguyen et al., 2024)."""
    keep: Array = scores >= scores.max() + np.log(share)
    return keep


def above_epsilon(scores: Array, least: float) -> Array:
    """Those of a probability of `least` or more, and the likeliest (Hewitt et al., 2022)."""
    keep: Array = (probabilities(scores) >= least) | (scores == scores.max())
    return keep


def above_eta(scores: Array, eta: float) -> Array:
    """As `above_epsilon`, with a bound that sinks as the entropy grows (Hewitt et al., 2022)."""
    p = probabilities(scores)
    least = min(eta, np.sqrt(eta) * np.exp(-entropy(p)))
    keep: Array = (p >= least) | (scores == scores.max())
    return keep


def without_top(scores: Array, threshold: float) -> Array:
    """XTC: of the tokens of at least `threshold` only the least likely stays.

    Nothing changes above a threshold of a half, which two tokens cannot reach.
    """
    keep = np.ones(scores.size, np.bool_)
    p = probabilities(scores)
    reached = np.flatnonzero(p >= threshold)
    if threshold > 0.5 or reached.size < 2:
        return keep
    falling = reached[np.argsort(-p[reached], kind="stable")]
    keep[falling[:-1]] = False
    return keep


def dynamic_temperature(scores: Array, temperature: float, spread: float, power: float) -> float:
    """The temperature between `temperature` - `spread`, at least 0, and + `spread`.

    It rises with the entropy, as a part of the largest possible one, to the power `power`.
    """
    if spread <= 0 or scores.size <= 1:
        return temperature
    low, high = max(0.0, temperature - spread), temperature + spread
    part = entropy(probabilities(scores)) / float(np.log(scores.size))
    return float(low + (high - low) * part**power)


class Mirostat:
    """Mirostat 1 and 2 (Basu et al., 2020): the surprise that is allowed follows what was drawn.

    tau: the surprise in bits that is aimed at; eta: the rate; version: 1 or 2.
    """

    # Tokens by which version 1 estimates how fast probabilities fall.
    ESTIMATED = 100

    def __init__(self, version: int, tau: float, eta: float, vocab: int) -> None:
        self.version, self.tau, self.eta, self.vocab = version, tau, eta, vocab
        self.bound = 2 * tau

    def keep(self, scores: Array) -> Array:
        """A boolean per score, false for what is not drawn from."""
        p = probabilities(scores)
        if self.version == 2:
            with np.errstate(divide="ignore"):
                keep: Array = -np.log2(p) <= self.bound
            keep[p.argmax()] = True
            return keep
        falling = -np.sort(-p)[: self.ESTIMATED]
        falling = falling[falling > 0]
        if falling.size < 2:
            return largest(scores, 1)
        places = np.arange(1, falling.size)
        steps = np.log((places + 1) / places)
        slope = float((steps * np.log(falling[:-1] / falling[1:])).sum() / (steps**2).sum())
        with np.errstate(all="ignore"):
            rest = slope - 1
            count = (rest * 2.0**self.bound / (1 - float(self.vocab) ** -rest)) ** (1 / slope)
        count = count if np.isfinite(count) else scores.size
        return largest(scores, min(max(int(count), 1), scores.size))

    def observe(self, probability: float) -> None:
        """Learn from the probability that the drawn token had among those that were left."""
        self.bound -= self.eta * (-float(np.log2(probability)) - self.tau)
