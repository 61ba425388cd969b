"""Tasks of images on real weights and photographs, on tiny models, on devices and on the shell."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.core.io.text.tokenizer import load_tokenizer
from rushlight.core.io.weights.safetensors import load_safetensors, open_tables

DATA = Path(__file__).parent / "data" / "vision"
WORDS = ("<unk>", "<pad>", "a", "cat", "dog", "this", "is", "photo", "of", ".")
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [
        {"id": 30, "content": "<end>", "special": True, "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False}],
    "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": {"type": "TemplateProcessing", "single": [
        {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<end>", "type_id": 0}}],
        "pair": [], "special_tokens": {"<end>": {"id": "<end>", "ids": [30], "tokens": ["<end>"]}}},
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(WORDS)},
              "unk_token": "<unk>"},
}  # fmt: skip


def tiny(row: str, vision: ModuleType, device: str = "cpu", **files: bytes) -> Any:
    found = open_tables(DATA / f"{row}.safetensors")[0][1].metadata
    names = vision.names_of(found["names"])
    tensors = {n: rl.tensor(vision.values_of(n, tuple(shape))) for n, shape in names.items()}
    told = {} if found["config"] == "{}" else {"config.json": found["config"].encode()}
    given = {**told, **files}
    return rl.models.assemble(given, tensors, device=device)


@pytest.mark.native
@pytest.mark.parametrize("name", ["mobilenet-v2", "efficientnet-lite0"])
def test_photographs_are_recognized(name: str, photographs: ModuleType) -> None:
    files = [photographs.photograph(one) for one in photographs.SHOWS]
    found = rl.pipeline("image-classification", name)(files, top_k=3)
    assert [row[0]["label"] for row in found] == list(photographs.SHOWS.values())
    assert all(len(row) == 3 and row[0]["score"] > row[1]["score"] for row in found)


@pytest.mark.native
@pytest.mark.parametrize("name", ["dinov2-small", "u2netp", "mobilenet-v2"])
def test_real_weights_agree_with_their_references(name: str) -> None:
    draw = np.random.default_rng(11)
    pixels = draw.standard_normal((1, 3, 320, 320)).astype(np.float32)
    given = rl.tensor(pixels if name == "u2netp" else np.ascontiguousarray(pixels[..., :224, :224]))
    model = rl.models.load(name)
    with rl.no_grad():
        if name == "dinov2-small":
            found = model.encode_image(given)[0]
        elif name == "u2netp":
            found = model(given).sigmoid()[0, 0, ::16, ::16]
        else:
            found = model(given)[0, ::10]
    golden = load_safetensors(DATA.parent / "images.safetensors")[name].numpy()
    np.testing.assert_allclose(found.numpy(), golden, atol=1e-3)


@pytest.mark.native
def test_likeness_and_foreground_of_photographs(
    photographs: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cat, cup = (photographs.photograph(name) for name in ("chelsea", "coffee"))
    image = rl.models.image.load(cat)
    vectors = rl.pipeline("image-feature-extraction", "dinov2-small")([cat, image[:, ::-1], cup])
    alike = (vectors @ vectors.T).numpy()
    np.testing.assert_allclose(np.diag(alike), 1, atol=1e-5)
    assert alike[0, 1] > 0.8 > alike[0, 2]  # a cat is like its mirror image, not like a cup
    assert run(["see", str(cat), "--model", "u2netp", "--output-dir", str(tmp_path)]) == 0
    assert "chelsea-cut.png" in capsys.readouterr().out
    from PIL import Image

    alpha = np.asarray(Image.open(tmp_path / "chelsea-cut.png"))[:, :, 3]
    assert alpha.shape == image.shape[:2]
    assert alpha[150, 220] > 240 > 15 > alpha[:20, :20].max()  # the nose, and a corner


def test_classes_of_one_and_of_several(vision: ModuleType, device: str) -> None:
    model = tiny("resnet", vision, device)
    images = [vision.pixels_of((40, 50))[i].transpose(1, 2, 0).clip(0, 1) for i in range(2)]
    pipe = rl.pipeline("image-classification", model)
    both = pipe(images, top_k=5, batch_size=1)
    one = pipe(images[1], top_k=5)
    assert [row["label"] for row in one] == [row["label"] for row in both[1]]
    np.testing.assert_allclose([r["score"] for r in one], [r["score"] for r in both[1]], rtol=1e-4)
    np.testing.assert_allclose(sum(row["score"] for row in one), 1, rtol=1e-5)
    every = pipe(images[0], function_to_apply="sigmoid", top_k=5)
    assert all(0 < row["score"] < 1 for row in every)
    with pytest.raises(ValueError, match="no head with classes"):
        rl.pipeline("image-classification", tiny("resnet-basic", vision))(images[0])
    with pytest.raises(TypeError, match="an image or a list of images"):
        pipe(3)


def test_features_have_length_one(vision: ModuleType, device: str) -> None:
    pipe = rl.pipeline("image-feature-extraction", tiny("dinov2", vision, device))
    image = vision.pixels_of((40, 50))[0].transpose(1, 2, 0).clip(0, 1)
    found = pipe([image, image])
    assert found.shape == (2, 24) and pipe(image).shape == (24,)
    np.testing.assert_allclose(found.square().sum(1).cpu().numpy(), 1, rtol=1e-4)
    assert abs(float(pipe(image, normalize=False).square().sum().item()) - 1) > 0.1


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_labels_are_compared_with_images(kind: str, vision: ModuleType, device: str) -> None:
    model = tiny(kind, vision, device)
    image = vision.pixels_of((40, 50))[0].transpose(1, 2, 0).clip(0, 1)
    pipe = rl.pipeline("zero-shot-image-classification", model, candidate_labels="cat, dog")
    with pytest.raises(ValueError, match="no tokenizer"):
        pipe(image)
    model.tokenizer = load_tokenizer(json.dumps(TOKENIZER).encode())
    found = pipe(image, hypothesis_template="a {}")
    assert {one["label"] for one in found} == {"cat", "dog"}
    assert found[0]["score"] >= found[1]["score"] > 0
    # By definition: the vectors of what the task tokenizes, compared.
    texts = []
    for label in ("cat", "dog"):
        ids = [2, WORDS.index(label), 30]
        filled = [*ids, *[1] * (3 if kind == "siglip" else 0)]
        with rl.no_grad():
            texts.append(model.encode_text(rl.tensor([filled], device=model.device)).cpu().numpy())
    with rl.no_grad():
        seen = model.encode_image(model.processor([rl.models.image.load(image)], model.device))
        scale = float(np.exp(model.logit_scale.detach().cpu().numpy().reshape(-1)[0]))
    vectors = [x.reshape(-1) / np.linalg.norm(x) for x in (seen.cpu().numpy(), *texts)]
    logits = np.array([vectors[0] @ t for t in vectors[1:]]) * scale
    if kind == "siglip":
        expected = 1 / (1 + np.exp(-(logits + model.logit_bias.detach().cpu().numpy())))
    else:
        expected = np.exp(logits) / np.exp(logits).sum()
    by_name = {one["label"]: one["score"] for one in found}
    np.testing.assert_allclose([by_name["cat"], by_name["dog"]], expected, rtol=1e-3)
    with pytest.raises(ValueError, match="candidate_labels is missing"):
        rl.pipeline("zero-shot-image-classification", model)(image)
    with pytest.raises(ValueError, match="has no {} for the label"):
        pipe(image, hypothesis_template="a")


def test_a_mask_is_of_the_images_size(device: str) -> None:
    widths = {
        name: [3 if name == "stage1" else 8 if name.endswith("d") else 4, 2, 4]
        for name in (*(f"stage{i}" for i in range(1, 7)), *(f"stage{i}d" for i in range(1, 6)))
    }
    config = {"model_type": "u2net", "size": "", "widths": widths}
    from rushlight.models.families.vision.u2net import build

    state = build(config, ()).state_dict()
    draw = np.random.default_rng(1)
    tensors = {
        n: rl.tensor(draw.standard_normal(t.shape).astype(np.float32) * 0.3)
        for n, t in state.items()
    }
    files = {"config.json": json.dumps(config).encode()}
    model = rl.models.assemble(files, tensors, device=device)
    pipe = rl.pipeline("background-removal", model)
    image = draw.integers(0, 255, (31, 23, 3)).astype(np.uint8)
    found = pipe(image)
    assert (found["height"], found["width"]) == (31, 23) == found["mask"].shape
    assert found["mask"].dtype == np.uint8 and found["mask"].max() > 200
    assert set(np.unique(pipe([image], threshold=0.5)[0]["mask"])) <= {0, 255}
    with pytest.raises(ValueError, match="between 0 and 1"):
        pipe(image, threshold=2.0)


@pytest.mark.native
def test_the_command_says_what_it_sees(
    photographs: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    cat = str(photographs.photograph("chelsea"))
    assert run(["see", cat, "--model", "mobilenet-v2", "-o", "top_k=2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("Egyptian cat") and len(lines) == 3
    assert run(["see", cat, "--model", "mobilenet-v2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["images"][0]["value"][0]["label"] == "Egyptian cat"
    for wrong, message in (
        (["see", "none.png", "--model", "mobilenet-v2"], "none.png: no such file"),
        (["see", cat, "--model", "mobilenet-v2", "-o", "top_k"], "is no name=value"),
        (["see", cat, "--model", "mobilenet-v2", "--task", "chat"], "chat is not supported"),
    ):
        assert run(wrong) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(("name", "width"), [("hiera", 32), ("deit3-timm", 48)])
def test_a_picture_of_another_size_is_classified(
    name: str, width: int, vision: ModuleType, device: str
) -> None:
    model = tiny(name, vision, device)
    image = np.random.default_rng(2).integers(0, 255, (50, 30, 3)).astype(np.uint8)
    found = rl.pipeline("image-classification", model)(image, top_k=5)
    with rl.no_grad():
        wanted = model(model.processor([image], device)).softmax(-1).cpu().numpy()[0]
    shown = {row["label"]: row["score"] for row in found}
    assert shown == pytest.approx(dict(zip(model.labels, wanted.tolist(), strict=True)), rel=1e-3)
    vector = rl.pipeline("image-feature-extraction", model)(image)
    assert np.asarray(vector).shape == (width,)


def test_objects_are_in_the_images_pixels(vision: ModuleType) -> None:
    model = tiny("yolos-small", vision)
    pipe = rl.pipeline("object-detection", model, threshold=0.0)
    image = np.random.default_rng(2).integers(0, 255, (50, 30, 3)).astype(np.uint8)
    found = pipe(image)
    scores = [one["score"] for one in found]
    assert len(found) == 3 and scores == sorted(scores, reverse=True)
    for one in found:
        box = one["box"]
        assert 0 <= box["xmin"] <= box["xmax"] <= 30 and 0 <= box["ymin"] <= box["ymax"] <= 50
    assert pipe([image], top_k=1)[0] == found[:1]
    with pytest.raises(ValueError, match="threshold is 2.0"):
        pipe(image, threshold=2.0)


def test_depths_are_of_the_images_size(vision: ModuleType) -> None:
    pipe = rl.pipeline("depth-estimation", tiny("depth_anything-metric", vision))
    image = np.random.default_rng(2).integers(0, 255, (50, 30, 3)).astype(np.uint8)
    pipe.model.processor = rl.models.image.Processor(size=(24, 24))
    found = pipe(image)
    assert found["depth"].shape == (50, 30) and found["depth"].dtype == np.float32
    shown = pipe([image], picture=True)[0]["depth"]
    assert shown.dtype == np.uint8 and (shown.min(), shown.max()) == (0, 255)


def _picture(height: int, width: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def test_key_points_are_in_the_pictures_own_pixels(vision: ModuleType) -> None:
    m, image = tiny("superpoint", vision), _picture(50, 90)
    (row,) = rl.pipeline("keypoint-detection", m)([image])
    points = row["keypoints"] if isinstance(row, dict) else row[0]["keypoints"]
    assert points and all(0 <= p["x"] <= 90 and 0 <= p["y"] <= 50 for p in points)
    assert any(p["x"] > 50 for p in points), "the width is not taken for the height"
    scores = [p["score"] for p in points]
    assert all(0 <= score <= 1 for score in scores)
    person = tiny("vitpose", vision)
    (pose,) = rl.pipeline("keypoint-detection", person)(image)
    assert set(pose["box"]) == {"xmin", "ymin", "xmax", "ymax"} and 0 <= pose["score"] <= 1
    assert all({"x", "y", "score"} <= set(p) for p in pose["keypoints"])


def test_a_larger_picture_is_what_the_model_makes(vision: ModuleType) -> None:
    m, image = tiny("swin2sr", vision), _picture(21, 30)
    made = rl.pipeline("image-to-image", m)(image)
    times = made["width"] // 30
    assert times > 1 and (made["height"], made["width"]) == (21 * times, 30 * times)
    assert made["image"].shape == (21 * times, 30 * times, 3) and made["image"].dtype == np.uint8
    with rl.no_grad():
        pixels = m(m.processor([image])).numpy()[0, :, : 21 * times, : 30 * times]
    wanted = np.clip(pixels.transpose(1, 2, 0) * 255, 0, 255)
    assert np.abs(made["image"] - wanted).max() <= 1


@pytest.mark.parametrize("kind", ["videomae", "vivit", "timesformer", "vjepa2"])
def test_videos_are_classified(kind: str, vision: ModuleType, tmp_path: Path) -> None:
    from PIL import Image

    m = tiny(kind, vision)
    frames = [_picture(40, 52, i) for i in range(m.frames)]
    rows = rl.pipeline("video-classification", m)(frames, top_k=2)
    batch = np.stack([m.processor([frame]).numpy()[0] for frame in frames])[None]
    with rl.no_grad():
        scores = m(rl.tensor(batch)).softmax(-1).numpy()[0]
    assert [r["label"] for r in rows] == [m.labels[i] for i in np.argsort(-scores)[:2]]
    np.testing.assert_allclose([r["score"] for r in rows], np.sort(scores)[::-1][:2], rtol=1e-4)
    for i, frame in enumerate(frames):  # a folder of pictures is a video, by their names
        Image.fromarray(frame).save(tmp_path / f"{i:03}.png")
    again = rl.pipeline("video-classification", m)(str(tmp_path), top_k=2)
    assert again == rows
    headless = tiny("vivit-model", vision)
    with pytest.raises(ValueError, match="the checkpoint has no head with classes"):
        rl.pipeline("video-classification", headless)(frames)


def test_texts_name_what_is_segmented(vision: ModuleType) -> None:
    m = tiny("clipseg", vision, "cpu", **{"tokenizer.json": json.dumps(TOKENIZER).encode()})
    image = _picture(30, 44)
    pipe = rl.pipeline("image-segmentation", m)
    labels = [WORDS[3], WORDS[4]]
    rows = pipe(image, candidate_labels=labels, mask_threshold=0.5)
    assert [row["label"] for row in rows] == labels
    from rushlight.models.tasks.zero_shot_image_classification import text_features

    with rl.no_grad():
        logits = m.segment(m.processor([image]), text_features(m, labels))
        shares = rl.nn.functional.interpolate(logits, size=(30, 44), mode="bilinear")[0].sigmoid()
    for row, share in zip(rows, shares.numpy(), strict=True):
        np.testing.assert_array_equal(row["mask"] > 0, share > 0.5)
    with pytest.raises(ValueError, match="segments what candidate_labels name; name the labels"):
        pipe(image)
    other = tiny("upernet", vision)
    with pytest.raises(ValueError, match="candidate_labels has no effect"):
        rl.pipeline("image-segmentation", other)(image, candidate_labels=labels)


def test_pvt_has_pictures_of_its_positions_size(vision: ModuleType) -> None:
    found = rl.pipeline("image-classification", tiny("pvt", vision))(_picture(50, 60), top_k=1)
    assert len(found) == 1
