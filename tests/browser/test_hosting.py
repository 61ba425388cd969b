"""Where and how a site is hosted: offline, new versions, sub-paths, plain servers, other pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rushlight.site.builder.build import build

pytestmark = pytest.mark.warm_start

HERE = Path(__file__).parent
READY = 'html[data-state="ready"]'
OFFLINE = 'html[data-offline="ready"]'
VERSIONS = "caches.keys().then((names) => names.filter((n) => n.startsWith('rushlight-site-')))"


def search(page: Any, text: str = "A rush and a little fat.\n\nThe bee was in the lamp.") -> None:
    """Have the search page read a text and answer a question."""
    page.wait_for_selector("html[data-state]")
    before = page.get_attribute("html", "data-round")
    page.fill("#text", text)
    page.click("#go")
    page.wait_for_selector(f'{READY}:not([data-round="{before}"])')
    assert not page.is_visible("#error"), page.inner_text("#error")
    page.fill("#query", "light")
    page.press("#query", "Enter")
    page.wait_for_function("document.documentElement.dataset.query === 'light'")
    assert page.locator("#list .score").count() == 2


def wait_for(page: Any, promise: str, value: object) -> None:
    """Wait until a promise of the page gives the value (`wait_for_function` takes any promise)."""
    for _ in range(1200):
        if page.evaluate(promise) == value:
            return
        page.wait_for_timeout(100)
    assert page.evaluate(promise) == value, promise


def kept_page(pages: Any, place: Any) -> Any:
    """The search page of a kept site, which asks for nothing more: Python has started."""
    page = pages.open(f"{place.url}search/?device=cpu", service_workers="allow")
    search(page)
    page.wait_for_selector(OFFLINE)
    return page


def test_offline_once_loaded(pages: Any, serve: Callable[..., Any], site: Path) -> None:
    place = serve(site)
    page = pages.context().new_page()
    page.goto(f"{place.url}search/")
    search(page)
    page.wait_for_selector(OFFLINE)
    place.stop()
    page.reload()
    page.wait_for_function("document.getElementById('model-note').innerText.includes('already')")
    search(page)
    page.click('nav a:has-text("Home")')
    page.wait_for_selector("html[data-facts]")
    page.wait_for_selector("#kept tbody tr")
    assert "tiny" in page.inner_text("#kept")


# The page has the registration only when the new version has been found already.
LATE = """{
  const { register } = ServiceWorkerContainer.prototype;
  ServiceWorkerContainer.prototype.register = async function (...asked) {
    const registration = await register.apply(this, asked);
    const found = new Promise((go) => (registration.onupdatefound = go));
    if (navigator.serviceWorker.controller && !registration.installing) await found;
    return registration;
  };
}"""


@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
def test_a_rebuilt_site_is_seen(
    late: bool, pages: Any, serve: Callable[..., Any], own_site: Path, tiny_model: Path
) -> None:
    place = serve(own_site)
    page = kept_page(pages, place)
    assert page.locator("#model-site option").all_inner_texts() == ["tiny"]
    [old] = page.evaluate(VERSIONS)
    build(own_site, [("tiny", tiny_model), ("second", tiny_model)])
    place.mischief.log.clear()
    if late:
        page.add_init_script(LATE)
    # Nothing has been read on the page, so the new version takes over by itself.
    page.reload()
    page.wait_for_function("document.querySelectorAll('#model-site option').length === 2")
    wait_for(page, f"{VERSIONS}.then((names) => names.length)", 1)
    assert page.evaluate(VERSIONS) != [old]
    # What has not changed came from the older version's cache.
    assert not [path for _, path, _ in place.mischief.log if "pyodide" in path]


def test_requests_after_a_newer_version_took_over(
    pages: Any, serve: Callable[..., Any], own_site: Path
) -> None:
    """The old worker finds its cache gone, and takes what the newer version has of its files."""
    place = serve(own_site)
    page = kept_page(pages, place)
    page.wait_for_function("navigator.serviceWorker.controller")
    [name] = page.evaluate(VERSIONS)
    place.mischief.log.clear()
    page.evaluate(
        """async (name) => {
            const [old, newer] = [await caches.open(name), await caches.open(name + "-newer")];
            for (const request of await old.keys()) {
                const kept = await old.match(request);
                const other = request.url.endsWith("rank.js");
                const headers = other ? { "x-rushlight-hash": "another" } : kept.headers;
                await newer.put(request, new Response(kept.body, { headers }));
            }
            await caches.delete(name);
            await Promise.all(["split.js", "rank.js"].map((name) => fetch(name)));
        }""",
        name,
    )
    asked = [path for _, path, _ in place.mischief.log]
    assert [path for path in asked if path.endswith(".js")] == ["/search/rank.js"], asked
    assert page.evaluate(VERSIONS) == [f"{name}-newer"]


def test_a_new_version_waits_while_there_is_work(
    pages: Any, serve: Callable[..., Any], own_site: Path, tiny_model: Path
) -> None:
    place = serve(own_site)
    page = pages.open(f"{place.url}search/?device=cpu", service_workers="allow")
    page.wait_for_selector(OFFLINE)
    page.reload()
    search(page)
    build(own_site, [("tiny", tiny_model), ("second", tiny_model)])
    page.evaluate("navigator.serviceWorker.getRegistration().then((r) => r.update())")
    page.wait_for_selector(".notice")
    assert page.locator("#list .score").count() == 2, "the work was lost"
    page.click(".notice button")
    page.wait_for_function("document.querySelectorAll('#model-site option').length === 2")


def test_a_file_that_is_not_of_this_version_is_not_kept(
    pages: Any, serve: Callable[..., Any], own_site: Path
) -> None:
    """A half-finished upload: sw.js is new, another file is not. Then there is no offline use."""
    place = serve(own_site)
    script = own_site / "search" / "rank.js"
    script.write_text(script.read_text() + "// another version\n")
    page = pages.context().new_page()
    page.add_init_script(
        """{
          const { register } = ServiceWorkerContainer.prototype;
          ServiceWorkerContainer.prototype.register = async function (...asked) {
            const registration = await register.apply(this, asked);
            registration.installing.onstatechange = ({ target }) => (window.came = target.state);
            return registration;
          };
        }"""
    )
    page.goto(f"{place.url}search/?device=cpu")
    page.wait_for_function("window.came")
    assert page.evaluate("window.came") == "redundant"
    assert page.evaluate("navigator.serviceWorker.controller") is None
    search(page)


def test_under_a_sub_path_of_a_plain_server(
    pages: Any, serve: Callable[..., Any], site: Path, tmp_path: Path
) -> None:
    """No ranges, no validators, no headers beyond length and type; not at the root."""
    shutil.copytree(site, tmp_path / "www/ann/tools")
    place = serve(tmp_path / "www", plain=True)
    page = pages.context().new_page()
    page.goto(f"{place.url}ann/tools/")
    page.wait_for_selector("html[data-facts]")
    page.click('nav a:has-text("Search")')
    search(page)
    page.wait_for_selector(OFFLINE)
    assert all(path.startswith("/ann/tools/") for _, path, _ in place.mischief.log), (
        place.mischief.log
    )
    place.stop()
    page.reload()
    search(page)


def test_without_https(pages: Any, serve: Callable[..., Any], site: Path) -> None:
    """A plain address of another machine: no cache, no service worker, no locks; all else works."""
    place = serve(site)
    url = place.url.replace("127.0.0.1", "plain.example")
    page = pages.context().new_page()
    page.goto(f"{url}search/")
    assert page.evaluate("[isSecureContext, 'caches' in window]") == [False, False]
    page.wait_for_function("document.getElementById('adapter').innerText.includes('CPU')")
    assert "not a secure context, so it has no WebGPU; serve" in page.inner_text("#adapter")
    assert page.is_disabled('input[name="device"][value="webgpu"]')
    page.wait_for_function("document.getElementById('model-note').innerText.includes('not kept')")
    search(page)
    place.mischief.flip["/models/tiny/model.safetensors"] = 1_000_000
    page.reload()
    page.wait_for_selector("html[data-state]")
    page.fill("#text", "A rush.")
    page.click("#go")
    page.wait_for_selector("#error", state="visible")
    assert "not the published ones" in page.inner_text("#error"), "hashes are checked here too"


def test_the_runtime_from_another_origin(
    pages: Any, serve: Callable[..., Any], site: Path, tmp_path: Path, native: Any
) -> None:
    """client.js may lie on another host, which has to allow that as any host of modules does."""
    (tmp_path / "page.html").write_text("<!doctype html><title>Far</title>", encoding="utf-8")
    runtime = serve(site, cors=True)
    page = pages.open(f"{serve(tmp_path).url}page.html")
    rows = page.evaluate(
        """async (url) => {
          const { createRushlight } = await import(`${url}rushlight/client.js`);
          const rl = await createRushlight();
          const model = await rl.load(`${url}models/tiny/`);
          return (await model.encode(["cheap light"])).map((v) => [...v]);
        }""",
        runtime.url,
    )
    assert np.abs(np.array(rows) - native.encode(["cheap light"]).numpy()).max() <= 1e-5
