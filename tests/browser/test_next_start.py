"""The worker's next start: Python's kept memory serves, but not where anything is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

# Starts the runtime in the page and embeds; gives vectors and what was drawn at random.
START = """async (device) => {
  const { createRushlight } = await import("/rushlight/client.js");
  window.rl = await createRushlight();
  window.model = await rl.load("/models/tiny/", { device });
  const [vector] = await model.encode(["the king was in the house"]);
  return [...vector];
}"""
KEPT = """async () => {
  const cache = await caches.open("rushlight-start");
  return (await cache.keys()).map(({ url }) => new URL(url).pathname).sort();
}"""
PARTS = ["/rushlight/start/files", "/rushlight/start/memory"]
# Of what a first start asks the server for, what a kept one does not.
UNPACKED = ("whl",)


def wait_until_kept(page: Any) -> None:
    for _ in range(2400):
        if page.evaluate(KEPT) == PARTS:
            return
        page.wait_for_timeout(100)
    pytest.fail(f"after four minutes only {page.evaluate(KEPT)} is kept")


def visit(page: Any, place: Any, device: str = "cpu") -> list[float]:
    """Open a blank page of the server and start there."""
    page.goto(f"{place.url}models/index.json")
    found: list[float] = page.evaluate(START, device)
    return found


def unpacked(place: Any) -> list[str]:
    """The packages that the server was asked for since its log was last cleared."""
    found = [path for _, path, _ in place.mischief.log if path.endswith(UNPACKED)]
    place.mischief.log.clear()
    return found


@pytest.fixture
def place(serve: Any, own_site: Path) -> Any:
    return serve(own_site)


@pytest.fixture
def page(pages: Any, place: Any) -> Any:
    return pages.open(f"{place.url}models/index.json")


def test_the_second_start_takes_python_from_the_browsers_storage(page: Any, place: Any) -> None:
    first = visit(page, place)
    assert len(unpacked(place)) == 2
    wait_until_kept(page)
    for device in ("cpu", "webgpu"):
        again = visit(page, place, device)
        assert unpacked(place) == []
        assert again == pytest.approx(first, abs=1e-5)
    assert page.evaluate("rl.cache.clear().then(() => caches.has('rushlight-start'))") is False
    visit(page, place)
    assert len(unpacked(place)) == 2


def test_a_damaged_snapshot_is_not_used(page: Any, place: Any, own_site: Path) -> None:
    first = visit(page, place)
    for part in PARTS:
        wait_until_kept(page)
        page.evaluate(
            """async (part) => {
              const cache = await caches.open("rushlight-start");
              const { headers } = await cache.match(part);
              await cache.put(part, new Response(new Uint8Array(5000).fill(9), { headers }));
            }""",
            part,
        )
        unpacked(place)
        assert visit(page, place) == pytest.approx(first, abs=1e-5)
        assert len(unpacked(place)) == 2
    wait_until_kept(page)
    # Another runtime in the same place takes no part of it.
    about = own_site / "rushlight" / "runtime.json"
    about.write_text(about.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert visit(page, place) == pytest.approx(first, abs=1e-5)
    assert len(unpacked(place)) == 2
