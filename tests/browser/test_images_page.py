"""The images page: classes, labels and likeness as a process gives them, the camera, odd files."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rushlight as rl

pytestmark = pytest.mark.warm_start

Array = npt.NDArray[np.uint8]
PIXELS = """() => {
  const canvas = document.getElementById("picture");
  const seen = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const packed = seen.data.reduce((all, byte) => all + String.fromCharCode(byte), "");
  return [seen.width, seen.height, btoa(packed)];
}"""
BARS = """() => [...document.querySelectorAll("#classes li")].map((row) =>
  [row.firstChild.textContent, Number(getComputedStyle(row).getPropertyValue("--score"))])"""
TILES = """() => [...document.querySelectorAll("#tiles li")].map((row) =>
  [row.querySelector("span").title, Number(row.querySelector("output")?.textContent)])"""
# Clicks Stop early in reading.
STOPS = """() => {
  const detail = document.getElementById("detail");
  new MutationObserver((_, own) => {
    if (!/^([2-9]|1\\d) of/.test(detail.textContent)) return;
    own.disconnect();
    document.getElementById("stop").click();
  }).observe(detail, { childList: true });
}"""
PROJECT = """async (rows) => {
  const { project } = await import("./projection.js");
  return project(rows.map((row) => Float32Array.from(row)));
}"""
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"


def pictures(studio: Any) -> None:
    """The sample's classes and the samples' map, on a desktop, and dark on a phone."""
    for phone, name in ((False, "images-desktop"), (True, "images-phone-dark")):
        page = studio.open(
            "images/?device=cpu", phone=phone, color_scheme="dark" if phone else "light"
        )
        page.set_default_timeout(180_000)
        page.wait_for_function("document.getElementById('model-site').options.length > 0")
        page.click("#sample")
        page.click("#go")
        page.wait_for_function("document.querySelectorAll('#classes output').length === 5")
        page.click("#samples")
        page.click("#read:enabled")
        page.wait_for_function("document.getElementById('count').innerText.includes('12 compared')")
        ready(page)
        page.click('#tiles button:has-text("boat-day")')
        page.evaluate("document.getElementById('status').hidden = true")
        studio.rest(page)
        studio.keep(page, name, whole=True)


def ready(page: Any) -> None:
    page.wait_for_function("document.documentElement.dataset.state === 'ready'", timeout=180_000)


def act(page: Any, *, click: str) -> None:
    """Click, and wait for the end of the job that it starts."""
    before = page.evaluate("document.documentElement.dataset.round")
    page.click(click)
    page.wait_for_function(
        "(before) => document.documentElement.dataset.round !== before", arg=before
    )
    ready(page)


def choose(page: Any, folder: Path) -> None:
    """Choose a model by its files."""
    page.check("input[name=kind][value=files]", force=True)
    page.set_input_files("#model-files", [str(file) for file in sorted(folder.iterdir())])
    page.wait_for_function("document.getElementById('model-note').innerText.includes('device')")


def shown(page: Any) -> Array:
    width, height, values = page.evaluate(PIXELS)
    return np.frombuffer(b64decode(values), np.uint8).reshape(height, width, 4)[:, :, :3]


def agree(found: Sequence[Any], wanted: Sequence[dict[str, Any]]) -> None:
    """The page's rows have the labels and scores of a process."""
    assert [label for label, _ in found] == [row["label"] for row in wanted]
    np.testing.assert_allclose([s for _, s in found], [r["score"] for r in wanted], rtol=2e-3)


def blocks(count: int, seed: int = 5) -> list[Array]:
    """Pictures of a few large blocks each."""
    draw = np.random.default_rng(seed)
    small = draw.integers(0, 256, (count, 3, 4, 3), dtype=np.uint8)
    return [np.kron(one, np.ones((20, 16, 1), np.uint8)).astype(np.uint8) for one in small]


def test_a_visit(filmed: Any, serve: Any, site: Path, tiny_vision: Any, tmp_path: Path) -> None:
    from PIL import Image

    seer = tiny_vision.save("resnet", tmp_path / "resnet")
    still = np.kron(blocks(1)[0], np.ones((8, 10, 1), np.uint8)).astype(np.uint8)  # 640 x 480
    pages, place = filmed(still), serve(site)
    page = pages.open(f"{place.url}images/?device=cpu", service_workers="allow")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('without')")
    page.click("#go")
    assert "no picture yet" in page.inner_text("#error")

    # Classes, by files of the visitor's own.
    choose(page, tmp_path / "resnet")
    page.click("#sample")
    page.wait_for_function("document.getElementById('tells').innerText === '640 × 480 pixels'")
    act(page, click="#go")
    classify = rl.pipeline("image-classification", seer)
    agree(page.evaluate(BARS), classify(shown(page), top_k=5))

    # The camera: refused, then allowed. Its picture is looked at by itself.
    page.click("#camera")
    page.wait_for_function("document.getElementById('error').innerText.includes('refused')")
    page.context.grant_permissions(["camera"])
    page.click("#retry")
    page.wait_for_function("document.getElementById('camera').innerText === 'Take it'")
    page.wait_for_function("document.getElementById('video').videoWidth > 0")
    act(page, click="#camera")
    assert not page.is_visible("#error") and not page.is_visible("#video")
    taken = shown(page)
    assert np.abs(taken[30::60, 30::60].astype(int) - still[30::60, 30::60]).max() < 12
    agree(page.evaluate(BARS), classify(taken, top_k=5))

    # Files: one that is no picture, a huge one, a choice that is given up.
    (tmp_path / "broken.png").write_bytes(b"no picture")
    page.set_input_files("#file", str(tmp_path / "broken.png"))
    page.wait_for_function("document.getElementById('error').innerText.includes('is no picture')")
    Image.new("RGB", (20_000, 300), "red").save(tmp_path / "huge.png")
    page.set_input_files("#file", str(tmp_path / "huge.png"))
    page.wait_for_function("document.getElementById('tells').innerText.includes('2048 × 31')")
    ready(page)
    page.set_input_files("#file", [])
    assert "2048 × 31" in page.inner_text("#tells")

    # A folder: what is in it, a stop, the rest, and likeness.
    folder = tmp_path / "folder"
    folder.mkdir()
    images = blocks(24)
    for i, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{i:02}.png")
    (folder / "notes.txt").write_text("no picture")
    (folder / "broken.jpg").write_bytes(b"no picture either")
    page.set_input_files("#folder", str(folder))
    page.wait_for_function("document.getElementById('count').innerText.startsWith('25 pictures')")
    assert "as they are no pictures: 1." in page.inner_text("#count")
    page.evaluate(STOPS)
    act(page, click="#read")
    assert 0 < page.locator("#map button").count() < 24
    act(page, click="#read")
    assert "24 compared. 1 could not be read: folder/broken.jpg" in page.inner_text("#count")
    assert page.locator("#map button").count() == page.locator("#tiles button").count() == 24
    vectors = rl.pipeline("image-feature-extraction", seer)([*images, shown(page)]).numpy()
    for chosen, click in ((3, '#tiles button[data-index="3"]'), (24, "#like")):
        act(page, click=click) if chosen == 24 else page.click(click)
        found = page.evaluate(TILES)
        likeness = vectors[:24] @ vectors[chosen]
        np.testing.assert_allclose([s for _, s in found], np.sort(likeness)[::-1], atol=0.006)
        names = [int(name.removesuffix(".png")[-2:]) for name, _ in found]
        gaps = np.diff(likeness[names])
        assert len({*names}) == 24 and gaps.max() < 1e-4, "in the order of a process"

    # The map by the keyboard: arrows move, Enter compares.
    page.focus('#map button[tabindex="0"]')
    before = page.evaluate("document.activeElement.dataset.index")
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    chosen = page.evaluate("document.activeElement.dataset.index")
    assert page.locator('#map [aria-pressed="true"]').get_attribute("data-index") == chosen
    assert page.evaluate(TILES)[0][0].endswith(f"{int(chosen):02}.png") and before is not None
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate(OVERFLOW) <= 0

    # Labels: refused by this model, compared by another.
    assert page.is_hidden("#compare"), "no model of this site reads words"
    page.click("#own summary")
    page.click("#compare")
    assert "no labels yet" in page.inner_text("#error")
    page.fill("#labels", "a cat, a dog, photo")
    act(page, click="#compare")
    assert "zero-shot-image-classification" in page.inner_text("#error")
    reader = tiny_vision.save("clip", tmp_path / "clip", words=True)
    choose(page, tmp_path / "clip")
    act(page, click="#compare")
    zero = rl.pipeline("zero-shot-image-classification", reader)
    agree(page.evaluate(BARS), zero(shown(page), candidate_labels=["a cat", "a dog", "photo"]))
    page.click("#clear")
    assert not page.is_visible("#alike")

    # Without a network, from what the browser kept.
    page.wait_for_selector('html[data-offline="ready"]', state="attached")
    place.stop()
    pages.expect("ERR_")
    page.reload()
    choose(page, tmp_path / "resnet")
    page.click("#sample")
    act(page, click="#go")
    agree(page.evaluate(BARS), classify(shown(page), top_k=5))


def test_places_are_principal_components(pages: Any, serve: Any, site: Path) -> None:
    page = pages.open(f"{serve(site).url}images/")
    draw = np.random.default_rng(4)
    flat = np.array([[0, 0], [6, 1], [3, 4], [1, 3], [5, -3.0]])
    turn = np.linalg.qr(draw.normal(size=(7, 7)))[0][:2]
    rows = (flat @ turn + 0.01 * draw.normal(size=(5, 7))).astype(np.float32)
    found = np.array(page.evaluate(PROJECT, rows.tolist()))
    centered = (rows - rows.mean(0)).astype(np.float64)
    axes = np.linalg.svd(centered)[2][:2]
    axes *= np.sign(axes[np.arange(2), np.abs(axes).argmax(1)])[:, None]
    wanted = centered @ axes.T
    wanted = (wanted - wanted.min(0)) / np.ptp(wanted, axis=0)
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    # Equal pictures lie beside each other, in the middle.
    same = np.array(page.evaluate(PROJECT, [[1.0, 0.0]] * 2))
    assert np.abs(same - 0.5).max() < 0.1 and np.abs(same[0] - same[1]).max() > 0.01
