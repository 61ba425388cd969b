"""Every family that writes texts of pictures: pixels, logits and answers are the reference's."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables

HERE = Path(__file__).parent
DATA = HERE / "data" / "captions"
_spec = importlib.util.spec_from_file_location("captioning", HERE / "captioning.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
sys.modules["captioning"] = table
_spec.loader.exec_module(table)
ROWS = table.rows()
IDS = [[256, 70, 3, 111, 42], [256, 9, 10, 11, 12]]
PROMPTS = [name for name, row in ROWS.items() if row.read == "prompt"]
CHOOSERS = [name for name, row in ROWS.items() if row.read == "choose"]
SOURCES = [name for name in ROWS if name not in PROMPTS + CHOOSERS]
WRITE = [name for name in SOURCES if "Retrieval" not in ROWS[name].kind]
ALIASES = {"pixel_values": "pixels", "flattened_patches": "pixels", "attention_mask": "mask"}


def files_of(name: str) -> dict[str, bytes]:
    """The small files of a row's checkpoint."""
    row = ROWS[name]
    kind, settings = row.processor
    pictures = {**settings, "image_processor_type": kind.removesuffix("Pil")}
    return {
        "config.json": open_tables(DATA / f"{name}.safetensors")[0][1].metadata["config"].encode(),
        "generation_config.json": json.dumps(row.search).encode(),
        "preprocessor_config.json": json.dumps(pictures).encode(),
        "processor_config.json": json.dumps(row.whole).encode(),
        "tokenizer.json": table.SEEING.tokenizer_json(row.special),
        "qformer_tokenizer/tokenizer.json": table.SEEING.tokenizer_json(row.special),
    }


@cache
def model(name: str, device: str = "cpu") -> Any:
    told = open_tables(DATA / f"{name}.safetensors")[0][1].metadata["names"]
    names = json.loads(zlib.decompress(base64.b85decode(told)))
    values_of = table.SEEING.values_of
    tensors = {n: rl.tensor(values_of(n, tuple(shape))) for n, shape in names.items()}
    return rl.models.assemble(files_of(name), tensors, device=device)


def images(name: str) -> list[Any]:
    return [table.SEEING.picture(size, i) for i, size in enumerate(ROWS[name].sizes)]


def sources(m: Any, name: str, exact: bool = True) -> list[Any]:
    """The row's sources; exact: with the reference's pixels, so that roundings do not count."""
    made = [m.source_ids((image, ROWS[name].text)) for image in images(name)]
    golden = load_safetensors(DATA / f"{name}.safetensors")
    for key, t in golden.items():
        kind, _, label = key.partition(":")
        label = ALIASES.get(label, label)
        if kind == "input" and exact and label in made[0].inputs:
            for i, source in enumerate(made):
                own = source.inputs[label]
                source.inputs[label] = t.numpy()[i : i + 1].astype(own.dtype).reshape(own.shape)
    return made


def close(values: Any, wanted: Any, share: float = 1e-4) -> None:
    largest = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(values / largest, wanted / largest, rtol=0, atol=share)


@pytest.mark.parametrize("name", SOURCES)
def test_inputs_agree(name: str) -> None:
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    made = sources(m, name, exact=False)
    for key, t in golden.items():
        kind, _, label = key.partition(":")
        label = ALIASES.get(label, label)
        if kind == "input" and label in made[0].inputs:
            values = np.concatenate([source.inputs[label] for source in made])
            wanted = t.numpy().astype(np.float32).reshape(values.shape)
            # a rounding of a byte, or of two where it is resized twice
            step = (2.1 if "nougat" in name else 1.1) / 255 / 0.22 if label == "pixels" else 0
            np.testing.assert_allclose(values, wanted, rtol=2e-3, atol=step)
    if "ids" in golden:
        assert list(made[0]) == golden["ids"].numpy()[0].tolist()


@pytest.mark.parametrize("name", WRITE)
def test_logits_agree(name: str) -> None:
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    made = sources(m, name)
    with rl.no_grad():
        memory = m.memory_of(*m.place_sources(made, m.source_width(made), 0))
        logits = m.decode(rl.tensor(IDS), memory)
    close(logits.numpy()[:, :, ::5], golden["logits"].numpy())


@pytest.mark.parametrize("name", WRITE)
@pytest.mark.parametrize(("search", "beams"), [("greedy", 1), ("beams", 3)])
def test_answers_agree(name: str, search: str, beams: int) -> None:
    """Twice: the second time by captured steps."""
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    wanted = golden[search].numpy().tolist()
    for _ in range(2):
        found = m.answers(sources(m, name), num_beams=beams, max_new_tokens=8, do_sample=False)
        for (best, *_), row in zip(found, wanted, strict=True):
            begin = len(row) - len(best.ids)
            while begin and row[begin : begin + len(best.ids)] != best.ids:
                begin -= 1  # what is shorter than others is filled up
            assert row[begin : begin + len(best.ids)] == best.ids
            assert len(best.ids) == 8 or best.ids[-1] == m.stored["eos_token_id"]


def test_matches_agree() -> None:
    """Whether texts fit pictures."""
    golden, m = load_safetensors(DATA / "blip_match.safetensors"), model("blip_match")
    made = sources(m, "blip_match")
    placed = m.place_sources(made, m.source_width(made), 0)
    close(m.matched(*placed).detach().numpy(), golden["match"].numpy())
    close(m.matched(*placed, head=False).detach().numpy(), golden["cosine"].numpy()[:, :2])


def test_places_in_answers() -> None:
    """Florence-2's boxes, polygons and texts, in pixels of the file, as transformers has them."""
    from rushlight.models.layers.seeing.regions import answer, prompt_of

    told = json.loads((DATA / "regions.json").read_text())
    for task, text, wanted in told["rows"]:
        assert answer(text, task, tuple(told["size"]), told["config"]) == wanted, task
    with pytest.raises(ValueError, match="takes no words"):
        prompt_of("<OD> cat")


def test_no_answer_without_a_question() -> None:
    with pytest.raises(ValueError, match="a text beside the picture is missing"):
        model("blip_answer").source_ids(images("blip_answer")[0])


@pytest.mark.parametrize("name", PROMPTS)
def test_prompts_agree(name: str) -> None:
    """Decoders that read pictures among their tokens: ids, logits and answers."""
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    pixels = golden["input:pixel_values"].numpy().astype(np.float32)
    for i, image in enumerate(images(name)):
        prompt = m.picture_prompt(ROWS[name].text, image)
        assert prompt.ids == golden["ids"].numpy()[0].tolist()
        inputs = prompt.inputs()
        own = inputs["pixels"].numpy()
        np.testing.assert_allclose(own, pixels[i : i + 1], rtol=2e-3, atol=1.1 / 255 / 0.22)
        prompt.pictures[0].inputs["pixels"] = pixels[i : i + 1]
        with rl.no_grad():
            logits = m(rl.tensor([prompt.ids]), **prompt.inputs())
        close(logits.numpy()[:, :, ::5], golden["logits"].numpy()[i : i + 1])
        wanted = golden["greedy"].numpy()[i].tolist()[-8:]
        ends, m.eos_ids = m.eos_ids, frozenset()
        ids = [t.id for t in m.tokens(prompt, max_new_tokens=8, temperature=0)]
        m.eos_ids = ends
        assert ids == wanted


@pytest.mark.parametrize("name", CHOOSERS)
def test_choices_agree(name: str) -> None:
    """The scores of answers to choose from."""
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    (image,), pixels = images(name), golden["input:pixel_values"].numpy().astype(np.float32)
    own = m.processor.one(image)
    np.testing.assert_allclose(own, pixels[0], rtol=2e-3, atol=1.1 / 255 / 0.5)
    with rl.no_grad():
        close(m(golden["ids"], rl.tensor(pixels)).numpy(), golden["logits"].numpy())
    rows = rl.pipeline("visual-question-answering", m)(image, question="How many?", top_k=2)
    assert [{*row} for row in rows] == [{"score", "answer"}] * 2


def test_boxes_of_phrases() -> None:
    """KOSMOS-2's boxes, in pixels of the file: the example of transformers' documentation."""
    from rushlight.models.families.multimodal.kosmos2 import located

    said = located(
        "<grounding> An image of<phrase> a snowman</phrase><object><patch_index_0044>"
        "<patch_index_0863></object> warming himself by<phrase> a fire</phrase><object>"
        "<patch_index_0005><patch_index_0911></object>.",
        (100, 200),
    )
    assert said["generated_text"] == "An image of a snowman warming himself by a fire."
    assert said["entities"] == [
        {"label": "a snowman", "start": 12, "end": 21,
         "boxes": [[78.125, 4.6875, 196.875, 82.8125]]},
        {"label": "a fire", "start": 41, "end": 47,
         "boxes": [[34.375, 1.5625, 96.875, 89.0625]]},
    ]  # fmt: skip


def test_captions_on_devices(device: str) -> None:
    """A sample of the families: an encoder of pictures with texts, on each device."""
    golden, m = load_safetensors(DATA / "blip.safetensors"), model("blip", device)
    made = sources(m, "blip")
    with rl.no_grad():
        memory = m.memory_of(*m.place_sources(made, m.source_width(made), 0))
        logits = m.decode(rl.tensor(IDS, device=device), memory)
    close(logits.numpy()[:, :, ::5], golden["logits"].numpy(), 1e-3)


def test_a_decoder_without_what_sees_reads_texts() -> None:
    """As a checkpoint of which the language model alone was kept."""
    whole, files = model("blip_2"), files_of("blip_2")
    kept = {n: t for n, t in whole.state_dict().items() if n.startswith("model.language_model")}
    kept = {n.removeprefix("model."): t for n, t in kept.items()}
    assert kept and len(kept) < len(whole.state_dict())
    m = rl.models.assemble(files, kept)
    ids = rl.tensor([[5, 6, 7]])
    with rl.no_grad():
        np.testing.assert_array_equal(m(ids).numpy(), whole(ids).numpy())
    with pytest.raises(ValueError, match="no tensors of what sees"):
        m.picture_prompt("a", images("blip_2")[0])
