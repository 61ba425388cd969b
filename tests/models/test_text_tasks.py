"""The tasks of text-to-text models: one text streams, several are answered in batches."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.core.io.weights.safetensors import open_tables, save_safetensors

pytestmark = pytest.mark.native

ROW = Path(__file__).parent / "data" / "families" / "t5-gated.safetensors"
TEXTS = ["w5 w6 w7", "w9", "w10 w11 w12 w13 w5"]
CODES = {"en_XX": 3, "de_DE": 4}
SPECIAL = {"<pad>": 0, "</s>": 1, **CODES}
WORDS = {
    "version": "1.0", "normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
    "added_tokens": [
        {"id": i, "content": name, "special": True, "lstrip": False, "rstrip": False,
         "single_word": False, "normalized": False} for name, i in SPECIAL.items()
    ],
    "post_processor": {
        "type": "TemplateProcessing", "pair": [],
        "single": [{"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}},
    },
    "model": {"type": "WordLevel", "unk_token": "<unk>",
              "vocab": {**SPECIAL, "<unk>": 2, **{f"w{i}": i for i in range(5, 97)}}},
}  # fmt: skip
LIMITS = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0, "max_length": 7}
TASKS = {"summarization": {"prefix": "w20 ", "num_beams": 2, "max_length": 5}}


@pytest.fixture(scope="module")
def folder(table: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with a tokenizer of words."""
    place = tmp_path_factory.mktemp("words")
    stored = open_tables(ROW)[0][1].metadata
    names = json.loads(stored["names"])
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    save_safetensors(tensors, place / "model.safetensors")
    config = json.loads(stored["config"]) | {"task_specific_params": TASKS}
    files = {
        "config": config,
        "tokenizer": WORDS,
        "generation_config": LIMITS,
        "tokenizer_config": {"tokenizer_class": "MBart50Tokenizer"},
    }
    for name, value in files.items():
        (place / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return rl.models.load(folder)


def ids_of(model: Any, source: list[int], **options: Any) -> list[int]:
    found: list[int] = model.answers([source], **options)[0][0].ids
    return found


def test_a_text_streams_and_several_are_answered_in_order(model: Any) -> None:
    pipe = rl.pipeline("text2text-generation", model)
    each = [pipe(text) for text in TEXTS]
    assert pipe(TEXTS, batch_size=2) == each and len(set(each)) == 3
    pieces = list(pipe.stream(TEXTS[0]))
    assert len(pieces) == 6 and "".join(pieces).strip() == each[0]
    assert pipe.run(TEXTS[0], {}).ids == ids_of(model, [5, 6, 7, 1])
    assert list(pipe.stream(TEXTS[0], num_beams=2)) == [pipe(TEXTS[0], num_beams=2)]
    many = pipe(TEXTS[:2], num_beams=3, num_return_sequences=2, max_new_tokens=4)
    assert [len(some) for some in many] == [2, 2]
    assert many[0][0] == pipe(TEXTS[0], num_beams=3, max_new_tokens=4)
    told: list[tuple[int, int]] = []
    pipe(TEXTS, batch_size=2, progress=lambda done, total: told.append((done, total)))
    assert told == [(2, 3), (3, 3)] and pipe([]) == []


def test_translation_names_its_languages(model: Any) -> None:
    pipe = rl.pipeline("translation", model, source="en_XX", target="de_DE")
    found = pipe.run("w5 w6", {})
    assert found.prompt_ids == [3, 5, 6, 1] and found.ids[0] == 4
    assert found.ids == ids_of(model, [3, 5, 6, 1], forced_bos_token_id=4)
    with pytest.raises(ValueError, match="no language 'fr_XX'"):
        pipe("w5", source="fr_XX")
    with pytest.raises(ValueError, match="source is missing"):
        rl.pipeline("translation", model)("w5", target="de_DE")
    # A language without a token is told in words, as T5 is.
    words = rl.pipeline("translation", model).run("w5", {"source": "en", "target": "de"})
    assert words.prompt_ids[-2:] == [5, 1] and len(words.prompt_ids) > 4


def test_the_first_mbart_ends_the_source_with_its_language(model: Any) -> None:
    codes = model.languages
    codes.last = codes.starts = True
    try:
        found = codes.prepare(model, "w5", "en_XX", "de_DE")
    finally:
        codes.last = codes.starts = False
    assert found == ([5, 1, 3], {"decoder_start_token_id": 4})


def test_summaries_are_made_as_the_checkpoint_says(model: Any) -> None:
    pipe = rl.pipeline("summarization", model)
    found = pipe.run("w5 w6", {})
    assert found.prompt_ids == [20, 5, 6, 1] and len(found.ids) == 4
    assert found.ids == ids_of(model, [20, 5, 6, 1], num_beams=2, max_length=5)
    assert len(pipe.run("w5 w6", {"max_new_tokens": 6}).ids) == 6


def test_long_texts_are_cut_only_if_asked(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "context_length", 6)
    pipe = rl.pipeline("text2text-generation", model, max_new_tokens=2)
    text = "w5 w6 w7 w8 w9 w10 w11"
    with pytest.raises(ValueError, match="the source has 8 tokens, the context holds 6.*truncate"):
        pipe(text)
    assert pipe.run(text, {"truncate": True}).prompt_ids == [5, 6, 7, 8, 9, 1]


def test_the_commands_print_a_line_for_each_text(
    folder: Path, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = rl.pipeline("translation", model)(TEXTS[:2], max_new_tokens=3)
    more = ["--model", str(folder), "--max-new-tokens", "3"]
    assert run(["translate", *TEXTS[:2], *more]) == 0
    assert capsys.readouterr().out.splitlines() == wanted
    assert run(["summarize", TEXTS[0], *more, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prompt_ids"][0] == 20
