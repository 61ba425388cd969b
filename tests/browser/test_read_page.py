"""The read page: a picture and a PDF are read with real weights, searched, copied and saved."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.models.hub.names import resolve
from rushlight.models.image.transcripts import jpeg, pdf
from rushlight.site.builder.build import build

pytestmark = pytest.mark.warm_start

MODEL = "pp-ocr-v4"
READ = "document.getElementById('tells').innerText.includes('lines in')"
NOTE = ("Lantern & Sons, chandlers", "12 beeswax candles 18.00", "To pay 29.75")


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with PP-OCR."""
    out = tmp_path_factory.mktemp("readers") / "site"
    build(out, [(MODEL, resolve(MODEL))])
    return out


def pictures(studio: Any) -> None:
    """The sample read, and a word of it found, on a desktop, and dark on a phone."""
    for phone in (False, True):
        scheme = "dark" if phone else "light"
        page = studio.open("read/?device=cpu", phone=phone, color_scheme=scheme)
        page.click("#sample")
        page.click("#go")
        page.wait_for_function(READ, timeout=180_000)
        page.fill("#query", "candles")
        studio.rest(page)
        studio.keep(page, "read-phone-dark" if phone else "read-desktop", whole=phone)


def drawn() -> Any:
    """The module of pages that a script draws."""
    path = Path(__file__).parents[1] / "models" / "written_pages.py"
    spec = spec_from_file_location("written_pages", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_page_is_read(pages: Any, serve: Any, readers: Path, tmp_path: Path) -> None:
    place = serve(readers)
    page = pages.open(f"{place.url}read/?device=cpu", service_workers="allow")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    page.click("#go")
    assert "no picture yet" in page.inner_text("#error")
    page.click("#sample")
    page.click("#go")
    page.wait_for_function(READ, timeout=300_000)
    text = page.inner_text("#text")
    assert all(line.replace(" ", "") in text.replace(" ", "") for line in NOTE), text
    # The words lie over the picture, and are selected as they are read.
    box = page.locator("#words span", has_text="Lantern").first.bounding_box()
    sheet = page.locator("#picture").bounding_box()
    assert sheet["y"] < box["y"] < sheet["y"] + sheet["height"] / 3
    page.evaluate("getSelection().selectAllChildren(document.getElementById('words'))")
    assert "To pay" in page.evaluate("getSelection().toString()")
    page.fill("#query", "beeswax candles")
    assert page.inner_text("#hits") == "1 found" and page.locator("#words .hit").count() == 2

    saved = {}
    for button in ("as-text", "as-hocr", "as-pdf"):
        with page.expect_download() as download:
            page.click(f"#{button}")
        saved[download.value.suggested_filename] = Path(download.value.path()).read_bytes()
    assert "To pay" in saved["sample.txt"].decode()
    assert b"ocrx_word" in saved["sample.hocr.html"]
    assert saved["sample.pdf"].startswith(b"%PDF-") and b"DCTDecode" in saved["sample.pdf"]

    # A PDF of two pages, of which the second is turned; and a file that is neither.
    module = drawn()
    image, said = module.screenshot()
    upright = np.asarray(image.convert("RGB"))
    turned = np.ascontiguousarray(np.rot90(upright))
    leaves = [
        {"width": one.shape[1], "height": one.shape[0], "rotation": 0, "lines": [], "text": ""}
        for one in (upright, turned)
    ]
    scan = tmp_path / "scan.pdf"
    scan.write_bytes(pdf(leaves, [jpeg(upright), jpeg(turned)]))
    page.set_input_files("#file", str(scan))
    first = "document.getElementById('number').innerText === 'Page 1 of 2'"
    page.wait_for_function(f"{first} && {READ}", timeout=300_000)
    assert module.error_rate(said, page.inner_text("#text")) < 0.03
    page.click("#after")
    turned_ = "document.getElementById('tells').innerText.includes('turned')"
    page.wait_for_function(f"{turned_} && {READ}", timeout=300_000)
    assert module.error_rate(said, page.inner_text("#text")) < 0.03
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    page.set_input_files("#file", str(broken))
    page.wait_for_function("!document.getElementById('error').hidden")
    assert "is no picture" in page.inner_text("#error")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert rl.models.load(MODEL).tasks == ("ocr",)
