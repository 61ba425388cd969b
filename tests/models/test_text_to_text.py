"""Searches of text-to-text models: equal to transformers' generate, on both devices, in batches."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.models.generation.search.options import SearchOptions
from rushlight.models.generation.search.rules import Rules, log_softmax

HERE = Path(__file__).parent


def _searches() -> ModuleType:
    name = "rushlight_tests_searches"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, HERE / "searches.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


SEARCHES = _searches()
GOLDENS = json.loads((HERE / "data" / "text_to_text.json").read_text(encoding="utf-8"))


def make(row: str, table: ModuleType, device: str = "cpu", **files: Any) -> Any:
    stored = open_tables(HERE / "data" / "families" / f"{row}.safetensors")[0][1].metadata
    names = json.loads(stored["names"])
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    given = {"config": json.loads(stored["config"]), **files}
    small = {f"{name}.json": json.dumps(value).encode() for name, value in given.items()}
    return rl.models.assemble(small, tensors, device=device)


def options_of(name: str) -> dict[str, Any]:
    return {**SEARCHES.SEARCHES[name]}


@pytest.mark.parametrize("kind", SEARCHES.ROWS)
def test_answers_are_those_of_transformers(kind: str, table: ModuleType) -> None:
    m = make(kind, table)
    m.stored = {"pad_token_id": m.stored["pad_token_id"]}
    for name, wanted in GOLDENS["answers"][kind].items():
        found = [one for some in m.answers(SEARCHES.SOURCES, **options_of(name)) for one in some]
        assert [one.ids for one in found] == wanted["ids"], name
        if wanted["scores"] is not None:
            scores = [one.score for one in found]
            np.testing.assert_allclose(scores, wanted["scores"], rtol=2e-4, err_msg=name)


def test_what_is_drawn_from_is_what_transformers_draws_from() -> None:
    scores = np.random.default_rng(5).normal(size=(3, 12)).astype(np.float32) * 2
    for given, wanted in zip(SEARCHES.DRAWS, GOLDENS["draws"], strict=True):
        options = SearchOptions(do_sample=True, eos_token_id=[1], **given)
        rules = Rules(options, 1, 9, 12, [[2], [3], [4]])
        found = rules(log_softmax(scores), [[0]] * 3, drawn=True)
        floor = [[-1e9 if x is None else x for x in row] for row in wanted]
        np.testing.assert_allclose(found.clip(-1e9), floor, atol=2e-5, err_msg=str(given))


def test_draws_follow_the_probabilities(table: ModuleType) -> None:
    m = make("bart", table)
    options = {"do_sample": True, "decoder_start_token_id": 3, "max_new_tokens": 1, "top_k": 3}
    drawn = m.answers([[5, 6]], num_return_sequences=400, seed=1, **options)[0]
    again = m.answers([[5, 6]], num_return_sequences=400, seed=1, **options)[0]
    assert drawn == again
    counts = np.bincount([one.ids[0] for one in drawn], minlength=m.vocab_size)
    with rl.no_grad():
        p = m(rl.tensor([[5, 6]]), rl.tensor([[3]]))[0, -1].softmax(0).numpy()
    best = np.argsort(-p)[:3]
    assert counts[best].sum() == 400
    np.testing.assert_allclose(counts[best] / 400, p[best] / p[best].sum(), atol=0.09)


def test_both_devices_and_any_batch_answer_alike(device: str, table: ModuleType) -> None:
    m = make("marian-vocabularies", table, device)
    wanted = GOLDENS["answers"]["marian-vocabularies"]
    for name in ("ends", "beams"):
        options = options_of(name)
        alone = [one.ids for row in SEARCHES.SOURCES for one in m.answers([row], **options)[0]]
        again = [one.ids for some in m.answers(SEARCHES.SOURCES, **options) for one in some]
        assert alone == again == wanted[name]["ids"]


def test_the_checkpoint_says_how_to_search(table: ModuleType) -> None:
    options = {**options_of("beams"), "num_return_sequences": 1, "pad_token_id": 1}
    m = make("bart", table, generation_config=options)
    wanted = GOLDENS["answers"]["bart"]["beams"]["ids"][::3]
    assert [some[0].ids for some in m.answers(SEARCHES.SOURCES)] == wanted
    short = m.answers(SEARCHES.SOURCES, max_length=3)
    assert all(len(some[0].ids) <= 2 for some in short)
    with pytest.raises(rl.FormatError, match="generation_config.json: penalty_alpha is 0.6"):
        make("bart", table, generation_config={"penalty_alpha": 0.6})


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_beam_groups", 2),
        ("diversity_penalty", 0.5),
        ("guidance_scale", 3.0),
        ("force_words_ids", [[5]]),
        ("stop_strings", "a"),
        ("token_healing", True),
        ("dola_layers", "low"),
        ("watermarking_config", {"bias": 9.0}),
        ("top_h", 0.2),
        ("eos_token_id", "2"),
        ("eos_token_id", [3, None]),
        ("decoder_start_token_id", 900),
        ("forced_bos_token_id", -1),
        ("forced_eos_token_id", "5"),
        ("suppress_tokens", 5),
        ("max_length", "5"),
        ("max_length", 5.0),
        ("max_new_tokens", 0),
        ("min_length", "a"),
        ("num_beams", "3"),
        ("early_stopping", "soon"),
        ("repetition_penalty", -1.0),
        ("no_repeat_ngram_size", "a"),
        ("bad_words_ids", [5]),
        ("bad_words_ids", [[900]]),
        ("sequence_bias", [[[5]]]),
        ("exponential_decay_length_penalty", [1]),
        ("do_sample", "yes"),
    ],
)
def test_stored_values_that_cannot_be_followed_are_named(
    key: str, value: Any, legacy: bool, table: ModuleType
) -> None:
    with pytest.raises(rl.FormatError, match=f"{key} is "):
        make_with(table, legacy, {key: value})


def make_with(table: ModuleType, legacy: bool, told: dict[str, Any]) -> Any:
    """The BART with values in generation_config.json, or as old files have them in config.json."""
    if not legacy:
        return make("bart", table, generation_config=told)
    stored = open_tables(HERE / "data" / "families" / "bart.safetensors")[0][1].metadata
    return make("bart", table, config=json.loads(stored["config"]) | told)


@pytest.mark.parametrize("legacy", [False, True])
def test_stored_values_that_change_nothing_are_taken(legacy: bool, table: ModuleType) -> None:
    told = {
        "unknown": 3, "lang_to_id": {"a": 5}, "task": "translate", "do_lower_case": True,
        "num_beam_groups": 1, "guidance_scale": 1.0, "penalty_alpha": 0.0, "prefill_chunk_size": 2,
        "assistant_lookbehind": 10, "max_cache_len": 40, "pad_token_id": 900, "top_p": 0.0,
        "temperature": 0.0, "suppress_tokens": [-1, 900], "begin_suppress_tokens": [],
        "seed": "none", "stop": 3, "bos_token_id": 0,
    }  # fmt: skip
    if legacy:
        told.pop("pad_token_id")  # the embedding's
    plain, m = make("bart", table), make_with(table, legacy, told)
    assert not {"seed", "stop", "temperature", "top_p", "suppress_tokens"} & m.stored.keys()
    wanted = plain.answers([[5, 6, 7]], max_new_tokens=6)
    assert [one.ids for one in m.answers([[5, 6, 7]], max_new_tokens=6)[0]] == [wanted[0][0].ids]


def test_ends_are_those_of_the_generation_configuration(table: ModuleType) -> None:
    sources, plain = [[5, 6, 7]], make("bart", table, generation_config={"eos_token_id": None})
    assert "eos_token_id" not in plain.stored  # although config.json has one
    ids = plain.answers(sources, max_new_tokens=6)[0][0].ids
    assert len(ids) == 6
    ended = make("bart", table, generation_config={"eos_token_id": [900, ids[0]]})
    assert ended.answers(sources, max_new_tokens=6)[0][0].ids == ids[:1]
    # Where no file says it, those of the family's class in transformers.
    stored = open_tables(HERE / "data" / "families" / "bart.safetensors")[0][1].metadata
    config = json.loads(stored["config"])
    for key in ("forced_eos_token_id", "eos_token_id", "decoder_start_token_id"):
        config.pop(key, None)
    old = make("bart", table, config=config)
    assert [old.stored[k] for k in ("forced_eos_token_id", "eos_token_id")] == [2, 2]
    assert old.answers(sources, max_new_tokens=3)[0][0].ids[-1] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beams": 0}, "num_beams is 0; it must be from 1"),
        ({"num_beams": 2, "num_return_sequences": 3}, "more than num_beams 2"),
        ({"num_return_sequences": 2}, "pass num_beams or do_sample"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"forced_bos_token_id": 97}, "token 97 is not one of the 97"),
        ({"bad_words_ids": [[]]}, "has an empty list"),
        ({"max_length": 1}, "max_length is 1, but the decoder begins with 1"),
        ({"early_stopping": "soon"}, "supported: True, False, never"),
    ],
)
def test_options_out_of_range_are_named(
    options: dict[str, Any], message: str, table: ModuleType
) -> None:
    m = make("bart", table)
    with pytest.raises(ValueError, match=message):
        m.answers([[5]], **options)


def test_sources_out_of_range_are_named(table: ModuleType) -> None:
    m = make("marian-vocabularies", table)
    for source, message in (
        ([], "is empty"),
        ([97], "token 97 is not one of the 97"),
        ([5] * 25, "has 25 tokens, the context holds 24"),
    ):
        with pytest.raises(ValueError, match=message):
            m.answers([source])
    with pytest.raises(ValueError, match="no tokenizer"):
        list(m.generate("Hello"))
    with pytest.raises(TypeError, match="'beams' is not supported; supported: bad_words_ids"):
        m.answers([[5]], beams=3)
    assert m.answers([]) == []


def test_copies_of_one_tensor_are_left_out(table: ModuleType) -> None:
    stored = open_tables(HERE / "data" / "families" / "mt5.safetensors")[0][1].metadata
    config, names = json.loads(stored["config"]), json.loads(stored["names"])
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    shared = tensors.pop("shared.weight")
    files = {"config.json": json.dumps(config).encode()}
    copies = {"encoder.embed_tokens.weight": shared, "decoder.embed_tokens.weight": shared}
    ids = rl.tensor([[5, 6, 7]])
    with rl.no_grad():
        plain = rl.models.assemble(files, {**tensors, "shared.weight": shared, **copies})(ids, ids)
        without = rl.models.assemble(files, {**tensors, **copies})(ids, ids)
        # A head of its own is one even if the configuration says that it is shared.
        own = rl.models.assemble(files, {**tensors, **copies, "lm_head.weight": shared * 2})
        np.testing.assert_array_equal(without.numpy(), plain.numpy())
        np.testing.assert_allclose(own(ids, ids).numpy(), plain.numpy() * 2, rtol=1e-5, atol=1e-5)
