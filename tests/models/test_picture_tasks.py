"""The tasks that write of images: image-to-text, and questions about images and pages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl

_file = Path(__file__).parent / "test_captions.py"
_spec = importlib.util.spec_from_file_location("caption_rows", _file)
assert _spec is not None and _spec.loader is not None
captions: Any = importlib.util.module_from_spec(_spec)
sys.modules["caption_rows"] = captions
_spec.loader.exec_module(captions)


def test_captions() -> None:
    pipe = rl.pipeline("image-to-text", captions.model("blip"), max_new_tokens=6)
    images = captions.images("blip")
    (one,), rows = pipe(images[0]), pipe(images)
    assert {*one} == {"generated_text"} and rows[0] == [one] and len(rows) == 2
    assert "".join(pipe.stream(images[0])).strip() == one["generated_text"]
    (beams,) = pipe(images[0], num_beams=2)
    assert "".join(pipe.stream(images[0], num_beams=2)) == beams["generated_text"]
    begun = pipe(images[0], prompt="A boat x")[0]["generated_text"]
    assert begun != one["generated_text"]
    assert len(pipe(images[0], num_beams=3, num_return_sequences=2)) == 2


def test_places_with_a_caption() -> None:
    pipe = rl.pipeline("image-to-text", captions.model("florence2"), max_new_tokens=3)
    (row,) = pipe(captions.images("florence2")[0], prompt="<OD>")
    assert row["<OD>"] == {"bboxes": [], "labels": []}


def test_questions() -> None:
    pipe = rl.pipeline("visual-question-answering", captions.model("blip_answer"))
    images = captions.images("blip_answer")
    rows = pipe(images, question="What is it?", max_new_tokens=5)
    assert [{*row[0]} for row in rows] == [{"answer"}] * 2
    with pytest.raises(ValueError, match="question is missing"):
        pipe(images[0])


def test_questions_about_pages() -> None:
    pipe = rl.pipeline("document-question-answering", captions.model("donut"), max_new_tokens=5)
    (row,) = pipe(captions.images("donut")[0], question="What?")
    assert {*row} == {"answer"}
    plain = rl.pipeline("document-question-answering", captions.model("nougat"))
    with pytest.raises(ValueError, match="has no <s_docvqa>"):
        plain(captions.images("nougat")[0], question="What?")


def test_captions_by_a_decoder() -> None:
    pipe = rl.pipeline("image-to-text", captions.model("blip_2"), max_new_tokens=6)
    images = captions.images("blip_2")
    one, rows = pipe(images[0], prompt="A"), pipe(images, prompt="A")
    assert rows[0] == one and {*one[0]} == {"generated_text"}
    assert "".join(pipe.stream(images[0], prompt="A")).strip() == one[0]["generated_text"]
    with pytest.raises(ValueError, match="num_beams is 3"):
        pipe(images[0], num_beams=3)
    said = {"role": "user", "content": [{"type": "image", "image": images[0]}]}
    with pytest.raises(ValueError, match="use picture_prompt"):
        pipe.model.chat_ids([said])
    with pytest.raises(ValueError, match="max_pixels are not supported"):
        pipe.model.picture_prompt("A", images[0], max_pixels=256)
    ask = rl.pipeline("visual-question-answering", captions.model("instructblip"))
    assert {*ask(images[0], question="What?", max_new_tokens=3)[0]} == {"answer"}
