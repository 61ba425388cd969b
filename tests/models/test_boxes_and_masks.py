"""Boxes and masks: suppression against a plain loop, the tasks of masks, and drawn results."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.cli import run
from rushlight.core.functional.network.vision import interpolate
from rushlight.core.io.text.tokenizer import load_tokenizer
from rushlight.core.io.weights.safetensors import load_safetensors
from rushlight.models.layers.vision.outputs.masks import of_classes
from rushlight.models.tasks.pipeline import parts
from rushlight.models.tasks.segments import segments

Array = npt.NDArray[Any]


def _result(steps: Any) -> Any:
    """What steps return that give no tokens."""
    with pytest.raises(StopIteration) as finished:
        next(parts(steps))
    return finished.value.value


def _some(count: int, seed: int = 3) -> tuple[Array, Array]:
    draw = np.random.default_rng(seed)
    corner = draw.uniform(0, 50, (count, 2))
    boxes = np.concatenate([corner, corner + draw.uniform(1, 30, (count, 2))], 1)
    return boxes, draw.permutation(count) / count


def _iou(a: Array, b: Array) -> float:
    shared = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(
        0.0, min(a[3], b[3]) - max(a[1], b[1])
    )
    whole = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return float(shared / whole) if whole > 0 else 0.0


def _greedy(boxes: Array, scores: Array, threshold: float) -> list[int]:
    found: list[int] = []
    for i in sorted(range(len(scores)), key=lambda i: -scores[i]):
        if all(_iou(boxes[i], boxes[j]) <= threshold for j in found):
            found.append(i)
    return found


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9])
def test_suppression_is_greedy(threshold: float, device: str) -> None:
    boxes, scores = _some(60)
    wanted = _greedy(boxes, scores, threshold)
    assert rl.image.nms(boxes, scores, threshold).tolist() == wanted
    given = [rl.tensor(v.astype(np.float32), device=device) for v in (boxes, scores)]
    kept = rl.image.nms(given[0], given[1], threshold)
    assert kept.tolist() == wanted and kept.device == given[0].device
    kinds = np.arange(60) % 3
    each = [
        i
        for k in range(3)
        for i in np.nonzero(kinds == k)[0][
            _greedy(boxes[kinds == k], scores[kinds == k], threshold)
        ].tolist()
    ]
    found = rl.image.batched_nms(boxes, scores, kinds, threshold).tolist()
    assert found == sorted(each, key=lambda i: -scores[i])


def test_suppression_of_odd_boxes() -> None:
    assert rl.image.nms(np.zeros((0, 4)), np.zeros(0), 0.5).tolist() == []
    same = np.array([[0, 0, 2, 2.0]] * 3)
    assert rl.image.nms(same, np.array([0.5, 0.5, 0.5]), 0.5).tolist() == [0]  # the first of ties
    assert rl.image.nms(same * 0, np.array([0.1, 0.9, 0.5]), 0.5).tolist() == [1, 2, 0]  # empty
    apart = np.array([[0, 0, 1, 1], [5, 5, 6, 6.0]])
    assert rl.image.nms(apart, np.array([np.nan, 0.1]), 0.5).tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"nms: boxes are \(2, 3\)"):
        rl.image.nms(np.zeros((2, 3)), np.zeros(2), 0.5)
    with pytest.raises(ValueError, match=r"nms: boxes are \(4,\); they must be \(n, 4\)"):
        rl.image.nms(np.zeros(4), np.zeros(4), 0.5)
    with pytest.raises(ValueError, match=r"scores are \(3,\); they must be \(2,\)"):
        rl.image.nms(apart, np.zeros(3), 0.5)
    with pytest.raises(ValueError, match="1 classes for 2 boxes"):
        rl.image.batched_nms(apart, np.zeros(2), np.zeros(1), 0.5)


def test_scores_fall_where_boxes_overlap() -> None:
    boxes, scores = _some(30, 5)
    found, left = rl.image.soft_nms(boxes, scores, 0.4, 0.05)
    alive, values, wanted = set(range(30)), scores.copy(), []
    while alive:
        best = max(alive, key=lambda i: values[i])
        if values[best] < 0.05:
            break
        wanted.append((best, values[best]))
        alive.remove(best)
        for i in alive:
            values[i] *= np.exp(-(_iou(boxes[best], boxes[i]) ** 2) / 0.4)
    assert found.tolist() == [i for i, _ in wanted]
    np.testing.assert_allclose(left, [v for _, v in wanted], rtol=1e-5)
    with pytest.raises(ValueError, match="sigma is 0"):
        rl.image.soft_nms(boxes, scores, 0)


def test_boxes_in_other_formats() -> None:
    boxes, _ = _some(8)
    np.testing.assert_allclose(
        rl.image.box_iou(boxes, boxes[:3]),
        [[_iou(a, b) for b in boxes[:3]] for a in boxes],
        rtol=1e-5,
    )
    sizes = boxes[:, 2:] - boxes[:, :2]
    np.testing.assert_allclose(rl.image.box_area(boxes), sizes.prod(1), rtol=1e-5)
    for name in ("xywh", "cxcywh"):
        there = rl.image.box_convert(rl.tensor(boxes.astype(np.float32)), "xyxy", name)
        np.testing.assert_allclose(there.numpy()[:, 2:], sizes, rtol=1e-4)
        back = rl.image.box_convert(there, name, "xyxy")
        np.testing.assert_allclose(back.numpy(), boxes, rtol=1e-4)
    with pytest.raises(ValueError, match="'xy' is no format"):
        rl.image.box_convert(boxes, "xy", "xyxy")


def _picture() -> Array:
    return np.random.default_rng(2).integers(0, 256, (30, 44, 3), np.uint8)


@pytest.mark.parametrize("name", ["sam", "sam2"])
def test_masks_of_prompts(name: str, vision: ModuleType, seen: ModuleType, device: str) -> None:
    model = seen.tiny(name, vision, device)
    pipe = rl.pipeline("mask-generation", model)
    image = _picture()
    (one,) = pipe(image, points=[[20, 10]])
    assert one["mask"].shape == (30, 44) and set(np.unique(one["mask"])) <= {0, 255}
    inside, box = np.argwhere(one["mask"]), one["box"]
    assert (box["ymin"], box["xmin"]) == tuple(inside.min(0))
    assert (box["ymax"], box["xmax"]) == tuple(inside.max(0) + 1)
    # The map is kept for the next prompt of the same picture, and made anew for another.
    kept = model.kept_image
    both = pipe(image, points=[[[20, 10]], [[5, 5], [9, 9]]], labels=[[1], [1, 0]])
    assert model.kept_image is kept and len(both) == 2
    np.testing.assert_array_equal(both[0]["mask"], one["mask"])
    every = pipe(image, points=[[20, 10]], all=True)
    assert len(every) == 3 and every[0]["score"] >= every[1]["score"] >= every[2]["score"]
    assert len(pipe(image[::-1], boxes=[[2, 2, 30, 20], [5, 5, 9, 9]])) == 2
    assert model.kept_image is not kept
    # The first mask of the model, at the size of the picture.
    given = model.processor([image], device)
    tall, wide = model.processor.target(30, 44)
    with rl.no_grad():
        embedded = model.maps(given)
        masks, scores = model.masks(
            embedded,
            rl.tensor([[[20.0 * wide / 44, 10.0 * tall / 30]]], device=device),
            rl.tensor([[1]], device=device),
        )
    best = int(scores[0, 1:].argmax()) + 1
    assert one["score"] == pytest.approx(float(scores[0, best]), rel=1e-4)


def test_masks_without_prompts_are_apart(vision: ModuleType, seen: ModuleType) -> None:
    pipe = rl.pipeline("mask-generation", seen.tiny("sam", vision))
    found = pipe(_picture(), grid=3, threshold=0.0, stability=0.0)
    assert found and all(row["mask"].shape == (30, 44) for row in found)
    assert [row["score"] for row in found] == sorted((r["score"] for r in found), reverse=True)
    assert pipe(_picture(), grid=2, threshold=1.0, stability=1.0) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"points": [[1, 2, 3]]}, "points .* are no rows of 2 numbers"),
        ({"points": [[1, 2, 3, 4]]}, "points .* are no rows of 2 numbers"),
        ({"points": [[1, 2], [3]]}, "points .* are no rows of 2 numbers"),
        ({"points": [[1, 2]], "labels": [1, 0]}, "labels .* do not fit the points"),
        ({"points": [[1, 2]], "labels": []}, "labels .* do not fit the points"),
        ({"points": [[1, 2]], "labels": [7]}, "labels .* do not fit the points"),
        ({"points": [[[1, 2]], [[3, 4]]], "labels": [1, 0]}, "labels .* do not fit the points"),
        (
            {"points": [[[1, 2]], [[3, 4]]], "boxes": [[0, 0, 1, 1]]},
            "2 prompts of points and 1 boxes",
        ),
        ({"boxes": [[1, 2, float("nan"), 4]]}, "boxes .* are no rows of 4 numbers"),
        ({"threshold": 2.0}, "threshold is 2.0; it must be 0 to 1"),
        ({"grid": 500}, "a grid of 500 points a side"),
    ],
)
def test_prompts_that_do_not_fit_are_named(
    given: dict[str, Any], words: str, vision: ModuleType, seen: ModuleType
) -> None:
    with pytest.raises(ValueError, match=words):
        rl.pipeline("mask-generation", seen.tiny("sam", vision))(_picture(), **given)


def test_classes_of_pixels(vision: ModuleType, seen: ModuleType, device: str) -> None:
    small = {
        "image_processor_type": "SegformerImageProcessor",
        "size": {"height": 128, "width": 96},
    }
    file = {"preprocessor_config.json": json.dumps(small).encode()} if device == "webgpu" else {}
    model = seen.tiny("segformer", vision, device, **file)
    found = rl.pipeline("image-segmentation", model)(_picture())
    total = sum(row["mask"].astype(int) for row in found)
    np.testing.assert_array_equal(total, 255)  # every pixel has one class
    counts = [int((row["mask"] > 0).sum()) for row in found]
    assert counts == sorted(counts, reverse=True)
    assert all(0.2 <= row["score"] <= 1 and row["label"] in model.labels for row in found)
    largest = counts[0] / total.size
    few = rl.pipeline("image-segmentation", model)(_picture(), least=largest)
    assert [row["label"] for row in few] == [found[0]["label"]]
    with pytest.raises(ValueError, match="least is 2"):
        rl.pipeline("image-segmentation", model)(_picture(), least=2.0)


@pytest.mark.parametrize("name", ["maskformer", "maskformer-resnet", "mask2former"])
def test_segments_of_queries(name: str, vision: ModuleType, seen: ModuleType, device: str) -> None:
    """The published processor's maps and scores; fuse and overlap too."""
    golden = load_safetensors(seen.DATA / f"{name}.safetensors")
    logits, masks = (golden[key].to(device) for key in ("out", "masks"))
    if name == "mask2former":
        masks = interpolate(masks, size=(384, 384), mode="bilinear")
    labels = tuple(f"LABEL_{i}" for i in range(logits.shape[2] - 1))
    size = vision.SEGMENTS["size"]
    for kind in ("panoptic", "instance"):
        usual = {"subtask": kind, "fuse": "LABEL_0", "threshold": 0.5}
        for i in range(2):
            options = usual | vision.SEGMENTS[kind]
            found = _result(segments(logits[i], masks[i], size, labels, options))
            told = golden[f"{kind}:{i}:told"].tolist()
            wanted = sorted(((score, f"LABEL_{int(label)}") for _, label, score in told))[::-1]
            assert [row["label"] for row in found] == [label for _, label in wanted]
            np.testing.assert_allclose(
                [r["score"] for r in found], [score for score, _ in wanted], rtol=1e-3
            )
            whole = golden[f"{kind}:{i}"].numpy()
            for one in found:
                number = min(told, key=lambda t: abs(t[2] - one["score"]))[0]
                inside = whole[int(number)] if kind == "instance" else whole == number
                np.testing.assert_array_equal(one["mask"] > 0, inside > 0)
    found = interpolate(of_classes(logits, masks), size=size, mode="bilinear").argmax(1)
    np.testing.assert_array_equal(found.cpu().numpy(), golden["semantic"].numpy())


def test_segments_of_a_picture(vision: ModuleType, seen: ModuleType) -> None:
    model = seen.tiny("maskformer", vision)
    pipe, image = rl.pipeline("image-segmentation", model), _picture()
    assert model.processor([image]).shape == (1, 3, 800, 1184)  # of 1173, up to a multiple of 32
    model.processor = rl.image.Processor(size=(64, 96))
    every: Any = {"threshold": 0.0, "mask_overlap": 0.0, "mask_threshold": 0.0}
    found = pipe(image, **every)
    assert found and sum((row["mask"] > 0).astype(int) for row in found).max() <= 1
    assert [r["score"] for r in found] == sorted((r["score"] for r in found), reverse=True)
    whole = pipe(image, subtask="semantic")
    np.testing.assert_array_equal(sum(row["mask"].astype(int) for row in whole), 255)
    one = pipe(image, **every, fuse=list(model.labels))
    assert len(one) == len({row["label"] for row in one})
    assert pipe(image, subtask="instance", threshold=1.0) == []
    with pytest.raises(ValueError, match="fuse: 'sky' is no label"):
        pipe(image, fuse="sky")
    with pytest.raises(ValueError, match="subtask 'stuff' is not supported"):
        pipe(image, subtask="stuff")


@pytest.mark.parametrize("name", ["owlvit", "owlv2"])
def test_objects_that_texts_name(
    name: str, vision: ModuleType, seen: ModuleType, device: str
) -> None:
    tokenizer = {"tokenizer.json": json.dumps(seen.TOKENIZER).encode()}
    model = seen.tiny(name, vision, device, **tokenizer)
    pipe = rl.pipeline("zero-shot-object-detection", model)
    image = _picture()
    found = pipe(image, candidate_labels=["cat", "a dog"], threshold=0.0)
    assert len(found) == 16 and {row["label"] for row in found} <= {"cat", "a dog"}
    assert [row["score"] for row in found] == sorted((r["score"] for r in found), reverse=True)
    box = found[0]["box"]
    assert 0 <= box["xmin"] <= box["xmax"] <= 44 and 0 <= box["ymin"] <= box["ymax"] <= 30
    # OWLv2 sees a square, of which the image is the upper part.
    share = model.processor.place(30, 44)[2:]
    assert share == ((1.0, 30 / 44) if name == "owlv2" else (1.0, 1.0))
    # A label's score does not depend on the others.
    alone = pipe(image, candidate_labels=["cat"], threshold=0.0)
    best = max(row["score"] for row in alone)
    assert best >= max([row["score"] for row in found if row["label"] == "cat"]) - 1e-4
    ids = load_tokenizer(tokenizer["tokenizer.json"]).encode("cat").ids
    with rl.no_grad():
        texts = model.encode_text(rl.tensor([ids], device=device))
        logits = model.ground(model.processor([image], device), texts)[0]
    assert best == pytest.approx(float(logits.sigmoid().max()), rel=1e-3)
    with pytest.raises(ValueError, match="candidate_labels is missing"):
        pipe(image)


def test_a_box_of_several_classes(vision: ModuleType, seen: ModuleType, device: str) -> None:
    model = seen.tiny("rt_detr", vision, device)
    image = np.random.default_rng(4).integers(0, 256, (96, 64, 3), np.uint8)
    found = rl.pipeline("object-detection", model)(image, threshold=0.0)
    with rl.no_grad():
        logits = model.detect(model.processor([image], device))[0]
    scores = np.sort(logits.sigmoid().cpu().numpy().ravel())[::-1][: logits.shape[1]]
    np.testing.assert_allclose([row["score"] for row in found], scores, rtol=1e-3)


def _measured(model: Any) -> Any:
    """The model with the distances that its bins stand for, as every checkpoint has them."""
    weight = model.head.get_submodule("dfl.conv").weight
    with rl.no_grad():
        weight.copy_(rl.arange(16, device=weight.device).float().reshape(weight.shape))
    return model


def test_poses_are_in_the_pixels_of_the_image(
    vision: ModuleType, seen: ModuleType, device: str
) -> None:
    model = _measured(seen.tiny("yolov8-pose", vision, device))
    image = np.random.default_rng(6).integers(0, 256, (50, 30, 3), np.uint8)
    pipe = rl.pipeline("pose-estimation", model)
    found = pipe(image, threshold=0.0, overlap=0.3)
    assert found and all(len(row["keypoints"]) == 5 for row in found)
    assert [row["score"] for row in found] == sorted((r["score"] for r in found), reverse=True)
    # The same places as the model's, whose pixels are the image's 640 / 50 times, with grey beside.
    given = model.processor([image], device)
    assert given.shape == (1, 3, 640, 384)
    with rl.no_grad():
        logits, boxes, points, _ = model.seen(given)
    best = int(logits[0].max(1)[0].argmax())
    x, y = (points[0, best, 0, :2].cpu().numpy() * [384, 640]).tolist()
    shown = found[0]["keypoints"][0]
    assert shown["x"] == pytest.approx((x - 0) * 30 / 384, abs=0.06)
    assert shown["y"] == pytest.approx(y * 50 / 640, abs=0.06)
    left = float(boxes[0, best, 0] - boxes[0, best, 2] / 2) * 30
    assert found[0]["box"]["xmin"] == pytest.approx(max(left, 0), abs=0.06)
    fewer = rl.pipeline("object-detection", model)(image, threshold=0.0, overlap=0.01)
    assert 0 < len(fewer) < len(found)
    with pytest.raises(ValueError, match="overlap is 2.0"):
        pipe(image, overlap=2.0)


def test_masks_of_objects_lie_in_their_boxes(vision: ModuleType, seen: ModuleType) -> None:
    model = _measured(seen.tiny("yolov8-seg", vision))
    image = np.random.default_rng(6).integers(0, 256, (30, 50, 3), np.uint8)
    found = rl.pipeline("image-segmentation", model)(image, threshold=0.03)
    assert found
    for row in found[:20]:
        inside = np.argwhere(row["mask"]) + 0.5
        box = row["box"]
        assert row["mask"].shape == (30, 50) and len(inside)
        assert box["ymin"] <= inside[:, 0].min() + 0.1 and inside[:, 0].max() - 0.1 <= box["ymax"]
        assert box["xmin"] <= inside[:, 1].min() + 0.1 and inside[:, 1].max() - 0.1 <= box["xmax"]


def test_classes_are_those_that_the_file_names(vision: ModuleType, seen: ModuleType) -> None:
    names = ["cat", "dog", "cow", "ape"]
    for told, wanted in ((names, tuple(names)), (names[1:], ("LABEL_0", "LABEL_1"))):
        state = dict(seen.tiny("yolov8", vision).state_dict())
        raw = np.frombuffer(json.dumps(told).encode(), np.uint8).copy()
        found = rl.models.assemble({}, state | {"module:names": rl.from_numpy(raw)})
        assert found.labels[: len(wanted)] == wanted and len(found.labels) == 4


def test_letterboxes_are_grey_and_in_the_middle(vision: ModuleType, seen: ModuleType) -> None:
    model = seen.tiny("yolov8", vision)
    given = model.processor([np.full((100, 155, 3), 255, np.uint8)]).numpy()[0, 0]
    assert given.shape == (416, 640)  # 413 rows, and three of grey
    np.testing.assert_allclose(given[[0, -1]], 114 / 255, rtol=1e-6)
    np.testing.assert_allclose(given[1:-2], 1, rtol=1e-6)
    left, top, width, height = model.processor.place(100, 155)
    assert (left, top) == (0, 1 / 416) and (width, height) == (1, 413 / 416)


def test_results_are_drawn(tmp_path: Path) -> None:
    from PIL import Image

    image = np.full((60, 80, 3), 200, np.uint8)
    mask = np.zeros((60, 80), np.uint8)
    mask[10:20, 10:30] = 255
    rows = [
        {"label": "cat", "score": 0.9, "box": dict(xmin=40.0, ymin=30.0, xmax=70.0, ymax=55.0)},
        {"label": "dog", "score": 0.5, "mask": mask},
        {"label": "cat", "keypoints": [{"x": 5.0, "y": 50.0, "score": 1.0}]},
    ]
    drawn = np.asarray(rl.image.plot(image, rows, names=False)).astype(int)
    assert drawn.shape == image.shape and (image == 200).all()
    changed = (drawn != 200).any(2)
    assert changed[30, 50] and changed[15, 20] and changed[50, 5]
    assert not changed[40, 55] and not changed[25, 35]  # within a box, and outside of all
    np.testing.assert_array_equal(drawn[30, 50], drawn[50, 5])  # the same class, the same color
    assert (drawn[30, 50] != drawn[15, 20]).any()
    depth = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    assert np.asarray(rl.image.plot(image[:3, :4], {"depth": depth})).shape == (3, 4)
    with pytest.raises(TypeError, match="no result of a vision task"):
        rl.image.plot(image, [1, 2])
    path = tmp_path / "picture.png"
    Image.fromarray(image).save(path)
    assert np.asarray(rl.image.plot(path, rows)).shape == image.shape


def test_results_draw_themselves(vision: ModuleType, seen: ModuleType) -> None:
    """They are the lists and dicts that they were, each with the picture that it is of."""
    images = [_picture(), _picture()[::-1]]
    found = rl.pipeline("image-segmentation", seen.tiny("segformer", vision))(images)
    assert isinstance(found, list) and all(isinstance(one, list) for one in found)
    for image, one in zip(images, found, strict=True):
        wanted = np.asarray(rl.image.plot(image, list(one)))
        np.testing.assert_array_equal(np.asarray(one.plot()), wanted)
        assert (np.asarray(one.plot(names=False)) != wanted).any()
        np.testing.assert_array_equal(
            np.asarray(one.plot(image * 0)), np.asarray(rl.image.plot(image * 0, list(one)))
        )
    model = seen.tiny("depth_anything-metric", vision)
    model.processor = rl.image.Processor(size=(24, 24))
    depth = rl.pipeline("depth-estimation", model)(images[0])
    assert depth.plot().size == (44, 30)
    assert isinstance(depth, dict)
    mask = np.zeros((30, 44), np.uint8)
    mask[3, 4] = 200
    cut = np.asarray(rl.image.plot(images[0], {"width": 44, "height": 30, "mask": mask}))
    np.testing.assert_array_equal(cut[..., 3], mask)
    np.testing.assert_array_equal(cut[..., :3], images[0])


def test_masks_on_the_command_line(
    vision: ModuleType, seen: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    seen.tiny("segformer", vision).save_pretrained(tmp_path / "model")
    path = tmp_path / "picture.png"
    Image.fromarray(_picture()).save(path)
    assert run(["see", str(path), "--model", str(tmp_path / "model")]) == 0
    out = capsys.readouterr().out
    assert "LABEL_" in out and "picture-seen.png" in out
    with Image.open(tmp_path / "picture-seen.png") as drawn:
        assert drawn.size == (44, 30)
    assert run(["see", str(path), "--model", str(tmp_path / "model"), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["images"]
    assert np.array(told["value"][0]["mask"]).shape == (30, 44)
