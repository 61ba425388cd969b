"""Every page of the site, by its list: navigation, cards, keyboard, looks; one visit each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rushlight.site.builder.pages import Page, listed

pytestmark = pytest.mark.warm_start

PAGES = listed()
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
COLOUR = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def place(module_serve: Any, site: Path) -> Any:
    """A server of the site."""
    return module_serve(site)


def test_every_folder_is_a_page() -> None:
    folders = {p.name for p in (Path(__file__).parents[2] / "site" / "pages").iterdir()}
    assert folders == {page.folder.name for page in PAGES}
    assert [page.place for page in PAGES][0] == "", "the home page is the first"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.folder.name)
def test_a_visit(
    page: Page, pages: Any, place: Any, site: Path, nameless: Any, breaches: Any
) -> None:
    """What the browser complains about, on the console too, fails the test."""
    shown = pages.open(f"{place.url}{page.place}", viewport={"width": 1280, "height": 900})
    assert shown.title() == page.title
    assert shown.get_attribute('meta[name="description"]', "content") == page.summary
    assert page.foot in shown.inner_text(".foot")

    links = shown.locator("nav a")
    assert links.all_inner_texts() == [other.name for other in PAGES]
    found = links.evaluate_all("(links) => links.map((a) => a.href)")
    assert found == [f"{place.url}{other.place}" for other in PAGES]
    assert shown.locator('[aria-current="page"]').all_inner_texts() == [page.name]
    assert shown.locator("h1").count() == 1

    # The first key reaches the skip link, which leads to what one came for.
    shown.wait_for_function("!document.getElementById('main').inert")
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.className") == "skip"
    shown.keyboard.press("Enter")
    shown.wait_for_function("(hash) => location.hash === hash", arg=f"#{page.focus}")
    if page.focus != "main":
        assert shown.evaluate("document.activeElement.id") == page.focus
    assert nameless(shown) == []
    assert breaches(shown) == []

    if page.model:
        rows = json.loads((site / "models" / "index.json").read_text(encoding="utf-8"))
        offered = [row["name"] for row in rows if page.model.task in row["tasks"]]
        shown.wait_for_function("document.getElementById('model-site').options.length > 0")
        options = shown.locator("#model-site option").all_inner_texts()
        assert options == (offered or ["none on this site"])
        shown.check('input[name="kind"][value="url"]', force=True)
        assert shown.inner_text("#model-note") == page.model.address
        shown.check('input[name="kind"][value="files"]', force=True)
        assert shown.inner_text("#model-note") == page.model.files
        shown.wait_for_function("document.getElementById('adapter').innerText.length > 0")
        assert shown.is_enabled('input[name="device"][value="cpu"]')

    light = shown.evaluate(COLOUR)
    shown.click("#theme")
    assert shown.evaluate(COLOUR) != light
    shown.set_viewport_size({"width": 360, "height": 740})
    assert shown.evaluate(OVERFLOW) <= 0
    assert breaches(shown) == []


def test_nothing_large_is_downloaded_before_it_is_asked_for(
    pages: Any, module_serve: Any, site: Path
) -> None:
    """Pages keep themselves offline; Python, models and libraries come when they are used, once."""
    for page in (p for p in PAGES if p.folder.name in ("chat", "playground", "train")):
        own = module_serve(site)
        shown = pages.context().new_page()
        shown.goto(f"{own.url}{page.place}")
        shown.wait_for_selector('html[data-offline="ready"]')
        asked = [path for method, path, _ in own.mischief.log if method == "GET"]
        large = [
            path
            for path in asked
            if (site / path.strip("/")).is_file()
            and (site / path.strip("/")).stat().st_size > 200_000
        ]
        assert set(large) <= {"/shared/codemirror-view.js"}, page.name
        assert not [path for path in asked if "pyodide" in path or path.endswith(".whl")] or all(
            "pyodide.mjs" in p for p in asked if "pyodide" in p
        )
        shown.context.close()
        own.stop()


def test_what_is_used_is_downloaded_once_and_its_sum_is_told(
    pages: Any, module_serve: Any, site: Path
) -> None:
    own = module_serve(site)
    page = pages.context().new_page()
    page.goto(f"{own.url}search/?device=cpu")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('in all')")
    python = int(page.get_attribute("html", "data-python"))
    files = [p for p in (site / "rushlight").rglob("*") if p.is_file()]
    used = [p for p in files if not p.name.endswith((".d.ts", ".LICENSE", "NOTICE.txt"))]
    assert python == sum(p.stat().st_size for p in used)
    note = page.inner_text("#model-note")
    model = (site / "models" / "tiny" / "manifest.json").read_text(encoding="utf-8")
    sizes = sum(row["size"] for row in json.loads(model)["files"])
    assert f"{python / 1e6:.1f} MB of Python" in note
    assert f"{(python + sizes) / 1e6:.1f} MB in all" in note
    page.wait_for_selector('html[data-offline="ready"]')
    page.fill("#text", "A rush and a little fat.")
    page.click("#go")
    page.wait_for_selector('html[data-state="ready"]')
    page.wait_for_selector('html[data-offline="ready"]')
    for name in ("pyodide.asm.wasm", "python_stdlib.zip", "_wasm32.whl", "model.safetensors"):
        assert len(own.mischief.asked(name)) <= 2 and own.mischief.asked(name), name
    page.reload()
    page.wait_for_function("document.getElementById('model-note').innerText.includes('already')")
    assert "Python" not in page.inner_text("#model-note")


def test_an_address_is_followed_at_the_first_press(pages: Any, place: Any) -> None:
    """What is typed is loaded, or refused in words, by the press that leaves the field."""
    pages.expect("404")
    page = pages.open(f"{place.url}rushlight/NOTICE.txt")
    for name, button in (("chat/", "#load"), ("search/", "#go"), ("inspect/", "#open button")):
        page.goto(f"{place.url}{name}?device=cpu")
        page.wait_for_function("!document.getElementById('main').inert")
        field = "#address" if name == "inspect/" else "#model-url"
        if name != "inspect/":
            page.check('input[name="kind"][value="url"]', force=True)
        if name == "search/":
            page.fill("#text", "A rush.")
        page.locator(field).press_sequentially("/models/none/", delay=5)
        spot = page.locator(button).bounding_box()
        page.mouse.move(spot["x"] + 5, spot["y"] + spot["height"] / 2)
        page.mouse.down()
        page.wait_for_timeout(150)  # as long as a press takes
        page.mouse.up()
        page.wait_for_selector("#error:visible")
        assert page.inner_text("#error").strip(), name


def test_every_page_is_reached_from_its_card(pages: Any, place: Any) -> None:
    home = pages.open(place.url)
    assert home.locator(".page-card strong").all_inner_texts() == [
        page.card.title for page in PAGES if page.card
    ]
    assert [page.place for page in PAGES if not page.card] == [""], "only the home page has none"
    for page in PAGES:
        if page.card:
            home.click(f'.page-card:has(strong:text-is("{page.card.title}"))')
            home.wait_for_url(f"{place.url}{page.place}")
            assert home.title() == page.title
            home.click('nav a:has-text("Home")')
            home.wait_for_url(place.url)
