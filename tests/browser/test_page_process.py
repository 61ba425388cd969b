"""The benchmarks ask the browser for a page's process, whatever other renderers do meanwhile."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

# Both cores' worth of work, as a renderer that is starting has.
BUSY = """() => {
  const work = "setInterval(() => { const t = performance.now() + 90;" +
    " while (performance.now() < t); }, 100)";
  new Worker(URL.createObjectURL(new Blob([work])));
  eval(work);
}"""


def test_a_busy_renderer_is_not_taken_for_the_pages(
    browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    measure, turns = (importlib.import_module(name) for name in ("measure", "turns"))
    contexts = [browser.new_context() for _ in range(2)]
    page, other = (context.new_page() for context in contexts)
    try:
        other.evaluate(BUSY)
        pid = turns.page_process(page)
        assert turns.page_process(other) != pid
        before = measure.high_water(pid)
        page.evaluate("() => { window.kept = new Uint8Array(200e6).fill(1); return 0; }")
        assert measure.high_water(pid) - before > 100
    finally:
        for context in contexts:
            context.close()
