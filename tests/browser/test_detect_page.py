"""The detect page: boxes, poses and masks as a process finds them; the camera and a video live."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl
from rushlight.models.hub.names import resolve
from rushlight.site.builder.build import build

pytestmark = pytest.mark.warm_start

Array = npt.NDArray[np.uint8]
PIXELS = """(id) => {
  const canvas = document.getElementById(id);
  const seen = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const packed = seen.data.reduce((all, byte) => all + String.fromCharCode(byte), "");
  return [seen.width, seen.height, btoa(packed)];
}"""
SAMPLE = """async () => {
  const { pixelsOf } = await import("../shared/opening/picture.js");
  const seen = await pixelsOf(await (await fetch("../shared/coffee.png")).blob());
  const packed = seen.data.reduce((all, byte) => all + String.fromCharCode(byte), "");
  return [seen.width, seen.height, btoa(packed)];
}"""
FOUND = """() => [...document.querySelectorAll("#found button")].map((row) =>
  [row.childNodes[1].textContent, row.querySelector("output").textContent, row.title])"""
COLORS = """() => Object.fromEntries([...document.querySelectorAll("#found button")].map((row) => {
  const { backgroundColor } = getComputedStyle(row.querySelector(".swatch"));
  return [row.childNodes[1].textContent, backgroundColor];
}))"""
LEAST = """(value) => {
  const slider = document.getElementById("threshold");
  slider.value = value;
  for (const name of ["input", "change"]) slider.dispatchEvent(new Event(name));
}"""
# A video of a moving square, recorded by the browser itself.
DROP = """async () => {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [160, 120];
  const pen = canvas.getContext("2d");
  const recorder = new MediaRecorder(canvas.captureStream(20), { mimeType: "video/webm" });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  recorder.start();
  for (let i = 0; i < 20; i += 1) {
    pen.fillStyle = "white";
    pen.fillRect(0, 0, 160, 120);
    pen.fillStyle = "navy";
    pen.fillRect(4 * i, 40, 40, 40);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await new Promise((resolve) => { recorder.onstop = resolve; recorder.stop(); });
  const given = new DataTransfer();
  given.items.add(new File(parts, "square.webm", { type: "video/webm" }));
  document.getElementById("drop").dispatchEvent(new DragEvent("drop", { dataTransfer: given }));
}"""
# To a frame that is not the one at which the video was paused.
SEEK = """(() => {
  const video = document.getElementById("video");
  video.currentTime = video.currentTime > 0.4 ? 0.1 : 0.6;
})()"""
# Of the sample: shares of the picture's sides.
THINGS = (
    ("flame", 0.97, (0.445, 0.1, 0.555, 0.295)),
    ("candle", 0.93, (0.44, 0.29, 0.56, 0.72)),
    ("holder", 0.71, (0.31, 0.67, 0.69, 0.9)),
    ("shadow", 0.3, (0.1, 0.1, 0.2, 0.2)),
)


def pictures(studio: Any) -> None:
    """The sample with what the site's detector finds, on a desktop, and dark on a phone."""
    for phone, name in ((False, "detect-desktop"), (True, "detect-phone-dark")):
        page = studio.open(
            "detect/?device=cpu", phone=phone, color_scheme="dark" if phone else "light"
        )
        page.set_default_timeout(180_000)
        page.wait_for_function("document.getElementById('model-note').innerText.length > 9")
        page.click("#sample")
        act(page, click="#go")
        studio.rest(page)
        studio.keep(page, name, whole=phone)


def rgba(packed: list[Any]) -> Array:
    width, height, values = packed
    return np.frombuffer(b64decode(values), np.uint8).reshape(height, width, 4)


def rgb(packed: list[Any]) -> Array:
    return rgba(packed)[:, :, :3]


def ready(page: Any) -> None:
    page.wait_for_function("document.documentElement.dataset.state === 'ready'", timeout=180_000)


def act(page: Any, *, click: str = "", run: Any = None) -> None:
    """Click, or run something, and wait for the end of the job that it starts."""
    before = page.evaluate("document.documentElement.dataset.round")
    run() if run else page.click(click)
    page.wait_for_function(
        "(before) => document.documentElement.dataset.round !== before", arg=before
    )
    ready(page)


def choose(page: Any, folder: Path) -> None:
    """Choose a model by its files."""
    page.check("input[name=kind][value=files]", force=True)
    page.set_input_files("#model-files", [str(file) for file in sorted(folder.iterdir())])
    page.wait_for_function("document.getElementById('model-note').innerText.includes('device')")


def frames(page: Any, count: int, run: str = "") -> None:
    """Run something, and wait until so many more frames were looked at since then."""
    before = int(page.evaluate("document.documentElement.dataset.frames ?? 0"))
    if run:
        page.evaluate(run)
    page.wait_for_function(
        "(more) => Number(document.documentElement.dataset.frames ?? 0) >= more",
        arg=before + count,
    )


def agree(page: Any, wanted: list[dict[str, Any]]) -> None:
    """The page lists what a process finds: classes, percents, places in the picture's pixels."""
    found = page.evaluate(FOUND)
    assert [label for label, _, _ in found] == [row["label"] for row in wanted]
    for (_, percent, place), row in zip(found, wanted, strict=True):
        assert abs(int(percent.split()[0]) - 100 * row["score"]) < 1.01
        numbers = [int(number) for number in re.findall(r"\d+", place)]
        np.testing.assert_allclose(numbers, [*row.get("box", {}).values()], atol=1)


def test_a_visit(filmed: Any, serve: Any, site: Path, tiny_vision: Any, tmp_path: Path) -> None:
    from PIL import Image

    flat = np.full((480, 640, 3), 90, np.uint8)
    flat[100:300, 200:400] = (200, 120, 40)
    pages, place = filmed(flat), serve(site)
    page = pages.open(f"{place.url}detect/?device=cpu")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('without')")
    assert page.is_hidden("#bring"), "this site was built without the model that it tells of"
    page.click("#go")
    assert "no picture yet" in page.inner_text("#error")
    page.click("#sample")
    page.wait_for_function("document.getElementById('tells').innerText.length > 0")
    act(page, click="#go")
    assert "No model is chosen" in page.inner_text("#error")
    page.check("input[name=kind][value=url]", force=True)
    hub = page.locator(".hub button").all_inner_texts()
    assert "hustvl/yolos-tiny, 26 MB" in hub

    # Boxes of the sample.
    sample = rgb(page.evaluate(SAMPLE))
    detr = tiny_vision.detector(tmp_path / "detr", sample, THINGS)
    detect = rl.pipeline("object-detection", detr)
    choose(page, tmp_path / "detr")
    act(page, click="#go")
    wanted = detect(sample)
    assert [row["label"] for row in wanted] == ["flame", "candle", "holder"]
    agree(page, wanted)
    assert page.inner_text("#tells") == "600 × 400 pixels: flame, candle, holder"
    drawn, colors = rgb(page.evaluate(PIXELS, "drawing")), page.evaluate(COLORS)
    assert drawn.shape == sample.shape, "in the picture's own pixels"
    for label, _, (left, top, right, below) in THINGS[1:3]:
        color = [int(part) for part in re.findall(r"\d+", colors[label])]
        middle = (top + below) / 2
        for x, y in ((left, middle), (right, middle), ((left + right) / 2, below)):
            around = drawn[
                round(400 * y) - 1 : round(400 * y) + 2, round(600 * x) - 1 : round(600 * x) + 2
            ]
            assert np.abs(around.astype(int) - color).max(2).min() < 12, (label, x, y)
    assert len(set(colors.values())) == 3

    # The least score: what is known is hidden, what is not known is asked for.
    page.evaluate(LEAST, "0.75")
    assert [row[0] for row in page.evaluate(FOUND)] == ["flame", "candle"]
    act(page, run=lambda: page.evaluate(LEAST, "0.2"))
    assert [row[0] for row in page.evaluate(FOUND)] == ["flame", "candle", "holder", "shadow"]
    agree(page, detect(sample, threshold=0.2))
    page.click('#classes button:has-text("candle")')
    assert [row[0] for row in page.evaluate(FOUND)] == ["flame", "holder", "shadow"]
    assert page.evaluate("document.activeElement.textContent") == "candle"
    page.keyboard.press("Enter")
    assert len(page.evaluate(FOUND)) == 4
    before = page.evaluate(PIXELS, "drawing")
    page.focus("#found li:nth-child(2) button")
    assert page.evaluate(PIXELS, "drawing") != before, "the others fade"
    with page.expect_download() as download:
        page.click("#save")
    with Image.open(download.value.path()) as saved:
        assert saved.size == (600, 400)

    # The camera: refused, then live until it is stopped.
    page.click("#camera")
    page.wait_for_function("document.getElementById('error').innerText.includes('refused')")
    page.context.grant_permissions(["camera"])
    page.click("#retry")
    frames(page, 3)
    assert re.fullmatch(r"[\d.]+ frames per second, .* each", page.inner_text("#rate"))
    act(page, click="#stop")
    seen = rgb(page.evaluate(PIXELS, "picture"))
    assert np.abs(seen[20::40, 20::40].astype(int) - flat[20::40, 20::40]).max() < 16
    agree(page, detect(seen, threshold=0.2))
    assert page.is_visible("#video")
    page.click("#camera")
    page.wait_for_function("document.getElementById('camera').innerText === 'Camera'")
    assert not page.is_visible("#video")

    # A video that is dropped, frame by frame; and what is none.
    page.evaluate(DROP)
    frames(page, 3)
    page.click("#play")
    page.wait_for_function("document.getElementById('play').innerText === 'Play'")
    frames(page, 1, SEEK)
    act(page, click="#stop")
    assert rgb(page.evaluate(PIXELS, "picture")).shape == (120, 160, 3)
    for name, words in (("broken.webm", "no video"), ("broken.png", "broken.png (")):
        (tmp_path / name).write_bytes(b"neither")
        page.set_input_files("#file", str(tmp_path / name))
        page.wait_for_function(f"document.getElementById('error').innerText.includes('{words}')")
    Image.new("RGB", (20_000, 500), "red").save(tmp_path / "huge.png")
    act(page, run=lambda: page.set_input_files("#file", str(tmp_path / "huge.png")))
    assert "2048 × 51" in page.inner_text("#tells")

    # Poses, or the boxes of the same model; classes per pixel, which have no threshold.
    page.evaluate(LEAST, "0.55")
    model = tiny_vision.save("yolov8-pose", tmp_path / "pose")
    choose(page, tmp_path / "pose")
    act(page, click="#sample")
    wanted = rl.pipeline("pose-estimation", model)(sample, threshold=0.55, top_k=100)
    assert wanted and page.locator("#kinds label").all_inner_texts() == ["Poses", "Boxes"]
    agree(page, wanted)
    act(page, run=lambda: page.check("input[value=object-detection]", force=True))
    agree(page, wanted)
    model = tiny_vision.save("segformer", tmp_path / "segformer", small=True)
    choose(page, tmp_path / "segformer")
    act(page, click="#go")
    agree(page, rl.pipeline("image-segmentation", model)(sample))
    drawn = rgba(page.evaluate(PIXELS, "drawing"))
    assert drawn.shape == (400, 600, 4)
    assert (drawn[:, :, 3] > 100).all() and page.is_disabled("#threshold")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0

    # A model that finds nothing.
    tiny_vision.save("resnet", tmp_path / "resnet")
    choose(page, tmp_path / "resnet")
    act(page, click="#go")
    assert "finds no things" in page.inner_text("#error")


@pytest.mark.parametrize("where", ["cpu", "webgpu"])
def test_the_detector_of_the_site_works(pages: Any, serve: Any, tmp_path: Path, where: str) -> None:
    """darknet's files become a checkpoint when the site is built, and find the same."""
    build(tmp_path / "site", [("yolov3-tiny", resolve("yolov3-tiny"))])
    page = pages.open(f"{serve(tmp_path / 'site').url}detect/?device={where}")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('35.4 MB')")
    page.wait_for_selector("#bring:visible")
    page.click("#sample")
    page.wait_for_function("document.getElementById('tells').innerText.length > 0")
    act(page, click="#go")
    found = rl.pipeline("object-detection", "yolov3-tiny")(
        tmp_path / "site" / "shared" / "coffee.png"
    )
    assert [row["label"] for row in found] == ["cup"]
    agree(page, found)
