"""The timing view: nothing without it; kernels of an answer and of a reading, chart and table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.warm_start

READY = 'html[data-state="ready"]'
CHART = "/shared/chart.js"
# How many pixels of a canvas are not transparent.
DRAWN = """(id) => {
  const canvas = document.getElementById(id);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((value, i) => i % 4 === 3 && value > 0).length;
}"""


def done(page: Any, act: Callable[[], None]) -> None:
    before = page.get_attribute("html", "data-round")
    act()
    page.wait_for_selector(f'{READY}:not([data-round="{before}"])', timeout=120_000)


def say(page: Any, words: str) -> None:
    page.fill("#draft", words)
    done(page, lambda: page.press("#draft", "Enter"))


def rows(page: Any) -> dict[str, list[str]]:
    """The table by kernel."""
    found = page.locator("#timing-table tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    return {name: values for name, *values in found}


@pytest.mark.parametrize("where", ["cpu", "webgpu"])
def test_an_answer_is_timed_while_the_view_is_open(
    pages: Any, serve: Callable[..., Any], chat_site: Path, where: str
) -> None:
    place = serve(chat_site)
    page = pages.open(f"{place.url}chat/?device={where}", viewport={"width": 1280, "height": 900})
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    say(page, "light")
    assert not page.is_visible("#timing-found") and place.mischief.asked(CHART) == []
    assert page.get_attribute("html", "data-timed") is None
    page.click("#panel-timing summary")
    say(page, "light")
    page.wait_for_selector("#timing-found:visible")
    assert len(place.mischief.asked(CHART)) >= 1
    found = rows(page)
    linear = {name: values for name, values in found.items() if name.startswith("linear")}
    assert linear and all(int(values[0]) > 0 for values in linear.values())
    shares = [float(v[1].partition("(")[2].removesuffix("\u00a0%)")) for v in found.values()]
    assert sum(shares) == pytest.approx(100, abs=9)
    text = page.inner_text("#timing-says")
    how = "host clock" if where == "cpu" else "timestamps"
    assert " in all, " in text and f"(by {how}" in text and "waiting" in text
    assert page.inner_text("#timing-mean").startswith("Tokens per second: ")
    for canvas in ("timing-bars", "timing-line"):
        assert page.evaluate(DRAWN, canvas) > 1000
        assert page.get_attribute(f"#{canvas}", "aria-label")
    with page.expect_download() as download:
        page.click("#trace")
    trace = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    timed = int(str(page.get_attribute("html", "data-timed")))
    assert sum(e.get("cat") == "kernel" for e in trace["traceEvents"]) == timed > 50
    # Closed again, nothing is timed; what there is stays.
    page.click("#panel-timing summary")
    page.evaluate("delete document.documentElement.dataset.timed")
    say(page, "light")
    assert page.get_attribute("html", "data-timed") is None
    page.click("#panel-timing summary")
    assert rows(page) == found
    answers = page.locator(".assistant .body").all_inner_texts()
    assert len(answers) == 3 and len(set(answers)) == 1


def test_a_stopped_answer_has_no_figures(
    pages: Any, serve: Callable[..., Any], chat_site: Path
) -> None:
    page = pages.open(f"{serve(chat_site).url}chat/?device=cpu&timing")
    page.wait_for_function("document.getElementById('model-note').innerText.includes('download')")
    assert page.evaluate("document.getElementById('panel-timing').open")
    page.evaluate(
        """() => {
          const form = document.getElementById("settings");
          [form.maxNewTokens.value, form.overflow.value] = [10 ** 7, "shift"];
          form.dispatchEvent(new Event("input", { bubbles: true }));
        }"""
    )
    page.fill("#draft", "clock")
    page.press("#draft", "Enter")
    page.wait_for_function("document.querySelector('.assistant .body')?.innerText.includes('tock')")
    done(page, lambda: page.click("#stop"))
    assert page.inner_text("#timing-says") == "The job did not complete, so there is no timing."
    page.evaluate("document.getElementById('defaults').click()")
    say(page, "light")
    page.wait_for_selector("#timing-found:visible")


def test_reading_a_text_is_timed(pages: Any, serve: Callable[..., Any], site: Path) -> None:
    page = pages.open(
        f"{serve(site).url}search/?device=cpu&timing", viewport={"width": 390, "height": 844}
    )
    page.fill("#text", "A rushlight is a candle.\n\nBees make wax.")
    done(page, lambda: page.click("#go"))
    page.wait_for_selector("#timing-found:visible")
    assert any(name.startswith("linear") for name in rows(page))
    assert not page.is_visible("#timing-speed") and page.evaluate(DRAWN, "timing-bars") > 1000
    # It fits a phone, and a switch of the colours draws it anew.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    before = page.evaluate("document.getElementById('timing-bars').toDataURL()")
    page.click("#theme")
    page.wait_for_function(
        "(old) => document.getElementById('timing-bars').toDataURL() !== old", arg=before
    )


def test_a_page_profiles_its_model(shared_page: Any) -> None:
    found = shared_page.evaluate(
        """async () => {
          const m = await rl.load("/models/tiny/", { device: "webgpu" });
          const { value, timing } = await m.profile(() => m.encode("a rush"));
          const trace = JSON.parse(await timing.trace());
          const wrong = await m.profile(async () => { throw new RangeError("mine"); })
            .catch((error) => error.message);
          const again = (await m.profile(async () => 5)).value;
          await m.dispose();
          const { timing: onCpu } = await model.profile(() => model.encode("a rush"));
          return { size: value[0].length, timing, events: trace.traceEvents.length, wrong, again,
                   onCpu };
        }"""
    )
    timing = found["timing"]
    assert found["size"] > 0 and found["wrong"] == "mine" and found["again"] == 5
    assert timing["device"] == "webgpu" and "swiftshader" in timing["adapter"].lower()
    assert found["events"] > timing["calls"] == sum(row["calls"] for row in timing["rows"]) > 5
    assert timing["host"].keys() == {"preparing", "submitting", "waiting", "other"}
    assert timing["bytesPerSecond"] > 0 and timing["operationsPerSecond"] > 0
    linear = next(row for row in timing["rows"] if row["op"].startswith("linear"))
    assert linear["ofFma"] > 0 and linear["kernel"] and linear["operations"] > 0
    assert found["onCpu"]["device"] == "cpu" and found["onCpu"]["timing"] == "host clock"
