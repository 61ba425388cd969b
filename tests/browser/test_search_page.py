"""The search page: MiniLM end to end, errors and retry, stop, views, export, keyboard, looks."""

from __future__ import annotations

import csv
import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from rushlight.models.hub.names import resolve
from rushlight.site.builder.build import build

pytestmark = pytest.mark.warm_start

DATA = Path(__file__).parent / "data"
PASSAGES = (DATA / "passages.txt").read_text(encoding="utf-8")
GOLDEN: list[dict[str, Any]] = json.loads((DATA / "search.json").read_text(encoding="utf-8"))
TINY = "/models/tiny/model.safetensors"
READY = 'html[data-state="ready"]'


def read(page: Any, text: str) -> None:
    """Have the page read `text` to the end."""
    page.fill("#text", text)
    go(page, "#go")


def go(page: Any, button: str) -> None:
    """Start reading with a button, and wait for its end."""
    before = page.get_attribute("html", "data-round")
    page.click(button)
    page.wait_for_selector(f'{READY}:not([data-round="{before}"])', timeout=120_000)


def ask(page: Any, query: str) -> list[str]:
    """Type a query, press Enter, wait for its ranking; the passages shown, best first."""
    page.fill("#query", query)
    page.press("#query", "Enter")
    page.wait_for_function("(query) => document.documentElement.dataset.query === query", arg=query)
    return list(page.locator("#list li p").all_inner_texts())


def export(page: Any, button: str) -> str:
    with page.expect_download() as download:
        page.click(button)
    return Path(download.value.path()).read_text(encoding="utf-8")


# --- pictures, for screenshots.py ---------------------------------------------------------------


def ask_all(page: Any) -> None:
    """Ask what the page suggests once the sample has been read, the first question last."""
    page.wait_for_selector(f"{READY} #list .score", timeout=400_000)
    for button in page.locator("#suggestions button").all()[::-1]:
        words = button.inner_text()
        button.click()
        page.wait_for_function(
            "(words) => document.documentElement.dataset.query === words", arg=words
        )


def pictures(studio: Any) -> None:
    """The page while it reads, with a ranking and its heat map, and with an error."""
    page = studio.open("search/?device=cpu")
    page.click("#try")
    page.wait_for_function("document.getElementById('detail').innerText.includes('per second')")
    studio.keep(page, "search-reading")
    ask_all(page)
    studio.rest(page)
    studio.keep(page, "search-desktop")
    page.emulate_media(color_scheme="dark")
    studio.keep(page, "search-dark")
    page.click("#tab-map")
    page.click("#map-passages")
    page.hover("#canvas", position={"x": 300, "y": 150})
    studio.keep(page, "heat-map-dark", whole=True)

    page = studio.open("search/?device=cpu", phone=True)
    page.click("#try")
    ask_all(page)
    studio.rest(page, show="ask")
    studio.keep(page, "search-phone")
    page.click("#tab-map")
    studio.keep(page, "heat-map-phone")

    page = studio.open("models/index.json", service_workers="block")
    page.route("**/model.safetensors", lambda route: route.abort())
    page.goto(f"{studio.url}search/?device=cpu")
    page.click("#try")
    page.wait_for_selector("#error", state="visible")
    studio.keep(page, "search-error")

    page = studio.open("search/?device=webgpu")
    studio.resize(page, height=1060)
    page.click("#try")
    ask_all(page)
    studio.rest(page)
    studio.keep(page, "search-webgpu")


# --- the real model -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def minilm_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("minilm") / "site"
    build(out, [("all-minilm-l6-v2", resolve("all-minilm-l6-v2"))])
    return out


def test_real_texts_are_ranked_as_by_the_published_implementation(
    pages: Any, serve: Any, minilm_site: Path
) -> None:
    place = serve(minilm_site)
    page = pages.open(f"{place.url}search/?device=cpu")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    assert "91.3 MB to download" in page.inner_text("#model-note")
    read(page, PASSAGES)
    passages = PASSAGES.strip().split("\n\n")
    assert len(passages) == 40 and len(GOLDEN) == 10
    assert page.inner_text("#count") == "40 passages."
    for golden in GOLDEN:
        assert ask(page, golden["query"])[0] == passages[golden["top"]]
    found = json.loads(export(page, "#json"))
    assert found["model"] == "all-minilm-l6-v2" and found["dim"] == 384
    for golden, query in zip(GOLDEN, found["queries"], strict=True):
        assert query["query"] == golden["query"]
        scores = {row["index"]: row["score"] for row in query["ranking"]}
        assert [scores[i] for i in range(40)] == pytest.approx(golden["scores"], abs=1e-4)
    assert "22.7 M parameters on the CPU, relaxed SIMD" in page.inner_text("#device")
    assert "in this browser already" in page.inner_text("#model-note")

    place.mischief.log.clear()
    page.reload()
    page.wait_for_function("document.getElementById('model-note').innerText.includes('already')")
    read(page, "\n\n".join(passages[:2]))
    asked = {path for _, path, _ in place.mischief.log if path.startswith("/models/")}
    assert asked == {"/models/index.json", "/models/all-minilm-l6-v2/manifest.json"}


def test_on_webgpu_the_scores_are_the_published_ones_too(
    pages: Any, serve: Any, minilm_site: Path
) -> None:
    """The passages that answer a question; after a switch the same questions find the same."""
    place = serve(minilm_site)
    page = pages.open(f"{place.url}search/?device=webgpu")
    page.set_default_timeout(400_000)
    page.wait_for_function("document.getElementById('adapter').innerText.includes('WebGPU')")
    every = PASSAGES.strip().split("\n\n")
    tops = sorted({golden["top"] for golden in GOLDEN})
    page.fill("#text", "\n\n".join(every[i] for i in tops))
    page.click("#go")
    page.wait_for_selector(f"{READY} #list li", timeout=400_000)
    assert not page.is_visible("#error"), page.inner_text("#error")
    assert "22.7 M parameters on WebGPU (google swiftshader)" in page.inner_text("#device")
    for golden in GOLDEN[:4]:
        assert ask(page, golden["query"])[0] == every[golden["top"]]
    found = json.loads(export(page, "#json"))
    for golden, query in zip(GOLDEN, found["queries"], strict=False):
        scores = {row["index"]: row["score"] for row in query["ranking"]}
        expected = [golden["scores"][i] for i in tops]
        assert [scores[i] for i in range(len(tops))] == pytest.approx(expected, abs=1e-4)
    place.mischief.log.clear()
    before = page.get_attribute("html", "data-round")
    page.check('input[name="device"][value="cpu"]', force=True)
    page.wait_for_selector(f'{READY}:not([data-round="{before}"])')
    assert "on the CPU, relaxed SIMD" in page.inner_text("#device")
    assert place.mischief.asked("model.safetensors") == []
    for golden in GOLDEN[4:]:
        assert ask(page, golden["query"])[0] == every[golden["top"]]


# --- errors, retry, stop ------------------------------------------------------------------------


def test_a_broken_download_is_shown_and_retry_asks_for_the_rest(
    pages: Any, serve: Any, site: Path
) -> None:
    place = serve(site)
    size = (site / TINY[1:]).stat().st_size
    place.mischief.cut_after(TINY, cut := size * 2 // 5)
    pages.expect("ERR_CONTENT_LENGTH_MISMATCH")
    page = pages.open(f"{place.url}search/?device=cpu")
    page.fill("#text", "A rush and a little fat.")
    page.click("#go")
    page.wait_for_selector("#error", state="visible")
    assert "connection broke after" in page.inner_text("#error-title")
    assert "only the rest" in page.inner_text("#error-hint")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('still')")
    place.mischief.log.clear()
    go(page, "#retry")
    assert not page.is_visible("#error")
    assert place.mischief.asked("model.safetensors") == [("GET", f"bytes={cut}-")]


def test_the_list_of_models_may_come_late(pages: Any, serve: Any, site: Path) -> None:
    """Reading begins once it is there."""
    place = serve(site)
    place.mischief.hold["/models/index.json"] = listed = threading.Event()
    page = pages.open(f"{place.url}search/?device=cpu")
    page.fill("#text", "A rush and a little fat.")
    page.click("#go")
    listed.set()
    page.wait_for_selector(f"{READY}, #error:not([hidden])")
    assert not page.is_visible("#error"), page.inner_text("#error")


def test_a_damaged_download_is_shown_and_not_kept(pages: Any, serve: Any, site: Path) -> None:
    place = serve(site)
    place.mischief.flip[TINY] = 1_000_000
    page = pages.open(f"{place.url}search/?device=cpu")
    page.fill("#text", "A rush and a little fat.")
    page.click("#go")
    page.wait_for_selector("#error", state="visible")
    assert "not the published ones" in page.inner_text("#error-title")
    place.mischief.flip.clear()
    place.mischief.log.clear()
    go(page, "#retry")
    assert place.mischief.asked("model.safetensors") == [("GET", "")]


LONG = """() => {
  // By script: Playwright types line by line, which takes minutes.
  const text = document.getElementById("text");
  const lines = Array.from({ length: 3000 }, (_, i) => `The king ${i} was in the house.`);
  text.value = lines.join("\\n\\n");
  text.dispatchEvent(new Event("input"));
}"""


def test_a_worker_that_dies_is_shown_and_retry_starts_another(
    pages: Any, serve: Any, site: Path
) -> None:
    page = pages.open(f"{serve(site).url}search/?device=cpu")
    page.evaluate(LONG)
    page.click("#go")
    page.wait_for_function("document.getElementById('detail').innerText.includes('of 3000')")
    page.workers[0].evaluate("() => self.close()")
    page.wait_for_selector("#error", state="visible")
    assert page.inner_text("#error-title") == "the worker has ended"
    page.fill("#text", "A rush and a little fat.")
    go(page, "#retry")
    assert not page.is_visible("#error")
    assert ask(page, "light") == ["A rush and a little fat."]


def test_a_lost_gpu_is_shown_and_the_text_stays_read(pages: Any, serve: Any, site: Path) -> None:
    place = serve(site)
    keep = b"""{
      const { requestDevice } = GPUAdapter.prototype;
      GPUAdapter.prototype.requestDevice = async function (...options) {
        return (self.device = await requestDevice.apply(this, options));
      };
    }
    """
    place.mischief.prepend["/rushlight/worker.js"] = keep
    page = pages.open(f"{place.url}search/?device=webgpu")
    read(page, "A rush and a little fat.\n\nThe king was in the house.")
    page.workers[0].evaluate("() => self.device.destroy()")
    page.fill("#query", "light")
    page.press("#query", "Enter")
    page.wait_for_selector("#error", state="visible")
    assert page.inner_text("#error-title") == "the GPU was lost, and the model with it"
    assert page.inner_text("#retry") == "Reload the model"
    page.click("#retry")
    page.wait_for_function("document.documentElement.dataset.query === 'light'")
    assert not page.is_visible("#error")
    assert page.locator("#list .score").count() == 2
    assert "on WebGPU (google swiftshader)" in page.inner_text("#device")


def test_stop_stops_and_reading_can_start_again(pages: Any, serve: Any, site: Path) -> None:
    page = pages.open(f"{serve(site).url}search/?device=cpu")
    page.evaluate(LONG)
    page.click("#go")
    page.wait_for_function("document.getElementById('detail').innerText.includes('of 3000')")
    go(page, "#stop")
    assert page.inner_text("#phase") == "Stopped."
    assert not page.is_visible("#stop") and not page.is_visible("#error")
    read(page, "A rush and a little fat.")
    assert page.inner_text("#phase") == "1 passage ready"


def test_reading_nothing_says_what_to_do(pages: Any, serve: Any, site: Path) -> None:
    page = pages.open(f"{serve(site).url}search/?device=cpu")
    page.click("#go")
    assert "There is no text yet" in page.inner_text("#error")


# --- one page with a text that has been read ----------------------------------------------------

EVIL = '<img src=x onerror="document.title=1"> <b>bold</b> & "quotes".'
TEXT = f"""# Light

A rush and a little fat is a cheap light.

The whale oil lamp was in the king's house.

{EVIL}

The bee was that glow? The cow was who. {"The miner was in a blue street. " * 20}"""


@pytest.fixture(scope="module")
def ready(module_pages: Any, module_serve: Any, site: Path) -> Any:
    page = module_pages.open(
        f"{module_serve(site).url}search/?device=cpu", viewport={"width": 1280, "height": 900}
    )
    read(page, TEXT)
    return page


def test_passages_are_paragraphs_and_long_ones_are_cut(ready: Any) -> None:
    ready.fill("#query", "")
    ready.wait_for_function("document.querySelectorAll('#list li').length >= 4")
    shown = ready.locator("#list li p").all_inner_texts()
    assert shown[0] == "Light\nA rush and a little fat is a cheap light."
    assert shown[1] == "The whale oil lamp was in the king's house."
    assert len(shown) == 5 and all(len(passage) <= 480 for passage in shown)


def test_text_is_never_html(ready: Any) -> None:
    assert EVIL in ready.locator("#list li p").all_inner_texts()
    assert ready.locator("#list img, #list b").count() == 0
    assert "Rushlight" in ready.title()


def test_typing_ranks_and_marks_without_enter(ready: Any) -> None:
    ready.fill("#query", "")
    ready.type("#query", "whale lamps", delay=20)
    ready.wait_for_function("document.documentElement.dataset.query === 'whale lamps'")
    scores = [float(s) for s in ready.locator("#list .score").all_inner_texts()]
    assert scores == sorted(scores, reverse=True) and len(scores) == 5
    assert set(ready.locator("#list mark").all_inner_texts()) == {"whale", "lamp"}


def test_csv_opens_in_a_spreadsheet(ready: Any) -> None:
    ask(ready, "cheap light")
    content = export(ready, "#csv")
    assert content.startswith("\ufeff")
    rows = list(csv.DictReader(io.StringIO(content.removeprefix("\ufeff"))))
    assert len(rows) == 5 and rows[0]["rank"] == "1"
    assert any(EVIL in row["text (query: cheap light)"] for row in rows)


def test_the_heat_map_shows_and_says_similarities(ready: Any) -> None:
    ask(ready, "cheap light")
    ask(ready, "king")
    ready.click("#tab-map")
    labels = [label.strip() for label in ready.locator("#map-left > span").all_inner_texts()]
    assert labels[-2:] == ["cheap light", "king"]
    ready.hover("#canvas", position={"x": 5, "y": 5})
    score = float(ready.inner_text("#tip strong"))
    assert -1 <= score <= 1
    ready.click("#map-passages")
    ready.hover("#canvas", position={"x": 3, "y": 3})
    assert ready.inner_text("#tip strong") == "1.000"
    pixels = ready.evaluate(
        """() => {
          const canvas = document.getElementById("canvas");
          const at = (x, y) => [...canvas.getContext("2d").getImageData(x, y, 1, 1).data];
          return [at(canvas.width / 2, canvas.height / 2), at(canvas.width - 9, 9)];
        }"""
    )
    assert pixels[0] != pixels[1] and pixels[0][3] == 255
    ready.focus("#canvas")
    ready.keyboard.press("ArrowRight")
    ready.keyboard.press("ArrowDown")
    assert ready.inner_text("#readout").startswith("1.000")
    ready.keyboard.press("Enter")
    assert ready.get_attribute("#tab-results", "aria-selected") == "true"
    assert ready.evaluate("document.activeElement.id") == "passage-1"


def test_by_keyboard_alone(ready: Any) -> None:
    ready.evaluate("document.body.focus(); scrollTo(0, 0)")
    ready.focus(".skip")
    ready.keyboard.press("Enter")
    assert ready.evaluate("document.activeElement.id") == "query"
    ready.keyboard.press("Control+A")
    ready.keyboard.type("glow")
    ready.keyboard.press("Enter")
    ready.wait_for_function("document.documentElement.dataset.query === 'glow'")
    ready.focus("#tab-results")
    ready.keyboard.press("ArrowRight")
    assert ready.evaluate("document.activeElement.id") == "tab-map"
    assert ready.is_visible("#map") and not ready.is_visible("#results")
    ready.keyboard.press("ArrowLeft")
    assert ready.is_visible("#results")


def test_every_control_has_a_name(ready: Any, nameless: Any) -> None:
    assert nameless(ready) == []


@pytest.mark.parametrize("tab", ["#tab-results", "#tab-map"])
def test_a_phone_needs_no_sideways_scrolling(ready: Any, tab: str) -> None:
    ready.set_viewport_size({"width": 360, "height": 740})
    ready.click(tab)
    widths = ready.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    ready.click("#tab-results")
    ready.set_viewport_size({"width": 1280, "height": 900})
    assert widths[0] <= widths[1]


def test_dark_colours_by_system_and_by_switch(ready: Any) -> None:
    def colour() -> str:
        return str(ready.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = colour()
    ready.emulate_media(color_scheme="dark")
    ready.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    dark = colour()
    assert sum(map(int, dark[4:-1].split(","))) < 150 < 600 < sum(map(int, light[4:-1].split(",")))
    ready.click("#theme")
    assert colour() == light
    assert ready.get_attribute("#theme", "aria-pressed") == "false"
    ready.click("#theme")
    assert colour() == dark
    ready.emulate_media(color_scheme="light")
    assert colour() == dark, "what was chosen stays"
    ready.click("#theme")


def test_files_are_read_beside_the_text(ready: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# A lamp\n\nThe gas flame was bright.", encoding="utf-8")
    ready.set_input_files("#files", str(tmp_path / "notes.md"))
    ready.wait_for_selector("#documents li")
    ready.fill("#text", "The bee was in the house.")
    assert ready.inner_text("#count") == "2 passages."
    read(ready, "The bee was in the house.")
    shown = ready.locator("#list li").all_inner_texts()
    assert any("notes.md" in item and "gas flame" in item for item in shown)
    ready.click("#documents button")
    assert ready.inner_text("#count") == "1 passage."


def test_a_model_from_local_files(ready: Any, tiny_model: Path) -> None:
    ready.check('input[name="kind"][value="files"]', force=True)
    ready.set_input_files("#model-folder", str(tiny_model))
    ready.wait_for_function(
        "document.getElementById('model-note').innerText.includes('from this device')"
    )
    read(ready, "A rush and a little fat.")
    assert ready.inner_text("#device").startswith("tiny:")
    assert ask(ready, "candle") == ["A rush and a little fat."]


def test_a_model_from_an_address(ready: Any) -> None:
    ready.check('input[name="kind"][value="url"]', force=True)
    ready.fill("#model-url", "../models/tiny/")
    ready.press("#model-url", "Tab")
    ready.wait_for_function("document.getElementById('model-note').innerText.includes('MB')")
    read(ready, "A rush and a little fat.")
    assert ask(ready, "wax") == ["A rush and a little fat."]
    ready.fill("#model-url", "not a model")
    ready.press("#model-url", "Tab")
    ready.wait_for_function("document.getElementById('model-note').innerText.includes('neither')")
