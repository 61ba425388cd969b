"""Folders of ONNX files answer as transformers.js does on the same files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.models.onnx.folders import answers, assert_near, folder, square

import rushlight as rl

TEXT = "the candle is light"
NEAR = 2e-5


def near(found: float, told: float) -> bool:
    return abs(found - told) < NEAR


def test_classes_of_texts() -> None:
    found = rl.pipeline("text-classification", folder("classes"))(TEXT)
    for row, told in zip(found, answers()["classes"], strict=True):
        assert row["label"] == told["label"] and near(row["score"], told["score"])


def test_vectors_of_sentences(device: str) -> None:
    pipe = rl.pipeline("feature-extraction", folder("sentences"), device=device)
    assert pipe.model.embeds_by == "cls_token of the graph's output last_hidden_state"
    found = pipe(["the candle", "a lamp at night"])
    assert_near(found, np.array(answers()["sentences"], np.float32), rtol=1e-4, atol=NEAR)


def test_classes_of_tokens() -> None:
    found = rl.pipeline("token-classification", folder("tags"))(TEXT)
    for row, told in zip(found, answers()["tags"], strict=True):
        same = all(row[key] == told[key] for key in ("entity", "index", "word"))
        assert same and near(row["score"], told["score"])


def test_masked_words() -> None:
    found = rl.pipeline("fill-mask", folder("masks"))("the [MASK] is light")
    for row, told in zip(found, answers()["masks"], strict=True):
        same = row["token"] == told["token"] and row["sequence"] == told["sequence"]
        assert same and near(row["score"], told["score"])


def test_answers_of_questions() -> None:
    asked = {"question": "who?", "context": "the candle is light of the night"}
    found = rl.pipeline("question-answering", folder("answers"))(asked)
    # Scores differ, as transformers.js lets the question's tokens be an answer's too.
    assert found["answer"] == answers()["answers"]["answer"]


def test_labels_of_any_name() -> None:
    classes = rl.models.load(folder("classes"))
    classes.labels = ("entailment", "neutral", "contradiction")
    found = rl.pipeline("zero-shot-classification", classes)(
        TEXT, candidate_labels=["lamp", "night"]
    )
    assert sorted(found["labels"]) == ["lamp", "night"]
    assert near(sum(found["scores"]), 1)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "q8", "q4", "q4f16"])
def test_continued_texts(dtype: str) -> None:
    pipe = rl.pipeline("text-generation", folder("llama"), dtype=dtype)
    found = pipe("the candle is", max_new_tokens=12)
    told = answers()[f"llama {dtype}"][0]["generated_text"]
    assert f"the candle is {found}" == told


@pytest.mark.parametrize("name", ["outliers", "opt", "grouped"])
def test_continued_texts_of_other_decoders(name: str) -> None:
    count = {"outliers": 6, "opt": 12, "grouped": 8}[name]
    found = rl.pipeline("text-generation", folder(name))("the candle is", max_new_tokens=count)
    assert f"the candle is {found}" == answers()[name][0]["generated_text"]


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_texts_of_texts(name: str) -> None:
    least: dict[str, Any] = {"min_new_tokens": 11} if name == "bart" else {}
    pipe = rl.pipeline("text2text-generation", folder(name))
    told = answers()[name][0]["generated_text"]
    assert pipe(TEXT, max_new_tokens=12, **least) == told


def test_classes_of_images(device: str) -> None:
    found = rl.pipeline("image-classification", folder("vit"), device=device)(square())
    for row, told in zip(found, answers()["vit"], strict=True):
        assert row["label"] == told["label"] and abs(row["score"] - told["score"]) < 1e-4


def test_labels_of_images() -> None:
    pipe = rl.pipeline("zero-shot-image-classification", folder("clip"))
    found = pipe(square(), candidate_labels=["lamp", "night"], hypothesis_template="the {}")
    for row, told in zip(found, answers()["clip"], strict=True):
        assert row["label"] == told["label"] and near(row["score"], told["score"])


def test_objects_of_images() -> None:
    found = rl.pipeline("object-detection", folder("yolos"))(square(), threshold=0.1)
    told = sorted(answers()["yolos"], key=lambda row: -row["score"])
    assert len(found) == len(told) > 0
    for row, other in zip(found, told, strict=True):
        assert row["label"] == other["label"] and near(row["score"], other["score"])
        sides = {side: round(share * 16, 1) for side, share in other["box"].items()}
        assert row["box"] == pytest.approx(
            {k: min(max(v, 0), 16) for k, v in sides.items()}, abs=0.11
        )


def test_segments_of_images() -> None:
    found = rl.pipeline("image-segmentation", folder("segformer"))(square())
    told = {row["label"]: row["shown"] for row in answers()["segformer"] if row["shown"]}
    assert {row["label"]: int((row["mask"] > 0).sum()) for row in found} == told


def test_depths_of_images() -> None:
    model = rl.models.load(folder("depth"))
    found = model(model.processor([square()], model.device))
    assert_near(found[0, :4], np.array(answers()["depth"], np.float32), 1e-4, 1e-4)
    measured = rl.pipeline("depth-estimation", model)(square())
    assert measured["depth"].shape == (16, 16)


def test_masks_of_points() -> None:
    model = rl.models.load(folder("sam"))
    pixels = ((np.arange(32 * 32 * 3) * 37) % 256).astype(np.uint8).reshape(32, 32, 3)
    seen = model.maps(model.processor([pixels], model.device))
    masks, scores = model.masks(seen, rl.tensor([[[9.0, 12.0]]]), rl.tensor([[1]]))
    told = answers()["sam"]
    assert_near(scores[:, 1:], np.array(told["scores"], np.float32)[0], rtol=1e-4, atol=1e-4)
    best = int(np.argmax(told["scores"][0][0]))
    assert_near(masks[0, 1:], np.array(told["masks"], np.float32)[0, 0], rtol=1e-3, atol=1e-3)
    assert_near(masks[0, 0], masks[0, 1 + best].numpy())
    answered = rl.pipeline("mask-generation", model)(pixels, points=[[9, 12]])
    assert answered[0]["mask"].shape == (32, 32)
    with pytest.raises(ValueError, match=r"takes .*, so no boxes; give points"):
        model.masks(seen, boxes=rl.tensor([[1.0, 2.0, 9.0, 9.0]]))


def test_letters_and_classes_of_sounds() -> None:
    samples = (0.3 * np.sin(np.arange(16000) / 20)).astype(np.float32)
    letters = rl.models.load(folder("ctc"))
    found = letters(rl.tensor(letters.prepared(samples)[None]))[0, :5]
    assert_near(found, np.array(answers()["ctc"], np.float32), rtol=1e-3, atol=1e-3)
    assert rl.pipeline("automatic-speech-recognition", letters)(samples)["text"]
    sounds = rl.models.load(folder("sounds"))
    scores = sounds(rl.tensor(sounds.prepared(samples)[None])).softmax(-1)[0].numpy()
    told: dict[str, Any] = {row["label"]: row["score"] for row in answers()["sounds"]}
    found_scores = dict(zip(sounds.labels, scores.tolist(), strict=True))
    assert found_scores == pytest.approx(told, abs=1e-4)


def test_whisper() -> None:
    model = rl.models.load(folder("whisper"))
    features = np.sin(np.arange(8 * 3000) / 7).astype(np.float32).reshape(1, 8, 3000)
    found = model(rl.tensor(features), rl.tensor([[79, 5, 6]]))[0]
    told = np.array(answers()["whisper"], np.float32)
    assert_near(found, told, rtol=1e-3, atol=1e-4)
    # Step by step it is the same.
    state = model.start(model.encode(rl.tensor(features)))
    steps = [state.step([[token]])[0, 0] for token in (79, 5, 6)]
    assert_near(rl.stack(steps), told, rtol=1e-3, atol=1e-4)
    samples = (0.3 * np.sin(np.arange(16000) / 20)).astype(np.float32)
    pipe = rl.pipeline("automatic-speech-recognition", model)
    assert pipe(samples)["segments"]
    assert "words" not in model.followed
    with pytest.raises(ValueError, match="words have no times without cross_attentions"):
        pipe(samples, words=True)
