"""Drive every page to its finished state and take the pictures that the README shows.

    python tests/browser/screenshots.py [FOLDER]

Writes PNG files into FOLDER (docs/screenshots), with MiniLM and SmolLM2 in the tab: desktop, phone,
and dark; on the CPU, and Search and Chat on WebGPU, too.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from rushlight.core.io.hub import resolve
from rushlight.site.build import build
from rushlight.site.serve import make_server

ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]
DESKTOP = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
MODELS = ("all-minilm-l6-v2", "smollm2-135m-instruct")
QUESTION = "Write a short poem about a candle."


@contextmanager
def served() -> Iterator[str]:
    """A freshly built site on loopback."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "site"
        build(out, [(name, resolve(name)) for name in MODELS])
        server = make_server(out, 0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.address
        server.shutdown()
        server.server_close()


def keep(page: Page, path: Path, *, whole: bool = False) -> None:
    """Save what the page shows, with 256 colours: a third of the bytes, and no visible loss."""
    picture = Image.open(io.BytesIO(page.screenshot(full_page=whole, animations="disabled")))
    small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def home(page: Page, url: str) -> None:
    """The home page, with a measurement."""
    page.goto(url)
    page.wait_for_selector("html[data-facts]")
    page.click("#measure")
    page.wait_for_function("document.getElementById('measured').innerText.includes('GFLOP/s')")
    page.mouse.move(2, 2)


def read_sample(page: Page, url: str, device: str = "cpu") -> None:
    """The search page with the sample read and four questions asked."""
    page.goto(f"{url}search/?device={device}")
    page.click("#try")
    page.wait_for_selector('html[data-state="ready"] #list .score', timeout=400_000)
    for button in page.locator("#suggestions button").all()[::-1]:
        words = button.inner_text()
        button.click()
        page.wait_for_function(
            "(words) => document.documentElement.dataset.query === words", arg=words
        )
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(2, 2)


def talk(page: Page, url: str, device: str = "cpu", longest: int = 100) -> None:
    """The chat page with an answer to a question (the likeliest, so that pictures stay alike)."""
    page.goto(f"{url}chat/?device={device}")
    page.evaluate(
        """(longest) => {
          const form = document.getElementById("settings");
          form.temperature.value = 0;
          form.maxNewTokens.value = longest;
          form.dispatchEvent(new Event("input"));
        }""",
        longest,
    )
    page.fill("#draft", QUESTION)
    page.press("#draft", "Enter")
    page.wait_for_selector('html[data-state="busy"]')
    page.wait_for_selector('html[data-state="ready"] .assistant', timeout=600_000)
    page.wait_for_function("document.getElementById('used-says').innerText.includes('of')")
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(2, 2)


def take(browser: Any, url: str, out: Path) -> None:
    """All pictures."""
    desktop = browser.new_context(viewport=DESKTOP).new_page()
    home(desktop, url)
    keep(desktop, out / "home-desktop.png")
    desktop.goto(f"{url}search/?device=cpu")
    desktop.click("#try")
    desktop.wait_for_function("document.getElementById('detail').innerText.includes('per second')")
    keep(desktop, out / "search-reading.png")
    desktop.wait_for_selector('html[data-state="ready"]', timeout=120_000)
    read_sample(desktop, url)
    keep(desktop, out / "search-desktop.png")
    desktop.emulate_media(color_scheme="dark")
    keep(desktop, out / "search-dark.png")
    desktop.click("#tab-map")
    desktop.click("#map-passages")
    desktop.hover("#canvas", position={"x": 300, "y": 150})
    keep(desktop, out / "heat-map-dark.png", whole=True)
    desktop.goto(url)
    desktop.wait_for_selector("html[data-facts]")
    keep(desktop, out / "home-dark.png")
    desktop.emulate_media(color_scheme="light")
    talk(desktop, url)
    keep(desktop, out / "chat-desktop.png")
    desktop.emulate_media(color_scheme="dark")
    keep(desktop, out / "chat-dark.png")
    desktop.set_viewport_size(PHONE)
    desktop.emulate_media(color_scheme="light")
    desktop.evaluate("document.querySelector('.user').scrollIntoView({ behavior: 'instant' })")
    keep(desktop, out / "chat-phone.png")

    phone = browser.new_context(viewport=PHONE, device_scale_factor=2, has_touch=True).new_page()
    home(phone, url)
    phone.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    keep(phone, out / "home-phone.png")
    read_sample(phone, url)
    phone.evaluate("document.getElementById('ask').scrollIntoView({ behavior: 'instant' })")
    keep(phone, out / "search-phone.png")
    phone.click("#tab-map")
    keep(phone, out / "heat-map-phone.png")

    broken = browser.new_context(viewport=DESKTOP, service_workers="block").new_page()
    broken.route("**/model.safetensors", lambda route: route.abort())
    broken.goto(f"{url}search/?device=cpu")
    broken.click("#try")
    broken.wait_for_selector("#error", state="visible")
    keep(broken, out / "search-error.png")


def timing(page: Page, path: Path) -> None:
    """The Timing panel of a page that has something to show in it."""
    page.wait_for_selector("#timing-found:visible")
    page.evaluate("document.getElementById('panel-timing').scrollIntoView({ behavior: 'instant' })")
    keep(page, path)


def take_webgpu(browser: Any, url: str, out: Path) -> None:
    """Search and Chat on WebGPU, which computes in software here; what takes how long there."""
    page = browser.new_context(viewport={**DESKTOP, "height": 1060}).new_page()
    read_sample(page, url, "webgpu")
    keep(page, out / "search-webgpu.png")
    page.set_viewport_size(DESKTOP)
    talk(page, url, "webgpu", 40)
    keep(page, out / "chat-webgpu.png")
    talk(page, url, "webgpu&timing", 16)
    timing(page, out / "timing-desktop.png")
    page.set_viewport_size(PHONE)
    page.emulate_media(color_scheme="dark")
    timing(page, out / "timing-phone-dark.png")
    page.evaluate("document.getElementById('panel-model').open = true")
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    keep(page, out / "chat-webgpu-phone-dark.png")


def main() -> None:
    """Make the folder and fill it."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "screenshots"
    out.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with served() as url, sync_playwright() as run:
        browser = run.chromium.launch(executable_path=chromium, args=FLAGS)
        take(browser, url, out)
        take_webgpu(browser, url, out)
        browser.close()


if __name__ == "__main__":
    main()
