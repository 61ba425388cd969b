"""SmolLM2-135M-Instruct from its GGUF file agrees with transformers reading the same file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors

pytestmark = pytest.mark.native
DATA = Path(__file__).parent / "data"
PROMPTS: list[str] = json.loads((DATA / "prompts.json").read_text(encoding="utf-8"))
GOLDEN = {name: t.numpy() for name, t in load_safetensors(DATA / "smollm2.safetensors").items()}
# Where the reference's two best logits are closer than this, either may win.
NEAR_TIE = 5e-3


# In software a step on webgpu takes half a second: the shortest prompt, the longest, and a chat.
# What the others have of their own, their scripts, is in their ids, which are no device's.
ON_WEBGPU = (0, 8, 9)


@pytest.fixture(scope="module", params=["cpu", "webgpu"])
def model(request: pytest.FixtureRequest) -> rl.models.Model:
    return rl.models.load("smollm2-135m-instruct", device=request.param)


def test_at_most_three_near_ties() -> None:
    gaps = np.concatenate([GOLDEN[f"{i}.gaps"] for i in range(len(PROMPTS))])
    assert gaps.size == 160 and (gaps < NEAR_TIE).sum() <= 3


def _logits(model: rl.models.Model, ids: list[int], cache: Any) -> np.ndarray:
    given = rl.tensor([ids], dtype=rl.int32, device=model.device)
    found: np.ndarray = model(given, cache, logits_to_keep=1).cpu().numpy()[0, -1]
    return found


@pytest.mark.parametrize(
    ("model", "number"),
    [*(("cpu", i) for i in range(len(PROMPTS))), *(("webgpu", i) for i in ON_WEBGPU)],
    indirect=["model"],
)
def test_prompt(model: rl.models.Model, number: int) -> None:
    ids = model.prompt_ids(PROMPTS[number])
    assert ids == GOLDEN[f"{number}.ids"].tolist()
    cache = model.new_cache()
    with rl.no_grad():
        found = _logits(model, ids, cache)
        assert np.abs(found[::16] - GOLDEN[f"{number}.logits"]).max() <= 2e-3
        greedy, gaps = GOLDEN[f"{number}.greedy"].tolist(), GOLDEN[f"{number}.gaps"]
        if number and model.device.type == "webgpu":
            greedy, gaps = greedy[:4], gaps[:4]
        for step, (token, gap) in enumerate(zip(greedy, gaps, strict=True)):
            ours = int(found.argmax())
            if ours != token:
                assert gap < NEAR_TIE, f"step {step}: {ours} for {token}, gap {gap}"
                break
            found = _logits(model, [token], cache)


def test_generation_gives_the_same_tokens(model: rl.models.Model) -> None:
    """As far as it goes: the reference went on behind the end of an answer."""
    greedy = GOLDEN["0.greedy"].tolist()
    ends = [i for i, token in enumerate(greedy) if token in model.eos_ids]
    expected = greedy[: ends[0] + 1] if ends else greedy
    tokens = list(model.tokens(PROMPTS[0], max_new_tokens=16, linear="exact"))
    assert [t.id for t in tokens] == expected
    assert model.tokenizer is not None
    assert "".join(t.text for t in tokens) == model.tokenizer.decode(expected)
