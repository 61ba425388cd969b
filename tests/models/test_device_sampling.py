"""Sampling on the device chooses as the rules in float64 do, and reads three numbers per token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.core.backends import Generator as Random
from rushlight.core.tools.testing import draws
from rushlight.models.generation.device_sampling import DeviceSampler
from rushlight.models.generation.sampling import Options

Array = npt.NDArray[Any]

LOGITS = draws(1, (200,), -4, 4)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.9},
    {"temperature": 1.3, "top_k": 7},
    {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 0.8, "min_p": 0.2},
    {"temperature": 1.1, "top_k": 50, "top_p": 0.8, "min_p": 0.05},
    {"repetition_penalty": 1.7},
    {"frequency_penalty": 0.5, "presence_penalty": 0.3},
    {"temperature": 0.7, "repetition_penalty": 1.2, "frequency_penalty": 0.1},
    {"logit_bias": {3: 9.0, 4: -9.0}},
    {"temperature": 1.0, "top_k": 1},
    {"top_k": 500},
    {"token_mask": LOGITS < 2},
    {"temperature": 1.2, "token_mask": (LOGITS < 2).tolist()},
    {"temperature": 1.0, "top_p": 0.9, "token_mask": LOGITS < -3.9, "repetition_penalty": 1.3},
    {"logit_bias": {50: -np.inf, 51: 20.0}, "presence_penalty": 2.0},
]


class Reference:
    """The rules in float64, one after another, on the logits read."""

    def __init__(self, options: Options, vocab: int, prompt: Sequence[int]) -> None:
        self.options, self.vocab = options, vocab
        self.seen = set(prompt)
        self.counts: dict[int, int] = {}
        self.random = Random(options.seed or 0)

    def choose(self, logits: Array) -> tuple[int, float]:
        """The next token for logits (vocab,), and the logarithm of its probability."""
        scores = self._adjusted(logits.astype(np.float64))
        shifted = scores - scores.max()
        log_total = np.log(np.exp(shifted).sum())
        token = int(scores.argmax()) if self.options.temperature == 0 else self._draw(scores)
        self.seen.add(token)
        self.counts[token] = self.counts.get(token, 0) + 1
        return token, float(shifted[token] - log_total)

    def _adjusted(self, scores: Array) -> Array:
        o = self.options
        for token, bias in o.logit_bias.items():
            scores[token] += bias
        if o.repetition_penalty != 1 and self.seen:
            seen = np.fromiter(self.seen, np.int64)
            old = scores[seen]
            scores[seen] = np.where(old < 0, old * o.repetition_penalty, old / o.repetition_penalty)
        if (o.frequency_penalty or o.presence_penalty) and self.counts:
            tokens = np.fromiter(self.counts, np.int64)
            counts = np.fromiter(self.counts.values(), np.float64)
            scores[tokens] -= counts * o.frequency_penalty + o.presence_penalty
        if o.token_mask is not None:
            scores[~np.asarray(o.token_mask)] = -np.inf
        return scores

    def _draw(self, scores: Array) -> int:
        o = self.options
        order = np.argsort(-scores, kind="stable")
        few = 0 < o.top_k < order.size
        if few:
            order = order[: o.top_k]
        weights = np.exp(scores[order] - scores[order[0]])
        weights /= weights.sum()
        if o.top_p < 1:
            # The smallest set that holds top_p: a token stays while those before it hold less.
            keep = int((np.cumsum(weights) - weights < o.top_p).sum())
            order, weights = order[:keep], weights[:keep]
        if o.min_p > 0:
            stay = weights >= o.min_p * weights[0]
            order, weights = order[stay], weights[stay]
        weights = np.exp((scores[order] - scores[order[0]]) / o.temperature)
        if not few:  # the vocabulary is not sorted
            again = np.argsort(order)
            order, weights = order[again], weights[again]
        point = float(rl.rand(1, generator=self.random).item()) * weights.sum()
        return int(
            order[min(int(np.searchsorted(np.cumsum(weights), point, "right")), order.size - 1)]
        )


def sampler(device: str, options: Options, prompt: Sequence[int], vocab: int) -> DeviceSampler:
    made = DeviceSampler(vocab, rl.device(device))
    made.begin(options, prompt)
    return made


def check(there: DeviceSampler, options: Options, prompt: list[int], steps: int) -> None:
    here = Reference(options, LOGITS.size, prompt)
    for step in range(steps):
        logits = LOGITS + draws(step, LOGITS.shape)
        token, logprob = here.choose(logits)
        values = there.pick(rl.tensor(logits.astype(np.float32)[None], device=there.device))
        assert values.nbytes == 12, "few numbers are read back"
        found, found_logprob = there.token_of(values.cpu().numpy()[0])
        assert found == token == there.token.item(), step
        assert found_logprob == pytest.approx(logprob, abs=2e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "greedy")
def test_the_same_tokens(device: str, options: dict[str, Any]) -> None:
    chosen, prompt = Options(seed=5, **options), [1, 7, 7, 40]
    check(sampler(device, chosen, prompt, LOGITS.size), chosen, prompt, 12)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "greedy")
def test_rows_choose_as_each_would_alone(device: str, options: dict[str, Any]) -> None:
    check_rows(device, Options(seed=5, **options), [[1, 7, 7, 40], [], [2]])


def test_many_rows(device: str) -> None:
    check_rows(device, Options(seed=2, temperature=1.0, top_p=0.8), [[]] * 12)


def check_rows(device: str, chosen: Options, prompts: list[list[int]]) -> None:
    there = DeviceSampler(LOGITS.size, rl.device(device), len(prompts))
    there.begin(chosen, *prompts)
    alone = [Reference(chosen, LOGITS.size, prompt) for prompt in prompts]
    for step in range(5):
        logits = LOGITS + draws(step, (len(prompts), LOGITS.size))
        values = there.pick(rl.tensor(logits.astype(np.float32), device=there.device))
        found = [there.token_of(row) for row in values.cpu().numpy()]
        expected = [one.choose(row) for one, row in zip(alone, logits, strict=True)]
        assert [token for token, _ in found] == [token for token, _ in expected], step
        for (_, a), (_, b) in zip(found, expected, strict=True):
            assert a == pytest.approx(b, abs=2e-5)
        assert there.token.tolist() == [[token] for token, _ in found]


def test_one_answer_after_the_other(device: str) -> None:
    """In the same memory, so that one capture serves all answers by the same rules."""
    there = DeviceSampler(LOGITS.size, rl.device(device))
    asked: list[dict[str, Any]] = [
        {"temperature": 0.9, "repetition_penalty": 1.5, "logit_bias": {3: 5.0}, "top_p": 0.9},
        {},
        {"temperature": 1.4, "repetition_penalty": 1.1, "logit_bias": {9: 2.0}, "top_p": 0.5},
        {"temperature": 0.9, "token_mask": LOGITS > 0},
        {"temperature": 0.7, "token_mask": LOGITS < 0},
    ]
    for number, options in enumerate(asked):
        chosen = Options(seed=number, **options)
        there.begin(chosen, [number])
        check(there, chosen, [number], 4)
    plans = there._captured.executables  # type: ignore[attr-defined]
    assert len(plans) in (0, 3)  # none where it runs as it is


def test_a_mask_that_the_caller_writes_to(device: str) -> None:
    mask = rl.tensor([True, True, False, True], device=device)
    there = sampler(device, Options(token_mask=mask), [], 4)
    logits = rl.tensor([[1.0, 4.0, 9.0, 2.0]], device=device)
    found = []
    for _ in range(4):
        token, logprob = there.token_of(there.pick(logits).cpu().numpy()[0])
        found.append(token)
        mask[token] = False
        if len(found) == 3:
            assert logprob == 0  # nothing else was allowed
            mask[2] = True
    assert found == [1, 3, 0, 2]
    mask.fill_(False)
    with pytest.raises(ValueError, match="token_mask allows no token"):
        there.token_of(there.pick(logits).cpu().numpy()[0])


def test_draws_follow_the_probabilities(device: str) -> None:
    p = np.array([0.5, 0.3, 0.15, 0.05])
    there = sampler(device, Options(temperature=1, seed=3), [], 4)
    logits = rl.tensor(np.log(p).astype(np.float32)[None], device=device)
    picked = rl.cat([there.pick(logits) for _ in range(600)]).cpu().numpy()
    counts = Counter(picked[:, 0].astype(int).tolist())
    for token, share in enumerate(p):
        assert abs(counts[token] / 600 - share) < 4 * (share * (1 - share) / 600) ** 0.5


def test_invalid_options_are_named(device: str) -> None:
    there = DeviceSampler(4, rl.device(device))
    elsewhere = rl.tensor([True] * 4, device="meta")
    for options, error, message in (
        ({"logit_bias": {4: 1.0}}, ValueError, "logit_bias names token 4; the vocabulary has 4"),
        ({"token_mask": [True] * 3}, ValueError, r"token_mask is \(3,\); it must be \(4,\)"),
        ({"token_mask": [1, 0, 1, 1]}, TypeError, "token_mask must hold a boolean"),
        ({"token_mask": rl.zeros(4, device=device)}, TypeError, "must hold a boolean"),
        ({"token_mask": elsewhere}, ValueError, f"token_mask is on meta, the model is on {device}"),
    ):
        with pytest.raises(error, match=message):
            there.begin(Options(**options), [])
    there.begin(Options(), [])
    picked = there.pick(rl.tensor([[float("nan"), 1.0, 2.0, 3.0]], device=device))
    with pytest.raises(FloatingPointError, match="the logits are not finite"):
        there.token_of(picked.cpu().numpy()[0])


# --- the reference itself ------------------------------------------------------------------------

SEVEN = np.array([1.0, 3.0, -2.0, 2.5, 0.0, 2.9, -1.0])


def drawn(options: dict[str, Any], prompt: Sequence[int] = (), draws: int = 3000) -> Array:
    """How often each token is drawn, as a part of one; every draw from a fresh past."""
    reference = Reference(Options(seed=1, **options), SEVEN.size, prompt)
    counts = np.zeros(SEVEN.size)
    for _ in range(draws):
        reference.seen, reference.counts = set(prompt), {}
        counts[reference.choose(SEVEN)[0]] += 1
    return counts / draws


def softmax(x: Array) -> Array:
    e: Array = np.exp(x - x.max())
    total: Array = e / e.sum()
    return total


def test_temperature_zero_takes_the_largest_and_tells_its_probability() -> None:
    token, logprob = Reference(Options(), SEVEN.size, []).choose(SEVEN)
    assert token == 1 and logprob == pytest.approx(np.log(softmax(SEVEN))[1])
    tie = Reference(Options(), 3, []).choose(np.array([1.0, 2.0, 2.0]))
    assert tie[0] == 1


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_temperature(temperature: float) -> None:
    found = drawn({"temperature": temperature})
    assert np.abs(found - softmax(SEVEN / temperature)).max() < 0.03


def only(keep: list[int]) -> Array:
    expected = np.zeros(SEVEN.size)
    expected[keep] = softmax(SEVEN[keep])
    return expected


@pytest.mark.parametrize(
    ("options", "keep"),
    [
        ({"top_k": 1}, [1]),
        ({"top_k": 3}, [1, 5, 3]),
        ({"top_k": 99}, list(range(7))),
        ({"top_p": 1e-9}, [1]),
        # Probabilities, largest first: .36 .33 .22 .05 ...
        ({"top_p": 0.35}, [1]),
        ({"top_p": 0.6}, [1, 5]),
        ({"top_p": 0.75}, [1, 5, 3]),
        ({"min_p": 1.0}, [1]),
        ({"min_p": 0.85}, [1, 5]),
        ({"min_p": 0.5}, [1, 5, 3]),
        ({"top_k": 2, "min_p": 0.1}, [1, 5]),
        ({"top_k": 2, "top_p": 0.5}, [1]),
    ],
)
def test_cuts(options: dict[str, Any], keep: list[int]) -> None:
    found = drawn({"temperature": 1.0, **options})
    assert set(np.flatnonzero(found)) <= set(keep)
    assert np.abs(found - only(keep)).max() < 0.03


def adjusted(options: dict[str, Any], prompt: list[int], made: list[int]) -> Array:
    """The scores that a sampler goes by after some tokens."""
    reference = Reference(Options(**options), SEVEN.size, prompt)
    for token in made:
        reference.choose(np.where(np.arange(SEVEN.size) == token, 1e6, 0.0))
    found: Array = reference._adjusted(SEVEN.copy())
    return found


def test_penalties_and_bias() -> None:
    expected = SEVEN.copy()
    expected[[1, 3]] /= 1.5  # seen, above zero
    expected[2] *= 1.5  # seen, below zero
    found = adjusted({"repetition_penalty": 1.5}, [2, 3], [1])
    np.testing.assert_allclose(found, expected)
    # Frequency and presence count what was made, not the prompt.
    options = {"frequency_penalty": 0.5, "presence_penalty": 0.25}
    expected = SEVEN.copy()
    expected[1] -= 2 * 0.5 + 0.25
    expected[5] -= 0.5 + 0.25
    np.testing.assert_allclose(adjusted(options, [3], [1, 1, 5]), expected)
    expected = SEVEN.copy()
    expected[2] += 7
    np.testing.assert_allclose(adjusted({"logit_bias": {2: 7.0}}, [], []), expected)
    banned = Reference(Options(logit_bias={1: -np.inf}), SEVEN.size, [])
    assert banned.choose(SEVEN)[0] == 5
