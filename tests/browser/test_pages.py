"""Every page of the site, by its list: navigation, cards, keyboard, looks; one visit each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rushlight.site.builder.pages import Page, listed

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
def test_a_visit(page: Page, pages: Any, place: Any, site: Path, nameless: Any) -> None:
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


def test_every_page_is_reached_from_its_card(pages: Any, place: Any) -> None:
    home = pages.open(place.url)
    assert home.locator(".page-card strong").all_inner_texts() == [
        page.card.title for page in PAGES if page.card
    ]
    assert [page.place for page in PAGES if not page.card] == [""], "only the home page has none"
    for page in PAGES:
        if page.card:
            home.click(f'.page-card:has-text("{page.card.title}")')
            home.wait_for_url(f"{place.url}{page.place}")
            assert home.title() == page.title
            home.click('nav a:has-text("Home")')
            home.wait_for_url(place.url)
