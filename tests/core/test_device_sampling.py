"""Sampling on the device chooses as sampling on cpu does, and reads three numbers per token."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.testing import draws
from rushlight.models.device_sampling import DeviceSampler
from rushlight.models.sampling import Options, Sampler

LOGITS = draws(1, (200,), -4, 4)
OPTIONS: list[dict[str, Any]] = [
    {}, {"temperature": 0.9}, {"temperature": 1.3, "top_k": 7}, {"temperature": 1.0, "top_p": 0.7},
    {"temperature": 0.8, "min_p": 0.2},
    {"temperature": 1.1, "top_k": 50, "top_p": 0.8, "min_p": 0.05},
    {"repetition_penalty": 1.7}, {"frequency_penalty": 0.5, "presence_penalty": 0.3},
    {"temperature": 0.7, "repetition_penalty": 1.2, "frequency_penalty": 0.1},
    {"logit_bias": {3: 9.0, 4: -9.0}}, {"temperature": 1.0, "top_k": 1}, {"top_k": 500},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "greedy")
def test_the_same_tokens(device: str, options: dict[str, Any]) -> None:
    chosen, prompt = Options(seed=5, **options), [1, 7, 7, 40]
    here = Sampler(chosen, LOGITS.size, prompt)
    there = DeviceSampler(chosen, LOGITS.size, prompt, rl.device(device))
    for step in range(12):
        logits = LOGITS + draws(step, LOGITS.shape)
        token, logprob = here.choose(logits)
        values = there.pick(rl.tensor(logits.astype(np.float32), device=device))
        assert values.shape == (3,), "few numbers are read back"
        found, found_logprob = there.taken(values.cpu().numpy())
        assert found == token, step
        assert found_logprob == pytest.approx(logprob, abs=2e-5)


def test_draws_follow_the_probabilities(device: str) -> None:
    p = np.array([0.5, 0.3, 0.15, 0.05])
    sampler = DeviceSampler(Options(temperature=1, seed=3), 4, [], rl.device(device))
    logits = rl.tensor(np.log(p).astype(np.float32), device=device)
    picked = rl.stack([sampler.pick(logits) for _ in range(600)]).cpu().numpy()
    counts = Counter(picked[:, 0].astype(int).tolist())
    for token, share in enumerate(p):
        assert abs(counts[token] / 600 - share) < 4 * (share * (1 - share) / 600) ** 0.5


def test_what_is_wrong_is_said(device: str) -> None:
    with pytest.raises(ValueError, match="logit_bias names token 4; there are 4"):
        DeviceSampler(Options(logit_bias={4: 1.0}), 4, [], rl.device(device))
    sampler = DeviceSampler(Options(), 2, [], rl.device(device))
    picked = sampler.pick(rl.tensor([float("nan"), 1.0], device=device))
    with pytest.raises(FloatingPointError, match="the logits are not finite"):
        sampler.taken(picked.cpu().numpy())
