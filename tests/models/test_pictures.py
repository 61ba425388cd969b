"""Every family that reads texts with pictures: prompts, pixels, logits and answers are the same."""

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
from rushlight.models.generation.cache_spec import State
from rushlight.models.generation.pictures import PicturePrompt
from rushlight.models.generation.prefill import read_ahead

HERE = Path(__file__).parent
DATA = HERE / "data" / "pictures"
_spec = importlib.util.spec_from_file_location("seeing", HERE / "seeing.py")
assert _spec is not None and _spec.loader is not None
table = importlib.util.module_from_spec(_spec)
sys.modules["seeing"] = table
_spec.loader.exec_module(table)
ROWS = table.rows()


def files_of(name: str) -> dict[str, bytes]:
    """The small files of a row's checkpoint."""
    row = ROWS[name]
    config = open_tables(DATA / f"{name}.safetensors")[0][1].metadata["config"]
    kind, settings = row.processor
    pictures = {**settings, "image_processor_type": kind.removesuffix("Pil")}
    whole, more = row.whole
    return {
        "config.json": config.encode(),
        "preprocessor_config.json": json.dumps(pictures).encode(),
        "processor_config.json": json.dumps({"processor_class": whole, **more}).encode(),
        "tokenizer.json": table.tokenizer_json(row.special),
        "tokenizer_config.json": json.dumps(row.tokens).encode(),
    }


@cache
def model(name: str, device: str = "cpu") -> Any:
    told = open_tables(DATA / f"{name}.safetensors")[0][1].metadata["names"]
    names = json.loads(zlib.decompress(base64.b85decode(told)))
    tensors = {n: rl.tensor(table.values_of(n, tuple(shape))) for n, shape in names.items()}
    return rl.models.assemble(files_of(name), tensors, device=device)


def prompt(m: Any, name: str) -> Any:
    row = ROWS[name]
    images = [table.picture(size, i) for i, size in enumerate(row.sizes)]
    return m.picture_prompt(row.text, images)


def close(values: Any, wanted: Any, share: float = 1e-4) -> None:
    largest = max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(values / largest, wanted / largest, rtol=0, atol=share)


@pytest.mark.parametrize("name", ROWS)
def test_prompts_and_pixels_agree(name: str) -> None:
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    made = prompt(m, name)
    assert made.ids == golden["ids"].numpy()[0].tolist()
    inputs = made.inputs()
    for key, t in golden.items():
        kind, _, label = key.partition(":")
        if kind != "input":
            continue
        label = "pixels" if label == "pixel_values" else label
        if label not in inputs:  # what the model does not read
            continue
        values, wanted = inputs[label].numpy(), t.to(inputs[label].dtype).numpy()
        wanted = wanted.reshape(values.shape)
        if label == "pixels" or "pixel_values" in label:
            step = np.abs(np.diff(np.unique(np.round(wanted, 5)))).min() if wanted.size else 0.0
            np.testing.assert_allclose(values, wanted, rtol=0, atol=max(2.2 * step, 0.02))
        else:
            np.testing.assert_array_equal(values, wanted)


def inputs_of(m: Any, name: str, golden: Any) -> dict[str, Any]:
    """The reference's inputs, so that a rounding of a pixel does not count."""
    made = prompt(m, name).inputs()
    out = dict(made)
    for label in made:
        key = f"input:{'pixel_values' if label == 'pixels' else label}"
        if key in golden:
            out[label] = golden[key].reshape(*made[label].shape).to(made[label].dtype)
    return {label: t.to(m.device) for label, t in out.items()}


@pytest.mark.parametrize("name", ROWS)
def test_logits_agree(name: str) -> None:
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    with rl.no_grad():
        logits = m(golden["ids"], **inputs_of(m, name, golden))
        step = -(-logits.shape[1] // golden["logits"].shape[1])
        close(logits.numpy()[:, ::step, ::5], golden["logits"].numpy())
        plain = m.prompt_ids("A text alone.")
        if ROWS[name].alone:
            close(m(rl.tensor([plain])).numpy()[:, :, ::5], golden["text"].numpy())


@pytest.mark.parametrize("name", ROWS)
def test_answers_agree(name: str) -> None:
    """By the cache and in parts, twice: the second time all but the last token is cached."""
    golden, m = load_safetensors(DATA / f"{name}.safetensors"), model(name)
    wanted = golden["answer"].numpy()[0].tolist()
    ends, m.eos_ids = m.eos_ids, frozenset()
    try:
        for _ in range(2):
            made = prompt(m, name)
            ids = [t.id for t in m.tokens(made, max_new_tokens=len(wanted), temperature=0)]
            assert ids == wanted
        batch = m.generate_batch([made, "A text alone."], max_new_tokens=4, temperature=0)
        alone = "".join(m.generate("A text alone.", max_new_tokens=4, temperature=0))
        assert batch == [m.tokenizer.decode(wanted[:4]), alone]
    finally:
        m.eos_ids = ends


def test_every_family_has_a_row() -> None:
    from rushlight.models.families import families

    room = "rushlight.models.families.multimodal."
    said = {path.stem for path in (HERE / "captions").glob("[!_]*.py")}  # test_captions.py
    kinds = {
        kind
        for kind, module in families().items()
        if module.startswith(room) and module.removeprefix(room) not in said
    }
    assert {row.config["model_type"] for row in ROWS.values()} >= kinds


TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'image' %}MARK{% else %}{{ p.text }}{% endif %}"
    "{% endfor %}{% endif %}{% endfor %}[assistant]"
)
KNOWS_TEXTS = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"


def chatting(name: str, source: str, device: str = "cpu") -> Any:
    """A row's model with a chat template, whose answers do not end early."""
    from rushlight.core.io.text.template import ChatTemplate

    m = model(name, device)
    m.template = ChatTemplate(source.replace("MARK", m.sight.inline or m.sight.marker))
    m.eos_ids = frozenset()
    return m


@pytest.mark.parametrize("name", ROWS)
def test_messages_with_pictures(name: str, device: str) -> None:
    """A chat: turn two reads its own tokens only, and the picture is encoded once."""
    if device != "cpu" and not ROWS[name].everywhere:
        return
    m = chatting(name, TEMPLATE, device)
    m._session = None
    image = table.picture(ROWS[name].sizes[0], 0)
    looks = []
    look = m.sight.look

    def counted(*given: Any) -> Any:
        looks.append(1)
        return look(*given)

    object.__setattr__(m.sight, "look", counted)
    try:
        ask = [{"role": "user", "content": [
            {"type": "image", "image": image}, {"type": "text", "text": "What?"}]}]  # fmt: skip
        pipe = rl.pipeline("chat", m)
        first = pipe.run(ask, {"max_new_tokens": 5, "temperature": 0})
        assert max(first.prompt_ids) < m.vocab_size and len(first.ids) == 5
        kept = len(m._session.ids)
        more = [*ask, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "So?"}]
        ids = m.prompt_ids(m.chat_ids(more))
        m._session.resume(m, ids)
        # A recurrent state cannot be cut back, nor tokens that have all seen each other.
        again = m.reads_at_once or any(isinstance(spec, State) for spec in m.cache_specs())
        if not again:
            assert len(m._session.ids) >= len(first.prompt_ids) - len("[assistant]") <= kept
        second = pipe(more, max_new_tokens=5, temperature=0)
        assert len(looks) == 1 + again
        m._session = None
        assert pipe(more, max_new_tokens=5, temperature=0) == second
        task = rl.pipeline("image-text-to-text", m)
        m._session = None
        told = task("What?", images=[image], max_new_tokens=5, temperature=0)
        assert told == first.text
        m.template = None
        alone = task("What?", images=image, max_new_tokens=3, temperature=0)
        assert alone == "".join(
            m.generate(m.picture_prompt("What?", image), max_new_tokens=3, temperature=0)
        )
    finally:
        object.__setattr__(m.sight, "look", look)
        m.template = None


def test_another_picture_is_another_prompt() -> None:
    m = chatting("qwen2_vl", TEMPLATE)
    images = [table.picture((40, 40), i) for i in range(2)]
    prompts = [m.picture_prompt("a", image) for image in images]
    assert prompts[0].ids == prompts[1].ids and list(prompts[0]) != list(prompts[1])
    answers = [list(m.tokens(p, max_new_tokens=1, temperature=0)) for p in (*prompts, prompts[0])]
    assert answers[0] == answers[2] and answers[0][0].logprob != answers[1][0].logprob


def test_a_template_of_texts_has_the_pictures_first() -> None:
    m = chatting("qwen2_vl", KNOWS_TEXTS)
    image = table.picture((40, 40), 0)
    content = [{"type": "text", "text": "hi"}, {"type": "image", "image": image}]
    ids = m.chat_ids([{"role": "user", "content": content}])
    assert m.tokenizer.decode(ids.ids, skip_special_tokens=False).startswith(
        "[user]<|vision_start|><|image_pad|>"
    )
    m.template = None


def test_errors_of_pictures() -> None:
    m = chatting("qwen2_vl", TEMPLATE)
    image = table.picture((40, 40), 0)
    with pytest.raises(ValueError, match="1 places for pictures .* but 2 pictures are given"):
        m.picture_prompt("a<|image_pad|>b", [image, image])
    with pytest.raises(ValueError, match="too narrow; the longer side"):
        m.picture_prompt("a", np.zeros((1, 4000, 3), np.uint8))
    with pytest.raises(rl.FormatError, match="without a picture; give it as"):
        m.chat_ids([{"role": "user", "content": [{"type": "image"}]}])
    with pytest.raises(rl.FormatError, match="base64 is damaged"):
        m.chat_ids([{"role": "user", "content": [{"type": "image", "base64": "%%"}]}])
    with pytest.raises(ValueError, match="12 tokens of pictures .* 8 rows"):
        pixels = rl.zeros(32, 96)
        m(rl.tensor([[258] * 12]), pixels=pixels, image_grid_thw=rl.tensor([[1, 4, 8]]))
    with pytest.raises(ValueError, match="pixels have 32 patches, but .* asks for 16"):
        m(rl.tensor([[258] * 4]), pixels=pixels, image_grid_thw=rl.tensor([[1, 4, 4]]))
    copied = [*m.picture_prompt("a", image)]
    with pytest.raises(ValueError, match="is not one of the 300 tokens"):
        next(m.tokens(copied))
    processor, m.processor = m.processor, None
    with pytest.raises(ValueError, match="no preprocessor_config.json"):
        m.picture_prompt("a", image)
    m.processor, m.template = processor, None
    assert len(m.picture_prompt("", image, max_pixels=256).pictures[0].inputs["pixels"]) == 16
    with pytest.raises(ValueError, match="no picture fits these"):
        m.picture_prompt("", image, min_pixels=600, max_pixels=300)


def test_pages_without_a_question_are_asked_for_their_text() -> None:
    """GOT-OCR's processor writes the whole prompt, and one for several pages."""
    m = model("got_ocr2")
    image = table.picture((30, 40), 0)
    for count, wanted in ((1, " OCR: "), (2, " OCR across multi pages: ")):
        ids = m.picture_prompt("", [image] * count).ids
        text = m.tokenizer.decode(ids, skip_special_tokens=False)
        assert text == (
            "<|im_start|>system\nYou should follow the instructions carefully and explain your "
            "answers in detail.<|im_end|><|im_start|>user\n<img>"
            + "<imgpad>" * 4 * count
            + f"</img>\n{wanted}<|im_end|><|im_start|>assistant\n"
        )
    prompt = m.picture_prompt("Which words?", image).ids
    assert "OCR" not in m.tokenizer.decode(prompt, skip_special_tokens=False)


def test_an_answer_that_repeats_itself_ends() -> None:
    m = model("qwen2_vl")
    made = prompt(m, "qwen2_vl")
    block = list(range(20))
    assert m.stuck(made, [1, *block * 5], 101) and not m.stuck(made, [*block * 4, 1, *block], 101)
    assert not m.stuck(made, block * 5, 80) and not m.stuck([1], block * 5, 100)


@pytest.mark.parametrize(
    ("text", "scale", "wanted"),
    [
        (
            '```json\n[{"bbox_2d": [28, 56, 14, 112], "label": "a cat"}, {"bbox_2d": [0, 0',
            "pixels",
            [{"label": "a cat", "box": {"xmin": 100, "ymin": 200, "xmax": 200, "ymax": 400}}],
        ),
        (
            'Here: {"point_2d": [500, 2500], "label": "nose"}.',
            "thousandths",
            [{"label": "nose", "point": {"x": 200, "y": 800}}],
        ),
        (
            "<|object_ref_start|>dog<|object_ref_end|><|box_start|>(0,250),(1000,500)<|box_end|>",
            "thousandths",
            [{"label": "dog", "box": {"xmin": 0, "ymin": 200, "xmax": 400, "ymax": 400}}],
        ),
        (
            "<loc0512><loc0000><loc1024><loc0256> hat ; <loc0000><loc0000><loc0001>",
            "thousandths",
            [{"label": "hat", "box": {"xmin": 0, "ymin": 400, "xmax": 100, "ymax": 800}}],
        ),
        ('(1,2),(3,4) and {"box": [true, 1, 2, 3]} {"box": [1]}', "pixels", []),
    ],
)  # fmt: skip
def test_places_are_in_pixels_of_the_file(text: str, scale: Any, wanted: Any) -> None:
    """A picture of 800 x 400 that the model reads as 224 x 56."""
    from rushlight.models.generation.places import places_in

    assert places_in(text, (800, 400), (224, 56), scale) == wanted


@pytest.mark.parametrize("name", ROWS)
def test_prompts_that_are_read_ahead(name: str) -> None:
    """As a page reads them, in short parts that show progress."""
    m = model(name)
    m._session = None
    ends, m.eos_ids = m.eos_ids, frozenset()
    golden = load_safetensors(DATA / f"{name}.safetensors")["answer"].numpy()[0].tolist()
    made = prompt(m, name)
    for done in read_ahead(m, made, 7):
        assert done < len(made)
    assert [t.id for t in m.tokens(made, max_new_tokens=len(golden), temperature=0)] == golden
    m.eos_ids = ends


def test_a_picture_beside_itself_has_positions_of_its_own() -> None:
    """Where no token is between them, and as the reference counts both."""
    m = model("qwen2_vl")
    [picture] = m.picture_prompt("", table.picture((40, 40), 0)).pictures
    rows = picture.grid[1] * picture.grid[2]
    tokens = [65, *picture.tokens(rows, m.sight.token) * 2, 66]
    made = m.prompt_ids(PicturePrompt(tokens, [picture]))
    (positions,), (shift,) = m.places([made])
    side = max(picture.grid[1:])
    assert positions.shape == (3, len(tokens)) and shift == 2 + 2 * side - len(tokens)
    np.testing.assert_array_equal(positions[:, 1 : 1 + rows] + side, positions[:, 1 + rows : -1])
    ids = np.array([made.ids if hasattr(made, "ids") else made])
    twice = {k: np.concatenate([v, v]) for k, v in picture.inputs.items()}
    with rl.no_grad():
        ours = m(rl.tensor(ids), **{k: rl.tensor(v) for k, v in twice.items()}).numpy()[0, -1]
    (token,) = m.tokens(made, max_new_tokens=1, temperature=0)
    assert token.id == int(ours.argmax())


def test_pictures_at_addresses_are_refused_in_words() -> None:
    m = chatting("qwen2_vl", TEMPLATE)
    for part in (
        {"type": "image", "url": "https://a.example/cat.png"},
        {"type": "image_url", "image_url": {"url": "http://a.example/cat.png"}},
    ):
        with pytest.raises(ValueError, match="addresses are not fetched: give its bytes"):
            m.chat_ids([{"role": "user", "content": [part]}])
    image = (table.picture((40, 40), 0),)  # a tuple is several, too
    pipe = rl.pipeline("image-text-to-text", m)
    assert pipe("What?", images=image, max_new_tokens=2) == pipe(
        "What?", images=[*image], max_new_tokens=2
    )
    m.template = None
