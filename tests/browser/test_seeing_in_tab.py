"""Boxes, depths and labels in a tab: the pipelines of a page give what those of a process give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.warm_start

RUN = """async ([models, [width, height, values]]) => {
  const { createRushlight } = await import("/rushlight/client.js");
  const rl = await createRushlight();
  const image = new ImageData(Uint8ClampedArray.from(values), width, height);
  const found = {};
  for (const [task, url, options] of models) {
    const see = await rl.pipeline(task, url, { device: "cpu" });
    const told = await see(image, options);
    found[task] = told.depth ? { ...told, depth: [...told.depth] } : told;
    found[`${task} twice`] = (await see([image, image], options)).length;
    await see.model.dispose();
  }
  return found;
}"""
LABELS = ["a cat", "a dog", "photo"]


def test_boxes_depths_and_labels(pages: Any, serve: Any, own_site: Path, tiny_vision: Any) -> None:
    draw = np.random.default_rng(8)
    small = draw.integers(0, 256, (3, 4, 3), dtype=np.uint8)
    image = np.kron(small, np.ones((25, 21, 1), np.uint8)).astype(np.uint8)
    things = [("cup", 0.9, (0.1, 0.2, 0.5, 0.6)), ("jug", 0.6, (0.3, 0.4, 0.9, 0.95))]
    folder = own_site / "models"
    detr = tiny_vision.detector(folder / "detr", image, things)
    depth = tiny_vision.save("depth_anything", folder / "depth")
    clip = tiny_vision.save("clip", folder / "clip", words=True)
    rows = [
        ["object-detection", "/models/detr/", {"threshold": 0.4}],
        ["depth-estimation", "/models/depth/", {}],
        ["zero-shot-image-classification", "/models/clip/", {"candidateLabels": LABELS}],
    ]
    page = pages.open(f"{serve(own_site).url}rushlight/NOTICE.txt")
    pages.expect("404")  # of the folders' files that are missing
    clear = np.concatenate([image, np.full((*image.shape[:2], 1), 255, np.uint8)], 2)
    found = page.evaluate(RUN, [rows, [image.shape[1], image.shape[0], clear.ravel().tolist()]])

    wanted = rl.pipeline("object-detection", detr)(image, threshold=0.4)
    assert [row["label"] for row in wanted] == ["cup", "jug"]
    for one, other in zip(found["object-detection"], wanted, strict=True):
        assert one["label"] == other["label"]
        np.testing.assert_allclose(one["score"], other["score"], atol=2e-3)
        np.testing.assert_allclose([*one["box"].values()], [*other["box"].values()], atol=0.3)
    wanted = rl.pipeline("depth-estimation", depth)(image)
    told = found["depth-estimation"]
    assert (told["width"], told["height"]) == (84, 75) == wanted["depth"].shape[::-1]
    np.testing.assert_allclose(
        told["depth"], wanted["depth"].ravel(), atol=1e-3 * np.abs(wanted["depth"]).max()
    )
    wanted = rl.pipeline("zero-shot-image-classification", clip)(image, candidate_labels=LABELS)
    told = found["zero-shot-image-classification"]
    assert [row["label"] for row in told] == [row["label"] for row in wanted]
    np.testing.assert_allclose([r["score"] for r in told], [r["score"] for r in wanted], rtol=1e-3)
    assert [found[f"{task} twice"] for task, _, _ in rows] == [2, 2, 2]
