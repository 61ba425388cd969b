"""The segment page: a cutout with real weights, points on a tiny Segment Anything, looks."""

from __future__ import annotations

import io
import json
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

CUT = "u2netp"
PIXELS = """(id) => {
  const canvas = document.getElementById(id);
  const seen = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const packed = seen.data.reduce((all, byte) => all + String.fromCharCode(byte), "");
  return [seen.width, seen.height, btoa(packed)];
}"""
SAMPLE = """async () => {
  const { sample } = await import("../shared/opening/picture.js");
  const seen = sample();
  const packed = seen.data.reduce((all, byte) => all + String.fromCharCode(byte), "");
  return [seen.width, seen.height, btoa(packed)];
}"""
Array = npt.NDArray[np.uint8]


def pixels(told: list[Any]) -> Array:
    width, height, values = told
    return np.frombuffer(b64decode(values), np.uint8).reshape(height, width, 4)


@pytest.fixture(scope="module")
def cutters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with U2-Net."""
    out = tmp_path_factory.mktemp("cutters") / "site"
    build(out, [(CUT, resolve(CUT))])
    return out


def ready(page: Any) -> None:
    page.wait_for_function("document.documentElement.dataset.state === 'ready'", timeout=180_000)


def pictures(studio: Any) -> None:
    """The sample cut out, on a desktop, and dark on a phone."""
    page = studio.open("segment/?device=cpu")
    page.click("#sample")
    page.click("#go")
    page.wait_for_function("!document.getElementById('save').disabled", timeout=180_000)
    studio.rest(page)
    studio.keep(page, "segment-desktop")
    page.emulate_media(color_scheme="dark")
    studio.keep(page, "segment-dark")
    page = studio.open("segment/?device=cpu", phone=True, color_scheme="dark")
    page.click("#sample")
    page.click("#go")
    page.wait_for_function("!document.getElementById('save').disabled", timeout=180_000)
    studio.rest(page)
    studio.keep(page, "segment-phone-dark", whole=True)


def test_a_picture_is_cut_out(pages: Any, serve: Any, cutters: Path, tmp_path: Path) -> None:
    from PIL import Image

    place = serve(cutters)
    page = pages.open(f"{place.url}segment/?device=cpu", service_workers="allow")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    page.click("#go")
    assert "no picture yet" in page.inner_text("#error")
    page.click("#sample")
    page.wait_for_function("document.getElementById('tells').innerText === '640 × 480 pixels'")
    page.click("#go")
    page.wait_for_function("!document.getElementById('save').disabled", timeout=180_000)
    given = pixels(page.evaluate(SAMPLE))
    wanted = rl.pipeline("background-removal", CUT)(given[:, :, :3])["mask"]
    found = pixels(page.evaluate(PIXELS, "cutout"))
    # A canvas keeps colors by their opacity; this itself is kept.
    off = np.abs(found[:, :, 3].astype(int) - wanted)
    assert off.max() <= 2, f"masks differ by {off.max()}"
    # The candle is in it, and the wall is not.
    assert found[250, 320, 3] > 200 > 60 > found[60, 60, 3]
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "cutout.png"
    with Image.open(io.BytesIO(Path(download.value.path()).read_bytes())) as saved:
        assert saved.size == (640, 480) and saved.mode == "RGBA"

    # Another picture, which the browser turns as its file says; and a file that is none.
    image = Image.fromarray(np.tile(np.arange(90, dtype=np.uint8)[:, None, None], (1, 60, 3)))
    turned = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[274] = 6  # a quarter turn to the right
    image.save(turned, exif=exif)
    page.set_input_files("#file", str(turned))
    page.wait_for_function("document.getElementById('tells').innerText === '90 × 60 pixels'")
    # A new picture begins by itself, as the model is there.
    page.wait_for_function("!document.getElementById('save').disabled")
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    page.set_input_files("#file", str(broken))
    page.wait_for_function("!document.getElementById('error').hidden")
    assert "is no picture" in page.inner_text("#error")
    large = tmp_path / "large.png"
    Image.new("RGB", (5000, 40), "red").save(large)
    page.set_input_files("#file", str(large))
    page.wait_for_function(
        "document.getElementById('tells').innerText === 'Read at 2048 × 16 pixels'"
    )
    page.click("#camera")  # a browser without a camera
    page.wait_for_function("document.getElementById('error').innerText.includes('camera')")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_points_make_masks(
    pages: Any, serve: Any, cutters: Path, tiny_vision: Any, tmp_path: Path
) -> None:
    model = tiny_vision.save("sam", tmp_path / "sam")
    place = serve(cutters)
    page = pages.open(f"{place.url}segment/?device=cpu")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    page.click("#sample")
    page.check("input[name=kind][value=files]", force=True)
    page.set_input_files("#model-files", [str(f) for f in sorted((tmp_path / "sam").iterdir())])
    page.click("#go")
    page.wait_for_function(
        "document.getElementById('tells').innerText.includes('Click')", timeout=180_000
    )
    ready(page)
    assert page.is_visible("#pointing") and page.is_disabled("#save")
    given = pixels(page.evaluate(SAMPLE))[:, :, :3]
    pipe = rl.pipeline("mask-generation", model)

    # By the keyboard: the middle, and two steps down.
    page.focus("#picture")
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_function("!document.getElementById('save').disabled")
    ready(page)
    (wanted,) = pipe(given, points=[[320, 240 + 2 * 0.02 * 480]])
    found = pixels(page.evaluate(PIXELS, "cutout"))[:, :, 3]
    assert (found != wanted["mask"]).mean() < 1e-3

    # By the mouse: a point that is not the thing.
    page.check("input[name=sign][value='0']", force=True)
    box = page.locator("#picture").bounding_box()
    round_ = page.evaluate("document.documentElement.dataset.round")
    page.mouse.click(box["x"] + box["width"] / 4, box["y"] + box["height"] / 4)
    page.wait_for_function(f"document.documentElement.dataset.round !== '{round_}'")
    ready(page)
    (wanted,) = pipe(given, points=[[320, 259.2], [160, 120]], labels=[1, 0])
    found = pixels(page.evaluate(PIXELS, "cutout"))[:, :, 3]
    assert (found != wanted["mask"]).mean() < 0.02  # a click falls between pixels
    page.click("#clear")
    assert page.is_disabled("#save")
    assert json.loads((tmp_path / "sam" / "preprocessor_config.json").read_text())["pad_size"]
