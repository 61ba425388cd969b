"""The samplers of the host: llama.cpp's own, float64 by definition, transformers' goldens."""

from __future__ import annotations

import ctypes
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from rushlight.core.tools.testing import draws
from rushlight.models.generation.samplers import narrowing
from rushlight.models.generation.samplers.host import HostSampler
from rushlight.models.generation.samplers.repetition import dry
from rushlight.models.generation.sampling import CHAIN, Options
from rushlight.models.gguf.quantize import dequantize

Array = npt.NDArray[Any]
ROOT = Path(__file__).parents[1]
WORDS = 400
HISTORY = [5, 6, 7, 8, 5, 6, 7, 9, 9, 5, 6, 7]
GOLDENS = json.loads((Path(__file__).parent / "data" / "samplers.json").read_text())


def beside(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def toys() -> ModuleType:
    return beside("generate_toys", Path(__file__).parent / "test_generate.py")


@pytest.fixture(scope="module")
def theirs() -> Any:
    return beside("llama_samplers", ROOT / "llama_samplers.py")


def probabilities(sampler: HostSampler, logits: Array) -> Array:
    """What the next token is drawn from: a probability for each of the vocabulary."""
    ids, left, greedy = sampler.narrowed(sampler.adjusted(logits))
    p = np.zeros(len(logits))
    if greedy:
        p[ids[left.argmax()]] = 1
    else:
        p[ids] = narrowing.probabilities(left)
    return p


def softmax(ids: Array, logits: Array, size: int = WORDS) -> Array:
    p = np.zeros(size)
    weights = np.exp(logits.astype(np.float64) - logits.max())
    p[ids] = weights / weights.sum()
    return p


# --- against llama.cpp ---------------------------------------------------------------------------

CASES: list[dict[str, Any]] = [
    {"repetition_penalty": 1.4, "frequency_penalty": 0.3, "presence_penalty": 0.2},
    {"dry_multiplier": 0.9, "dry_base": 1.6},
    {"top_n_sigma": 1.3},
    {"top_k": 30},
    {"typical_p": 0.4},
    {"top_p": 0.6},
    {"min_p": 0.1},
    {"xtc_probability": 1.0, "xtc_threshold": 0.03},
    {"dynatemp_range": 0.7, "dynatemp_exponent": 1.3, "temperature": 0.9},
    {"dynatemp_range": 0.9, "temperature": 0.8, "min_p": 0.05},
    {
        "repetition_penalty": 1.1,
        "dry_multiplier": 0.8,
        "top_n_sigma": 2.0,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.05,
        "xtc_probability": 1.0,
        "xtc_threshold": 0.05,
        "temperature": 0.8,
    },
    {"top_k": 60, "typical_p": 0.9, "top_p": 0.9, "min_p": 0.02, "temperature": 1.7},
    {"xtc_probability": 1.0, "xtc_threshold": 0.03, "temperature": 0.0},
]


def chain(theirs: Any, lib: Any, o: Options) -> list[Any]:
    """llama.cpp's samplers in its usual order, as its `common_sampler` makes them."""
    given = (o.repetition_penalty, o.frequency_penalty, o.presence_penalty)
    none, keep = ctypes.c_void_p(0), theirs.long(0)
    made = [("penalties", WORDS, o.penalty_last_n or 64, *map(float, given))]
    numbers = (o.dry_multiplier, o.dry_base, o.dry_allowed_length, 4096)
    made += [
        ("dry", none, *numbers, none, theirs.long(0)),
        ("top_n_sigma", float(o.top_n_sigma)),
        ("top_k", o.top_k),
        ("typical", float(o.typical_p), keep),
        ("top_p", float(o.top_p), keep),
        ("min_p", float(o.min_p), keep),
        ("xtc", float(o.xtc_probability), float(o.xtc_threshold), keep, 1),
        ("temp_ext", float(o.temperature), float(o.dynatemp_range), float(o.dynatemp_exponent)),
    ]
    return [theirs.LlamaSampler(lib, *row) for row in made]


@pytest.mark.native
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case))
def test_the_distributions_of_llama_cpp(llama_cpp: Any, theirs: Any, case: dict[str, Any]) -> None:
    """On the same logits, to 1e-5."""
    o = Options(**{"temperature": 1.0, "penalty_last_n": 64, **case}, dry_sequence_breakers=())
    for number in range(6):
        logits = draws(number, (WORDS,), -3, 3) * (1 + number / 3)
        logits[HISTORY[-4:]] += 2
        logits = logits.astype(np.float32)
        ids, scores = np.arange(WORDS), logits.copy()
        for sampler in chain(theirs, llama_cpp.lib, o):
            sampler.accept(HISTORY)
            ids, scores, _, _ = sampler.apply(ids, scores)
        expected = softmax(ids, scores)
        answer = probabilities(HostSampler(o, HISTORY, WORDS), logits)
        np.testing.assert_allclose(answer, expected, atol=1e-5, err_msg=str(number))


@pytest.mark.native
@pytest.mark.parametrize("version", [1, 2])
def test_the_mirostats_of_llama_cpp(llama_cpp: Any, theirs: Any, version: int) -> None:
    """The same tokens are left, and the bound moves alike after what llama.cpp draws."""
    o = Options(temperature=0.9, mirostat=version, mirostat_tau=4.0, mirostat_eta=0.3)
    ours = HostSampler(o, [], WORDS)
    assert ours._mirostat is not None
    first = [WORDS] if version == 1 else []
    last = [100] if version == 1 else []
    name = "mirostat" if version == 1 else "mirostat_v2"
    their = theirs.LlamaSampler(llama_cpp.lib, name, *first, 7, 4.0, 0.3, *last)
    warm = theirs.LlamaSampler(llama_cpp.lib, "temp_ext", 0.9, 0.0, 1.0)
    for number in range(12):
        logits = (draws(number, (WORDS,), -3, 3) * 1.5).astype(np.float32)
        ids, scores, _, _ = warm.apply(np.arange(WORDS), logits)
        ids, _, p, selected = their.apply(ids, scores)
        expected = np.zeros(WORDS)
        expected[ids] = p
        np.testing.assert_allclose(probabilities(ours, logits), expected, atol=1e-5)
        ours._mirostat.observe(float(p[selected]))


@pytest.mark.native
def test_the_breakers_of_llama_cpp(
    llama_cpp: Any, theirs: Any, toys: ModuleType, tmp_path: Path
) -> None:
    """Texts within tokens, and ones that several tokens make."""
    m = toys.tiny()
    path = tmp_path / "tiny.gguf"
    dequantize(m, path, type="f32")
    texts = ["\n", "th", "he c", "zq"]
    held = [ctypes.c_char_p(t.encode()) for t in texts]
    said = m.tokenizer.encode("the cat and the cat\nthe cat and the cat the c").ids
    with llama_cpp.model(path) as model:
        for allowed in (1, 2, 4):
            o = Options(
                dry_multiplier=0.7,
                dry_allowed_length=allowed,
                dry_sequence_breakers=texts,
                temperature=1.0,
            )
            their = theirs.LlamaSampler(
                llama_cpp.lib,
                "dry",
                model.vocab,
                0.7,
                1.75,
                allowed,
                4096,
                (ctypes.c_char_p * len(held))(*held),
                theirs.long(len(held)),
            )
            for end in range(4, len(said)):
                their.accept(said[(end - 1 if end > 4 else 0) : end])
                logits = np.zeros(toys.VOCAB, np.float32)
                ids, scores, _, _ = their.apply(np.arange(toys.VOCAB), logits)
                expected = np.zeros(toys.VOCAB)
                expected[ids] = scores
                ours = HostSampler(o, said[:end], toys.VOCAB, m.tokenizer).adjusted(logits)
                np.testing.assert_allclose(ours, expected, atol=1e-5, err_msg=str((allowed, end)))


# --- against transformers ------------------------------------------------------------------------


@pytest.mark.parametrize("golden", GOLDENS["drawn"], ids=lambda golden: "-".join(golden["options"]))
def test_what_transformers_draws_from(golden: dict[str, Any]) -> None:
    """tests/parity/make_sampler_goldens.py writes its probabilities."""
    options = golden["options"]
    if "sequence_bias" in options:
        options = options | {"sequence_bias": [(ids, b) for ids, b in options["sequence_bias"]]}
    number = GOLDENS["drawn"].index(golden)
    logits = (np.sin(np.arange(60) * (1.7 + number)) * 3).astype(np.float32)
    sampler = HostSampler(Options(temperature=1.0, **options), [5, 6, 7, 9, 6, 7], 60)
    np.testing.assert_allclose(probabilities(sampler, logits), golden["p"], atol=1e-6)


def answered_as_in_the_reference(m: Any, golden: dict[str, Any]) -> None:
    prompt, options = [5, 6, 7, 9, 6, 7], golden["options"]
    answers = m.answers([prompt], max_new_tokens=8, **options)[0]
    assert [answer.ids for answer in answers] == golden["ids"]
    if golden["scores"]:
        scores = [answer.score for answer in answers]
        np.testing.assert_allclose(scores, golden["scores"], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    "golden", GOLDENS["searched"], ids=lambda golden: "-".join(golden["options"]) or "greedy"
)
def test_the_answers_of_transformers(golden: dict[str, Any], toys: ModuleType) -> None:
    """Greedy and by beams, with lengths, bans and biases."""
    answered_as_in_the_reference(toys.tiny(), golden)


def test_beams_on_devices(toys: ModuleType, device: str) -> None:
    """Tokens come at the end, and in a batch each answer after the other."""
    m, (golden,) = toys.tiny(device), [g for g in GOLDENS["searched"] if len(g["ids"]) == 3]
    answered_as_in_the_reference(m, golden)
    prompt, options = [5, 6, 7, 9, 6, 7], {"num_beams": 3, "max_new_tokens": 8}
    assert [t.id for t in m.tokens(prompt, **options)] == golden["ids"][0]
    texts = [m.tokenizer.decode(ids) for ids in golden["ids"]]
    assert m.generate_batch([prompt], num_return_sequences=3, **options) == texts
    assert "".join(m.generate(prompt, **options)) == texts[0]


# --- by definition -------------------------------------------------------------------------------


def test_many_words_are_narrowed_as_few() -> None:
    """What is sorted of a large vocabulary is enough: sharp, flat and in between."""
    for width in (0.01, 1.0, 4.0):
        scores = draws(2, (6000,), -3, 3) * width
        p = narrowing.probabilities(scores)
        surprise = np.abs(-np.log(p) - narrowing.entropy(p))
        for mass in (0.3, 0.9, 0.999999):
            for kept, order, above in (
                (narrowing.nucleus(scores, mass), np.argsort(-p, kind="stable"), False),
                (narrowing.typical(scores, mass), np.argsort(surprise, kind="stable"), True),
            ):
                sums = p[order].cumsum()
                count = int((sums <= mass if above else sums < mass).sum()) + 1
                assert abs(int(kept.sum()) - min(count, 6000)) <= 1
                assert set(np.flatnonzero(kept)) >= set(order[: count - 1].tolist())


def test_dry_by_definition() -> None:
    """The longest run before each token that is also the end of all tokens, none past a breaker."""
    rng = np.random.default_rng(3)
    for number in range(60):
        size, allowed = int(rng.integers(3, 40)), int(rng.integers(1, 4))
        history = rng.integers(0, 3 + number % 4, size).tolist()
        breaks = {2} if number % 3 == 0 else set()
        scores = np.zeros(10)
        for token in range(10):
            longest = 0
            for place in range(1, size):
                if history[place] != token or token in breaks:
                    continue
                run = 0
                while (
                    run < place
                    and history[place - 1 - run] == history[size - 1 - run]
                    and (history[size - 1 - run] not in breaks)
                ):
                    run += 1
                longest = max(longest, run)
            if longest >= allowed and longest:
                scores[token] = -0.5 * 1.5 ** (longest - allowed)
        o = Options(dry_multiplier=0.5, dry_base=1.5, dry_allowed_length=allowed)
        answer = dry(np.zeros(10), o, history, {token: [()] for token in breaks})
        np.testing.assert_allclose(answer, scores, err_msg=str((history, allowed, breaks)))


def test_xtc_happens_as_often_as_asked() -> None:
    logits = np.log(np.array([0.4, 0.3, 0.2, 0.1], np.float32))
    o = Options(temperature=0.0, xtc_probability=0.3, xtc_threshold=0.15, seed=4)
    sampler = HostSampler(o, [], 4)
    taken = [sampler.choose(logits).token for _ in range(400)]
    assert set(taken) == {0, 2} and abs(taken.count(2) / 400 - 0.3) < 0.07


def test_the_order_of_samplers_is_the_callers() -> None:
    """With the temperature first top_p cuts as in transformers; what is not named does not run."""
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    o: dict[str, Any] = {"temperature": 3.0, "top_p": 0.7}
    usual = probabilities(HostSampler(Options(**o, typical_p=0.999), [], 4), logits)
    first = probabilities(
        HostSampler(Options(**o, samplers=("temperature", "top_p")), [], 4), logits
    )
    none = probabilities(HostSampler(Options(**o, samplers="temperature"), [], 4), logits)
    assert [(p > 0).sum() for p in (usual, first, none)] == [2, 3, 4]
    with pytest.raises(ValueError, match="samplers names 'topk', .* did you mean 'top_k'"):
        Options(samplers=["topk"])
    assert Options(samplers=CHAIN).on_host is False


def test_options_that_exclude_each_other() -> None:
    for options, message in (
        ({"mirostat": 2}, "mirostat draws; pass a temperature above 0"),
        ({"mirostat": 3}, "mirostat is 3; it must be one of 0, 1, 2"),
        ({"mirostat": 1, "temperature": 1.0, "top_k": 3}, "takes the place of top_k"),
        ({"num_beams": 3, "num_beam_groups": 2}, "does not divide"),
        ({"num_beams": 2, "diversity_penalty": 1.0}, "needs num_beam_groups"),
        ({"num_beams": 2, "num_return_sequences": 3}, "more than num_beams 2"),
        ({"num_return_sequences": 3}, "the likeliest tokens are one answer"),
        ({"penalty_alpha": 0.5}, "penalty_alpha needs top_k of 2 or more"),
        ({"num_beams": 2, "prompt_lookup_num_tokens": 3}, "exclude each other"),
        ({"num_beams": 2, "stop": "x"}, "stop is not supported with num_beams"),
        ({"typical_p": 0.0}, "typical_p is 0.0; it must be from 0 to 1"),
        ({"dry_base": 0.5}, "dry_base is 0.5; it must be from 1"),
    ):
        with pytest.raises(ValueError, match=message):
            Options(**options)
