"""A page's cold start in the tab: from opening it to the first token or the first search result.

    python benchmarks/cold_start.py [--site DIR] [--visits 3]

A browser profile visits the site on its own server, first with an empty cache, then with the
weights in the browser's storage. The script operates the pages Chat (SmolLM2) and Search (MiniLM)
without pauses. It measures from the navigation to the first text of an answer, and to a ranking of
eight sentences. The parts of a start are measured by the same steps with client.js alone.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from measure import CHROMIUM, FLAGS, markdown, run, step
from minilm import SENTENCES

CHAT, SEARCH = "smollm2-135m-instruct", "all-minilm-l6-v2"
QUESTION = "What is a rushlight?"
PARTS = """async ([name, texts, question]) => {
  const times = {};
  const mark = (part) => { times[part] = performance.now() / 1000; };
  const { createRushlight } = await import("/rushlight/client.js");
  mark("script");
  const rl = await createRushlight({
    onProgress: ({ step }) => { if (step === "library") mark("runtime"); },
  });
  mark("library");
  const model = await rl.load(`/models/${name}/`, {
    onProgress: ({ stage }) => { if (stage === "build") mark("weights"); },
  });
  mark("build");
  if (question) {
    for await (const _ of model.chat([{ role: "user", content: question }])) break;
  } else {
    await model.encode(texts);
  }
  mark("first result");
  return times;
}"""
ORDER = ("script", "runtime", "library", "weights", "build", "first result")


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """The address of a built site on Rushlight's server."""
    from rushlight.site.builder.serve import make_server

    server = make_server(folder, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.address
    server.shutdown()
    server.server_close()


@contextmanager
def profile() -> Iterator[Any]:
    """A browser with a profile on disk, which keeps storage and caches."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        executable = str(CHROMIUM) if CHROMIUM.exists() else None
        context = play.chromium.launch_persistent_context(
            folder, executable_path=executable, args=FLAGS
        )
        context.set_default_timeout(300_000)
        yield context
        context.close()


def chat(page: Any, url: str) -> float:
    """Seconds until the answer's first text."""
    page.goto(f"{url}chat/?device=cpu")
    page.click("#new")  # the page shows the last conversation
    page.fill("#draft", QUESTION)
    page.press("#draft", "Enter")
    handle = page.wait_for_function(
        "document.querySelector('.assistant .body')?.innerText.trim() && performance.now() / 1000"
    )
    seconds: float = handle.json_value()
    page.click("#stop")
    page.wait_for_selector('html[data-state="ready"]')
    return seconds


def search(page: Any, url: str) -> float:
    """Seconds until a ranking is shown."""
    page.goto(f"{url}search/?device=cpu")
    before = page.get_attribute("html", "data-round")
    page.fill("#text", "\\n\\n".join(SENTENCES[:8]))
    page.click("#go")
    page.wait_for_selector(f'html[data-state="ready"]:not([data-round="{before}"])')
    page.fill("#query", QUESTION)
    page.press("#query", "Enter")
    handle = page.wait_for_function(
        "(query) => document.documentElement.dataset.query === query && performance.now() / 1000",
        arg=QUESTION,
    )
    seconds: float = handle.json_value()
    return seconds


def parts(page: Any, url: str, name: str) -> dict[str, float]:
    """Seconds of each part, and of the whole."""
    page.goto(f"{url}rushlight/NOTICE.txt")
    question = QUESTION if name == CHAT else ""
    times = page.evaluate(PARTS, [name, SENTENCES[:8], question])
    seconds, before = {}, 0.0
    for stage in ORDER:
        seconds[stage], before = times[stage] - before, times[stage]
    return {**seconds, "in all": before}


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """First visits, and visits with everything cached."""
    results: dict[str, Any] = {}
    with site(chosen.site) as url:
        jobs: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
            "Chat": ("page", chat),
            "Search": ("page", search),
            "SmolLM2": ("parts", lambda page, url: parts(page, url, CHAT)),
            "MiniLM": ("parts", lambda page, url: parts(page, url, SEARCH)),
        }
        for what, (_, visit) in jobs.items():
            with profile() as context:
                page = context.pages[0]
                version = context.browser.version if context.browser else ""
                version = version or page.evaluate("navigator.userAgent")
                with step(f"{what}: the first visit"):
                    first = visit(page, url)
                    page.wait_for_timeout(2500)  # until the worker has kept its snapshot
                with step(f"{what}: {chosen.visits} visits"):
                    cached = [visit(page, url) for _ in range(chosen.visits)]
            results[what] = {"first visit": first, "kept": cached}
    return {"results": results, "versions": {"chromium": version}}


def table(result: dict[str, Any]) -> str:
    """Medians of the visits with everything cached, beside the first visit."""
    rows: list[list[object]] = []
    for what in ("Chat", "Search"):
        visits = result["results"][what]
        rows.append([f"{what} page", visits["first visit"], median(visits["kept"])])
    for what in ("SmolLM2", "MiniLM"):
        visits = result["results"][what]
        for stage in (*ORDER, "in all"):
            cached = median(visit[stage] for visit in visits["kept"])
            rows.append([f"{what}: {stage}", visits["first visit"][stage], cached])
    return markdown(["seconds", "first visit", "weights kept"], rows)


if __name__ == "__main__":
    options = {"--visits": {"type": int, "default": 3, "help": "with the weights cached"}}
    run("cold_start", __doc__, {"tab": tab}, table, options)
