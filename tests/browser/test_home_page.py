"""The home page: what the machine can do, a measurement, what is kept; its pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.warm_start


def measure(page: Any) -> None:
    """Have the page measure the machine."""
    page.wait_for_selector("html[data-facts]")
    page.click("#measure")
    page.wait_for_function("document.getElementById('measured').innerText.includes('GFLOP/s')")


def pictures(studio: Any) -> None:
    """The page with a measurement, and as it opens in the dark; for screenshots.py."""
    for phone, name in ((False, "home-desktop"), (True, "home-phone")):
        page = studio.open("", phone=phone)
        measure(page)
        studio.rest(page)
        studio.keep(page, name)
    page = studio.open("", color_scheme="dark")
    page.wait_for_selector("html[data-facts]")
    studio.keep(page, "home-dark")


def test_home_says_what_the_machine_can_do(
    pages: Any, serve: Callable[..., Any], site: Path
) -> None:
    page = pages.open(serve(site).url)
    page.wait_for_selector("html[data-facts]")
    facts = dict(
        zip(
            page.locator("#facts dt").all_inner_texts(),
            page.locator("#facts dd > span").all_inner_texts(),
            strict=True,
        )
    )
    assert facts["Computes on"] == "CPU" and facts["JSPI"] == "Yes"
    needs = page.locator(".needs[data-task='feature-extraction']")
    assert "Downloads tiny (2." in needs.inner_text(), "a card says what its page downloads"
    assert re.search(r"and Python \((19|2\d)\.\d MB\)", needs.inner_text()), "with the runtime"
    assert facts["WebAssembly SIMD"] == facts["Relaxed SIMD"] == "Yes"
    assert "swiftshader" in facts["WebGPU"].lower()
    measure(page)
    assert "Python 3.14" in page.inner_text("#measured")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_home_lists_and_removes_what_is_kept(
    pages: Any, serve: Callable[..., Any], site: Path
) -> None:
    place = serve(site)
    page = pages.open(f"{place.url}rushlight/NOTICE.txt")
    page.evaluate(
        """async () => {
          const { createRushlight } = await import("/rushlight/client.js");
          await (await createRushlight()).load("/models/tiny/");
        }"""
    )
    page.goto(place.url)
    page.wait_for_selector("#kept tbody tr")
    assert page.locator("#kept strong").all_inner_texts() == ["tiny"]
    assert "2.5 MB" in page.inner_text("#kept") or "2.4 MB" in page.inner_text("#kept")
    page.once("dialog", lambda dialog: dialog.dismiss())  # it asks first
    page.click('#kept button:has-text("Remove")')
    assert page.locator("#kept strong").all_inner_texts() == ["tiny"]
    page.once("dialog", lambda dialog: dialog.accept())
    page.click('#kept button:has-text("Remove")')
    page.wait_for_function("document.getElementById('kept').innerText.includes('No models yet')")
