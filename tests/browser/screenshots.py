"""Drive every page of the site and take the pictures that the README shows.

    python tests/browser/screenshots.py [FOLDER]

Writes PNG files into FOLDER (docs/screenshots), with MiniLM, SmolLM2, Bergamot, Whisper, U2-Net
and MobileNet in the tab. The pages are those of the site's own list. `pictures` in a page's test,
test_NAME_page.py, brings the page to its states and keeps them; of a page without it there are
two, as it opens: on a desktop, and dark on a phone.
"""

from __future__ import annotations

import importlib.util
import io
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from rushlight.models.hub.names import resolve
from rushlight.site.builder.build import build
from rushlight.site.builder.pages import listed
from rushlight.site.builder.serve import make_server

HERE = Path(__file__).parent
FLAGS = ["--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]
DESKTOP = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}
MODELS = (
    "all-minilm-l6-v2",
    "smollm2-135m-instruct",
    "bergamot-en-pt",
    "bergamot-pt-en",
    "whisper-tiny.en",
    "silero-vad",
    "u2netp",
    "mobilenet-v2",
    "yolov3-tiny",
    "pp-ocr-v4",
)


def load(path: Path) -> ModuleType:
    """A module of the tests by its file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Studio:
    """A browser on a built site, and the folder for its pictures."""

    def __init__(self, browser: Any, url: str, out: Path) -> None:
        self.browser, self.url, self.out = browser, url, out

    def open(self, place: str, *, phone: bool = False, **options: Any) -> Page:
        """A page of the site in a fresh profile."""
        screen = {"viewport": PHONE, "device_scale_factor": 2, "has_touch": True}
        chosen = screen if phone else {"viewport": DESKTOP}
        page: Page = self.browser.new_context(**{**chosen, **options}).new_page()
        page.goto(f"{self.url}{place}")
        return page

    def module(self, name: str) -> ModuleType:
        """A helper of the browser's tests."""
        return load(HERE / f"{name}.py")

    def rest(self, page: Page, *, show: str | None = None) -> None:
        """Take pointer and focus away, and scroll to the top or to an element."""
        page.evaluate("document.activeElement.blur()")
        page.mouse.move(2, 2)
        place = f"document.getElementById('{show}').scrollIntoView" if show else "scrollTo"
        page.evaluate(f"{place}({{ top: 0, behavior: 'instant' }})")

    def resize(self, page: Page, *, phone: bool = False, height: int | None = None) -> None:
        """Give an open page the size of a phone or of a desktop."""
        size = PHONE if phone else DESKTOP
        page.set_viewport_size({"width": size["width"], "height": height or size["height"]})

    def keep(self, page: Page, name: str, *, whole: bool = False) -> None:
        """Save what the page shows, with 256 colours: a third of the bytes, no visible loss."""
        path = self.out / f"{name}.png"
        picture = Image.open(io.BytesIO(page.screenshot(full_page=whole, animations="disabled")))
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        small.save(path, optimize=True)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def pictures_of(name: str, place: str) -> Callable[[Studio], None]:
    """What takes the pictures of a page: a function of its test, or the plain one."""
    for path in HERE.rglob(f"test_{name}_page.py"):
        module = load(path)
        if hasattr(module, "pictures"):
            found: Callable[[Studio], None] = module.pictures
            return found

    def plain(studio: Studio) -> None:
        studio.keep(studio.open(place), f"{name}-desktop")
        studio.keep(studio.open(place, phone=True, color_scheme="dark"), f"{name}-phone-dark")

    return plain


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


def main() -> None:
    """Make the folder and fill it."""
    default = HERE.parents[1] / "docs" / "screenshots"
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    out.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with served() as url, sync_playwright() as run:
        browser = run.chromium.launch(executable_path=chromium, args=FLAGS)
        for page in listed():
            pictures_of(page.folder.name, page.place)(Studio(browser, url, out))
        browser.close()


if __name__ == "__main__":
    main()
