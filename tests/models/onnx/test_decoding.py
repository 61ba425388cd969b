"""Decoders of ONNX files in the generation loop: caches, batches, captures, narrow floats."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from tests.models.onnx.folders import assert_near, folder

import rushlight as rl
from rushlight.models.onnx.decoder import BEFORE, BEHIND, EXACT, DecoderGraph

PROMPTS = [[33, 60, 61], [40, 41, 42, 43, 44, 45, 46]]


def decoder(name: str, device: str = "cpu", dtype: str | None = None) -> DecoderGraph:
    model = rl.models.load(folder(name), device, dtype)
    assert isinstance(model, DecoderGraph)
    return model


def tokens(model: DecoderGraph, prompt: list[int], count: int = 8) -> list[int]:
    return [token.id for token in model.tokens(prompt, max_new_tokens=count, temperature=0)]


def greedy(model: DecoderGraph, prompt: list[int], count: int = 8) -> list[int]:
    """The likeliest tokens without a cache."""
    ids = list(prompt)
    with rl.no_grad():
        for _ in range(count):
            ids.append(int(model(rl.tensor([ids], device=model.device))[0, -1].argmax()))
            if ids[-1] in model.eos_ids:
                break
    return ids[len(prompt) :]


@pytest.mark.parametrize(
    ("name", "place"), [("llama", BEHIND), ("opt", BEHIND), ("grouped", BEFORE)]
)
def test_the_cache_changes_nothing(name: str, place: str) -> None:
    model = decoder(name)
    assert model.place == place
    if name == "opt":
        model.place = None
    told = [greedy(model, prompt) for prompt in PROMPTS]
    assert [tokens(model, prompt) for prompt in PROMPTS] == told
    assert model.place == place  # which a trial finds for OPT
    # What is shared with the last prompt is not read again.
    assert tokens(model, PROMPTS[1] + told[1][:2]) == greedy(model, PROMPTS[1] + told[1][:2])
    grown = decoder(name)
    grown.place = EXACT
    assert [tokens(grown, prompt) for prompt in PROMPTS] == told


def test_the_cache_changes_nothing_on_a_device(device: str) -> None:
    model = decoder("grouped", device)
    assert tokens(model, PROMPTS[1]) == greedy(decoder("grouped"), PROMPTS[1])


@pytest.mark.parametrize("name", ["llama", "opt", "grouped"])
def test_rows_of_a_batch_are_what_they_are_alone(name: str) -> None:
    model = decoder(name)
    alone = ["".join(model.generate(p, max_new_tokens=6, temperature=0)) for p in PROMPTS]
    assert model.generate_batch(PROMPTS, max_new_tokens=6, temperature=0) == alone


def test_steps_are_planned_and_captured_once() -> None:
    model = decoder("llama")
    tokens(model, PROMPTS[0], 4)
    plans = dict(model.decoder._plans)
    session = model._session
    assert session is not None
    captures = list(session._next.executables.values())  # type: ignore[attr-defined]
    tokens(model, PROMPTS[0], 24)
    assert model.decoder._plans == plans
    assert list(model._session._next.executables.values()) == captures  # type: ignore[union-attr]
    assert captures[0].replays > 10


def test_a_past_that_grows_leaves_no_plans() -> None:
    model = decoder("llama")
    model.place = EXACT
    tokens(model, PROMPTS[0], 12)
    assert not model.decoder._plans


def test_padding_on_either_side_is_not_seen() -> None:
    model = decoder("llama")
    ids, mask = rl.tensor([[0, 0, *PROMPTS[0]]]), rl.tensor([[0, 0, 1, 1, 1]])
    plain = model(rl.tensor([PROMPTS[0]]))
    assert_near(model(ids, attention_mask=mask)[:, 2:], plain.numpy(), rtol=1e-4, atol=1e-5)
    kept = model(rl.tensor([PROMPTS[0]]), logits_to_keep=1)
    assert_near(kept, plain[:, -1:].numpy(), rtol=1e-5, atol=1e-6)


def test_half_floats_carry_outliers(device: str) -> None:
    """One feature of the residuals is 100960, which no float16 holds."""
    ids = rl.tensor([[33, 60, 61, 63, 70]], device=device)
    whole, half = (decoder("outliers", device, dtype=d) for d in ("fp32", "fp16"))
    told = whole(ids).numpy()
    assert_near(half(ids), told, rtol=1e-3, atol=1e-3 * float(np.abs(told).max()))
    assert (half(ids).numpy().argmax(-1) == told.argmax(-1)).all()
    assert tokens(half, PROMPTS[1]) == tokens(whole, PROMPTS[1])


def test_what_a_cache_cannot_hold_is_told() -> None:
    model = decoder("llama")
    with pytest.raises(ValueError, match="does not read them in q8_0"):
        tokens_of = model.tokens(PROMPTS[0], cache_type="q8_0")
        next(tokens_of)
    half = [t.id for t in model.tokens(PROMPTS[0], cache_type="float16", max_new_tokens=4)]
    assert half == tokens(model, PROMPTS[0], 4)
    with pytest.raises(ValueError, match="gives logits alone"):
        rl.pipeline("feature-extraction", model)(["the candle"])
    with pytest.raises(ValueError, match="up to 256"):
        model(rl.zeros(1, 257, dtype="int64"))


def test_vectors_of_the_graphs_own(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "rushlight"):
        model = rl.models.load(folder("sentences"))
    assert "vectors are cls_token of the graph's output last_hidden_state" in caplog.text
    model.vector_output, model.state_output = "last_hidden_state", ""
    model.vectors = lambda ids, mask=None: rl.ones(ids.shape[0], 16) * 2  # a graph's own head
    assert_near(model.encode(["the candle"]), np.full((1, 16), 0.25, np.float32))
    assert_near(model.encode(["a"], normalize=False, dim=4), np.full((1, 4), 2, np.float32))
    with pytest.raises(ValueError, match="call logits"):
        model(rl.tensor([[2, 3]]))
