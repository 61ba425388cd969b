"""Tasks of encoders' heads: the answers of transformers' pipelines on tiny models."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.core.io.text.tokenizer import load_tokenizer
from rushlight.core.io.weights.safetensors import open_tables
from rushlight.models.tasks import tasks
from rushlight.web.worker import session

pytestmark = pytest.mark.native

DATA = Path(__file__).parent / "data"
GOLDENS = json.loads((DATA / "tasks.json").read_text(encoding="utf-8"))


def model(row: str, table: ModuleType, spelling: str = "words", **keys: Any) -> Any:
    found = open_tables(DATA / "heads" / f"{row}.safetensors")[0][1].metadata
    names = json.loads(found["names"])
    for name in names:  # of the classes
        if "id2label" in keys and names[name][0] == 5:
            names[name][0] = len(keys["id2label"])
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    read = ["input_ids", "attention_mask", *(["token_type_ids"] if row.startswith("bert") else [])]
    files = {
        "config.json": json.loads(found["config"]) | keys,
        "tokenizer.json": GOLDENS["tokenizers"][spelling],
        "tokenizer_config.json": {
            "model_max_length": GOLDENS["limit"],
            "mask_token": "[MASK]",
            "model_input_names": read,
        },
    }
    return rl.models.assemble({n: json.dumps(v).encode() for n, v in files.items()}, tensors)


def same(found: Any, wanted: Any) -> None:
    """Lists, texts and whole numbers are equal, scores are close."""
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    elif isinstance(wanted, dict):
        assert set(found) == set(wanted)
        for name, value in wanted.items():
            same(found[name], value)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    else:
        assert found == wanted


@pytest.mark.parametrize("call", GOLDENS["calls"], ids=lambda c: f"{c['row']}-{c['task']}")
def test_answers_are_those_of_the_published_pipelines(
    call: dict[str, Any], table: ModuleType
) -> None:
    task, answer, given = call["task"], call["answer"], call["given"]
    own = model(call["row"], table, call["spelling"], **call["keys"])
    pipe = rl.pipeline(task, own, **call["options"])
    if task == "question-answering" and call["options"].get("top_k", 1) > 1:
        # The published one gives a dict where a single answer was found, and in short contexts
        # parts that end before they start.
        answer = [[one] if isinstance(one, dict) else one for one in answer]
        answer = [[part for part in one if part["score"] > 0] for one in answer]
    same(pipe(given), answer)
    same(pipe(given, batch_size=1), answer)
    told: list[tuple[int, int]] = []
    pipe(given, batch_size=2, progress=lambda *now: told.append(now))
    assert told[-1][0] == told[-1][1] >= (len(given) if isinstance(given, list) else 1)
    if isinstance(given, list) and task != "text-ranking":
        same(pipe(given[0]), answer[0])
    assert pipe([]) == []


def test_what_cannot_be_answered_is_named(table: ModuleType) -> None:
    masked = model("bert-maskedlm", table)
    with pytest.raises(ValueError, match=r"text 1, 'w5', has no \[MASK\]"):
        rl.pipeline("fill-mask", masked)(["[MASK]", "w5"])
    with pytest.raises(ValueError, match="bert serves fill-mask; text-classification is not"):
        rl.pipeline("text-classification", masked)
    masked.mask_id = None
    with pytest.raises(ValueError, match="no token for a masked word"):
        rl.pipeline("fill-mask", masked)("w5")
    with pytest.raises(ValueError, match="top_k is 0"):
        rl.pipeline("text-classification", model("bert-sequenceclassification", table), top_k=0)
    five, ends = model("bert-sequenceclassification", table), model("bert-questionanswering", table)
    tags = model("bert-tokenclassification", table)
    nli = model("bert-sequenceclassification", table, id2label={0: "entailment", 1: "not"})
    odd = model(
        "bert-sequenceclassification",
        table,
        id2label={0: "x"},
        sbert_ce_default_activation_function="torch.nn.Tanh",
    )
    long = {"question": "w5 " * 20, "context": "w5"}
    for made, task, given, options, message in (
        (five, "zero-shot-classification", "w5", {}, "candidate_labels is missing"),
        (five, "zero-shot-classification", "w5", {"candidate_labels": " , "}, "is missing"),
        (
            five,
            "zero-shot-classification",
            "w5",
            {"candidate_labels": "w6"},
            "no class of the checkpoint begins with entail; it has O, B-A, I-A, B-B, I-B",
        ),
        (
            nli,
            "zero-shot-classification",
            "w5",
            {"candidate_labels": "w6", "hypothesis_template": "w7"},
            r"'w7' has no \{\} for",
        ),
        (
            nli,
            "zero-shot-classification",
            "w5",
            {"candidate_labels": "w6 " * 20},
            "the second text has 24 tokens, which leaves no room",
        ),
        (five, "text-ranking", ["w5"], {}, "query is missing"),
        (five, "text-ranking", ["w5"], {"query": "w6"}, "has 5 classes, O, B-A.* has one score"),
        (odd, "text-ranking", ["w5"], {"query": "w6"}, "activation_fn 'Tanh' is not supported"),
        (ends, "question-answering", {"question": " ", "context": "w5"}, {}, "question 0 is empty"),
        (ends, "question-answering", [{"question": "w5", "context": ""}], {}, "context 0 is empty"),
        (ends, "question-answering", long, {}, "windows of 16 tokens have room for 0 of the text"),
        (ends, "question-answering", long | {"question": "w5"}, {"doc_stride": 99}, "share 99"),
        (tags, "token-classification", "w5", {"stride": 2}, "a stride needs an aggregation_strat"),
        (
            tags,
            "token-classification",
            "w5",
            {"stride": 14, "aggregation_strategy": "max"},
            "room for 14 of the text, and neighbours share 14",
        ),
        (tags, "token-classification", "w5", {"aggregation_strategy": "mean"}, "supported: none"),
    ):
        with pytest.raises(ValueError, match=message):
            rl.pipeline(task, made)(given, **options)
    for wrong in ("w5", {"question": "w5"}, [["w5"]], {"question": "w5", "context": 3}):
        with pytest.raises(TypeError, match='the texts "question" and "context"'):
            rl.pipeline("question-answering", ends)(wrong)


@pytest.mark.parametrize(
    "task",
    [
        "fill-mask",
        "text-classification",
        "token-classification",
        "zero-shot-classification",
        "text-ranking",
    ],
)
def test_any_text_ends_in_an_answer_or_an_error(table: ModuleType, task: str) -> None:
    head = {"fill-mask": "maskedlm", "token-classification": "tokenclassification"}
    keys = {} if task in head else {"id2label": {0: "entailment"}}
    made = model(f"bert-{head.get(task, 'sequenceclassification')}", table, "pieces", **keys)
    options: dict[str, dict[str, Any]] = {
        "zero-shot-classification": {"candidate_labels": "w6"},
        "text-ranking": {"query": "w6"},
    }
    pipe = rl.pipeline(task, made, **options.get(task, {}))
    mask = "[MASK] " if task == "fill-mask" else ""
    assert pipe([mask]) and len(pipe([mask + "w5 " * 9_999, mask + "zz" * 500_000])) == 2
    for bad in ("a \ud83d", "\udc00"):
        with pytest.raises(ValueError, match="lone surrogate U[+]D"):
            pipe([mask + bad])


def test_the_commands_print_what_pipelines_give(
    table: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"question": "who lives?", "context": "Annalise lives in Paris, 😀!"}
    flags = [f"--{name}={text}" for name, text in asked.items()]
    for row, task, given, options, command in (
        ("questionanswering", "question-answering", asked, {"top_k": 2},
         ["ask", *flags, "--top-k", "2", "--no-handle-impossible-answer"]),
        ("tokenclassification", "token-classification", ["reds"],
         {"aggregation_strategy": "simple"}, ["tag", "reds"]),
        ("sequenceclassification", "text-ranking", ["reds", "a"],
         {"query": "who?", "return_documents": True},
         ["rank", "reds", "a", "--query", "who?", "--return-documents"]),
        ("sequenceclassification", "zero-shot-classification", ["reds"],
         {"candidate_labels": ["who", "a"]},
         ["choose", "reds", "--candidate-labels", "who", "--candidate-labels", "a"]),
        ("sequenceclassification", "zero-shot-classification", ["reds"],
         {"candidate_labels": ["who", "a"]}, ["choose", "reds", "--candidate-labels", "who, a"]),
        ("tokenclassification", "token-classification", ["reds"],
         {"ignore_labels": "LABEL_1", "aggregation_strategy": "simple"},
         ["tag", "reds", "--ignore-labels", "LABEL_1"]),
    ):  # fmt: skip
        keys = {"text-ranking": {0: "entails"}, "zero-shot-classification": {0: "x", 1: "entails"}}
        made = model(
            f"bert-{row}", table, "pieces", **({"id2label": keys[task]} if task in keys else {})
        )
        made.save_pretrained(tmp_path / task, overwrite=True)
        assert run([*command, "--model", str(tmp_path / task), "--json"]) == 0
        same(
            json.loads(capsys.readouterr().out)["value"], rl.pipeline(task, made)(given, **options)
        )


def test_families_list_the_tasks_of_their_heads(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "--json"]) == 0
    rows = {row["model_type"]: row["tasks"] for row in json.loads(capsys.readouterr().out)}
    assert set(rows["bert"]) == {
        "feature-extraction",
        "sentence-similarity",
        "fill-mask",
        "text-classification",
        "token-classification",
        "question-answering",
        "zero-shot-classification",
        "text-ranking",
    }
    assert "chat" in rows["llama"] and "fill-mask" not in rows["llama"]
    drawn = {"text-to-image", "inpainting"}  # by pipelines of diffusers, which are no families
    assert {task for row in rows.values() for task in row} == set(tasks()) - drawn


def test_places_in_a_page_count_units_of_utf16() -> None:
    text = "😀 a𐍈b"
    found: Any = [{"start": 2, "end": 4}, {"start": 0, "end": 5}]
    session.in_units([found, []], [text, "b"])
    assert found == [{"start": 3, "end": 6}, {"start": 0, "end": 7}]


def test_ids_and_types_that_the_checkpoint_lacks_are_named(table: ModuleType) -> None:
    made = model("bert-tokenclassification", table)
    file = json.loads(json.dumps(GOLDENS["tokenizers"]["words"]))
    file["model"]["vocab"]["w60"] = 60
    made.tokenizer = load_tokenizer(json.dumps(file).encode())
    with pytest.raises(IndexError, match="60"):
        rl.pipeline("token-classification", made)("w60")
    ends = model("bert-questionanswering", table)
    for piece in file["post_processor"]["pair"][3:]:
        piece[next(iter(piece))]["type_id"] = 2
    ends.tokenizer = load_tokenizer(json.dumps(file).encode())
    with pytest.raises(rl.FormatError, match="has token type 2; the checkpoint has 2 types"):
        rl.pipeline("question-answering", ends)({"question": "w5", "context": "w6"})


def test_long_contexts_are_read_in_pieces(table: ModuleType) -> None:
    pipe = rl.pipeline("question-answering", model("bert-questionanswering", table))

    def windows(words: int) -> int:
        given = {"question": "w5", "context": "w6 w7 " * words}
        told: list[tuple[int, int]] = []
        pipe(given, batch_size=8, progress=lambda *now: told.append(now))
        assert [done for done, _ in told[:3]] == [8, 16, 24]
        return told[-1][0]

    assert windows(200) == 98 and windows(800) == 398
