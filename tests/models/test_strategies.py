"""Ways to an answer: guesses give plain answers; contrastive search and groups by definition."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.models.generation.strategies.assisted import looked_up

PROMPT = [5, 6, 7, 9, 6, 7]


@pytest.fixture(scope="module")
def toys() -> ModuleType:
    path = Path(__file__).parent / "test_generate.py"
    spec = importlib.util.spec_from_file_location("generate_toys", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ids(model: Any, prompt: list[int] = PROMPT, **options: Any) -> list[int]:
    return [t.id for t in model.tokens(prompt, **options)]


def logits(model: Any, row: list[int]) -> Any:
    with rl.no_grad():
        return model(rl.tensor([row], device=model.device)).float().cpu().numpy()[0, -1]


def probabilities(scores: Any) -> Any:
    weights = np.exp(scores.astype(np.float64) - scores.max())
    return weights / weights.sum()


# --- assisted decoding ---------------------------------------------------------------------------


def test_guesses_give_the_plain_answer(toys: ModuleType, device: str) -> None:
    """A drafter that is often right, itself, and one that is always wrong; look-up; drawn too."""
    m = toys.tiny(device)
    m.eos_ids = frozenset()
    near, wrong = toys.tiny(device), toys.tiny(device)
    for other, size in ((near, 0.05), (wrong, 50.0)):
        with rl.no_grad():
            noise = rl.tensor(np.random.default_rng(1).normal(size=(toys.VOCAB, 32)) * size)
            other.lm_head.weight.add_(noise.float().to(device))
    plain = ids(m, max_new_tokens=24)
    assert ids(m, max_new_tokens=24, assistant_model=near) == plain
    assert ids(m, max_new_tokens=24, prompt_lookup_num_tokens=4) == plain
    if device != "cpu":
        return
    for draft in (wrong, m):
        assert ids(m, max_new_tokens=24, assistant_model=draft) == plain
    again = [*PROMPT, *plain, *PROMPT]
    expected = ids(m, again, max_new_tokens=20)
    assert ids(m, again, max_new_tokens=20, prompt_lookup_num_tokens=8) == expected
    drawn: dict[str, Any] = {"temperature": 0.8, "top_k": 20, "seed": 3, "max_new_tokens": 16}
    assert ids(m, **drawn, assistant_model=near) == ids(m, **drawn)


def test_guesses_obey_what_the_answer_obeys(toys: ModuleType) -> None:
    """Penalties, bans, masks, ends, stop texts, a full context; a kept cache is not read again."""
    m, plain = toys.tiny(), toys.tiny()
    m.eos_ids = plain.eos_ids = frozenset()
    first = ids(plain, max_new_tokens=12)
    mask = np.ones(toys.VOCAB, np.bool_)
    mask[first[2]] = False
    for options in (
        {"repetition_penalty": 1.4},
        {"no_repeat_ngram_size": 2},
        {"token_mask": mask},
        {"eos_token_id": [first[7]]},
        {"stop_token_ids": [first[6]]},
        {"stop": plain.tokenizer.decode(first[4:6])},
        {"dry_multiplier": 0.8, "dry_allowed_length": 1},
        {"logprobs": 3},
    ):
        guessed = list(m.tokens(PROMPT, max_new_tokens=12, prompt_lookup_num_tokens=3, **options))
        expected = list(plain.tokens(PROMPT, max_new_tokens=12, **options))
        assert [(t.id, t.text, t.stopped) for t in guessed] == [
            (t.id, t.text, t.stopped) for t in expected
        ], options
        np.testing.assert_allclose(
            [t.logprob for t in guessed], [t.logprob for t in expected], atol=1e-4
        )
    small, usual = (toys.tiny(max_position_embeddings=24) for _ in range(2))
    small.eos_ids = usual.eos_ids = frozenset()
    shift: dict[str, Any] = {"max_new_tokens": 40, "overflow": "shift"}
    assert ids(small, prompt_lookup_num_tokens=4, **shift) == ids(usual, **shift)
    with pytest.raises(ValueError, match="the context of 24 tokens is full"):
        ids(small, max_new_tokens=40, prompt_lookup_num_tokens=4)
    with pytest.raises(ValueError, match="token_mask that is written to"):
        ids(m, prompt_lookup_num_tokens=4, token_mask=rl.tensor(mask))
    with pytest.raises(ValueError, match="assistant_model has 90 tokens, the model 280"):
        other = toys.tiny()
        other.vocab_size, other.tokenizer = 90, None
        ids(m, assistant_model=other)


def test_what_is_looked_up() -> None:
    assert looked_up([1, 2, 3, 4, 1, 2], 3) == [3, 4, 1]
    assert looked_up([1, 2, 9, 1, 2, 8, 1, 2], 1) == [8]  # the latest
    assert looked_up([1, 2, 3, 7, 3], 2) == [7, 3]
    assert looked_up([1, 2, 3], 2) == looked_up([1], 2) == []


def test_guesses_need_fewer_steps(toys: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    m = toys.tiny()
    m.eos_ids = frozenset()
    counter = toys.Counting(monkeypatch)
    said = ids(m, max_new_tokens=30)
    usual, steps = counter.tokens, [0]
    from rushlight.models.generation.session import ChatSession

    check = ChatSession.check

    def counted(*given: Any) -> Any:
        steps[0] += 1
        return check(*given)

    monkeypatch.setattr(ChatSession, "check", counted)
    assert ids(m, max_new_tokens=30, assistant_model=m.__class__ and toys.tiny()) == said
    assert steps[0] <= 8 and usual


# --- contrastive search --------------------------------------------------------------------------


def test_contrastive_search_by_definition(toys: ModuleType, device: str) -> None:
    m = toys.tiny(device)
    m.eos_ids = frozenset()
    answer = ids(m, max_new_tokens=4, penalty_alpha=0.6, top_k=4)
    row = list(PROMPT)
    with rl.no_grad():
        for _ in range(4):
            p = probabilities(logits(m, row))
            best = (-np.inf, 0)
            for token in np.argsort(-p)[:4].tolist():
                states = m.hidden(rl.tensor([[*row, token]], device=device)).cpu().numpy()[0]
                unit = states / np.linalg.norm(states, axis=1, keepdims=True)
                alike = float((unit[:-1] @ unit[-1]).max())
                best = max(best, (0.4 * p[token] - 0.6 * alike, token))
            row.append(best[1])
    assert answer == row[len(PROMPT) :] != ids(m, max_new_tokens=4)
    banned = ids(m, max_new_tokens=3, penalty_alpha=0.6, top_k=4, suppress_tokens=answer[:1])
    assert answer[0] not in banned


# --- groups of beams -----------------------------------------------------------------------------


def test_groups_by_definition(toys: ModuleType) -> None:
    """Three groups of a beam each: each is greedy, less what earlier groups have just said."""
    m = toys.tiny()
    m.eos_ids = frozenset()
    options = {"num_beams": 3, "num_beam_groups": 3, "diversity_penalty": 2.5}
    answers = m.answers([PROMPT], max_new_tokens=6, num_return_sequences=3, **options)[0]
    rows: list[list[int]] = [[*PROMPT] for _ in range(3)]
    totals = [0.0] * 3
    for _ in range(6):
        said: list[int] = []
        for number, row in enumerate(rows):
            scores = np.log(probabilities(logits(m, row)))
            for token in said:
                scores[token] -= 2.5
            said.append(int(scores.argmax()))
            totals[number] += float(scores.max())
            row.append(said[-1])
    expected = sorted(zip(totals, rows, strict=True), reverse=True)
    assert [a.ids for a in answers] == [row[len(PROMPT) :] for _, row in expected]
    np.testing.assert_allclose([a.score for a in answers], [t / 6 for t, _ in expected], rtol=1e-4)


# --- caches of other kinds ------------------------------------------------------------------------


@pytest.mark.parametrize("known", ["mamba2", "gemma3"])
def test_states_and_windows(known: str, table: ModuleType) -> None:
    """Rows go on from a copied prompt; a score is that of the tokens read at once."""
    data = Path(__file__).parent / "data" / "families"
    metadata = open_tables(data / f"{known}.safetensors")[0][1].metadata
    names = json.loads(metadata["names"])
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    m = rl.models.assemble({"config.json": metadata["config"].encode()}, tensors)
    m.eos_ids = frozenset()
    prompt = [(7 * i + 3) % m.vocab_size for i in range(min(40, m.context_length - 12))]
    for best in m.answers([prompt], num_beams=3, num_return_sequences=2, max_new_tokens=5)[0]:
        assert best.score * 5 == pytest.approx(m.score(best.ids, prompt=prompt).total, rel=1e-3)
    alone = ids(m, prompt, penalty_alpha=1e-9, top_k=3, max_new_tokens=4)
    plain = ids(m, prompt, max_new_tokens=12)
    assert alone == plain[:4]
    guess: dict[str, Any] = {"prompt_lookup_num_tokens": 3, "max_new_tokens": 12}
    if known == "gemma3":
        assert ids(m, prompt, **guess) == ids(m, prompt, assistant_model=m, max_new_tokens=12)
        assert ids(m, prompt, **guess) == plain
    else:
        with pytest.raises(ValueError, match="mamba2 keeps a recurrent state, which cannot be cut"):
            ids(m, prompt, **guess)


# --- several answers, options that only language models have -------------------------------------


def test_several_answers_are_drawn_with_seeds_one_after_another(toys: ModuleType) -> None:
    m = toys.tiny()
    drawn: dict[str, Any] = {"temperature": 1.2, "max_new_tokens": 6}
    answers = m.answers([PROMPT], num_return_sequences=3, seed=7, **drawn)[0]
    assert [a.ids for a in answers] == [ids(m, seed=7 + i, **drawn) for i in range(3)]
    assert len({tuple(a.ids) for a in answers}) == 3
    with pytest.raises(ValueError, match="num_return_sequences is 3, but tokens are of one answer"):
        ids(m, num_return_sequences=3, **drawn)
    texts = [m.text_of(a) for a in answers]
    pipe = rl.pipeline("text-generation", m)
    assert pipe(PROMPT, num_return_sequences=3, seed=7, **drawn) == texts

    async def later() -> list[str]:
        found: list[str] = await m.generate_batch_async(
            [PROMPT], num_return_sequences=3, seed=7, **drawn
        )
        return found

    assert asyncio.run(later()) == texts


def test_the_likeliest_tokens_are_told(toys: ModuleType, device: str) -> None:
    """On the device and on the host alike, after bias and penalties."""
    m = toys.tiny(device)
    scores = np.log(probabilities(logits(m, PROMPT)))
    order = np.argsort(-scores)[:3]
    for more in ({}, {"typical_p": 0.9999}):
        token = next(iter(m.tokens(PROMPT, logprobs=3, **more)))
        assert [i for i, _ in token.top] == order.tolist()
        np.testing.assert_allclose([log for _, log in token.top], scores[order], atol=2e-4)
    assert next(iter(m.tokens(PROMPT))).top == ()


def test_a_processor_of_the_caller(toys: ModuleType, device: str) -> None:
    m, seen = toys.tiny(device), []

    def even(row: list[int], scores: Any) -> Any:
        seen.append(row)
        scores[1::2] = -np.inf
        return scores

    answer = ids(m, max_new_tokens=5, logits_processor=even)
    assert all(token % 2 == 0 for token in answer)
    assert seen == [PROMPT + answer[:i] for i in range(len(answer))]
    one = m.generate_batch([PROMPT, [9]], max_new_tokens=5, logits_processor=[even])[0]
    assert one == m.tokenizer.decode([i for i in answer if i != 277])
    with pytest.raises(ValueError, match=r"returned scores \(2,\); they must be \(280,\)"):
        ids(m, logits_processor=lambda row, scores: scores[:2])


def test_lengths_and_ends(toys: ModuleType) -> None:
    m = toys.tiny()
    m.eos_ids = frozenset()
    free = ids(m, max_new_tokens=8)
    assert ids(m, max_length=len(PROMPT) + 3) == free[:3]
    assert ids(m, max_length=9, max_new_tokens=5) == free[:5]
    with pytest.raises(ValueError, match="max_length is 6, but the prompt has 6 tokens"):
        ids(m, max_length=6)
    last = list(m.tokens(PROMPT, max_new_tokens=8, stop_token_ids=[free[4]]))[-1]
    assert (last.id, last.stopped) == (free[4], "stop")
    held = ids(m, max_new_tokens=8, eos_token_id=free[4], min_new_tokens=6)
    assert free[4] not in held[:6]
    rows = m.generate_batch([PROMPT, PROMPT[:3]], max_length=9)
    assert rows == ["".join(m.generate(p, max_length=9)) for p in (PROMPT, PROMPT[:3])]


def test_spellings_of_transformers(toys: ModuleType) -> None:
    m = toys.tiny()
    drawn = ids(m, temperature=1.0, top_k=50, seed=2, max_new_tokens=6)
    assert ids(m, do_sample=True, seed=2, max_new_tokens=6, pad_token_id=0) == drawn
    config = {"do_sample": True, "max_new_tokens": 6, "transformers_version": "5", "max_length": 20}
    assert ids(m, generation_config=config, seed=2) == drawn
    assert ids(m, do_sample=False, temperature=0.9, max_new_tokens=3) == ids(m, max_new_tokens=3)
    text = m.tokenizer.decode(ids(m, max_new_tokens=4)[2:4])
    stopped = "".join(m.generate(PROMPT, stop_strings=[text], max_new_tokens=8))
    assert text not in stopped
    with pytest.raises(TypeError, match="option 'typical' is not supported; did you mean 'typical"):
        ids(m, typical=0.5)
    messages = [{"role": "user", "content": "hi"}]
    with pytest.raises(TypeError, match="'temperatur' is not supported"):
        list(m.chat(messages, temperatur=0.5))
    assert "".join(m.chat(messages, do_sample=True, seed=1, max_new_tokens=4, xtc_probability=0.5))


def test_options_of_the_host_in_a_batch(toys: ModuleType) -> None:
    m = toys.tiny()
    options = {"temperature": 1.0, "mirostat": 2, "max_new_tokens": 6, "seed": 5}
    rows = m.generate_batch([PROMPT, [40, 41]], **options)
    assert rows == ["".join(m.generate(p, **options)) for p in (PROMPT, [40, 41])]
    assert ids(m, mirostat=1, seed=5, max_new_tokens=5) == ids(
        m, mirostat=1, seed=5, max_new_tokens=5
    )
