"""The playground: programs, pictures and charts, completion, errors, stopping, links, looks."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rushlight as rl
from rushlight.web.worker import outbox
from rushlight.web.worker.programs import _without, complete, run_program

pytestmark = pytest.mark.warm_start

PAGE = Path(__file__).parents[2] / "site" / "pages" / "playground"
EXAMPLES = sorted(path.stem for path in (PAGE / "examples").glob("*.txt"))


def run_here(code: str, device: str = "cpu") -> tuple[dict[str, Any] | None, list[Any]]:
    """What a program gives in this process: its error, and its output."""
    seen: list[Any] = []

    def tell(kind: str, value: str, data: Any) -> None:
        seen.append((kind, json.loads(value), data))

    # In a thread of its own: this one has the event loop of the browser's driver.
    with ThreadPoolExecutor(1) as thread:
        error = thread.submit(asyncio.run, run_program(code, device, tell)).result()
    return (json.loads(error) if error else None), seen


def said(seen: list[Any], kind: str = "text") -> str:
    return "".join(value for k, value, _ in seen if k == kind)


# --- in this process ----------------------------------------------------------------------------


def test_the_list_has_every_example() -> None:
    listed = re.findall(r'\["(\w+)", "', (PAGE / "examples.js").read_text(encoding="utf-8"))
    assert sorted(listed) == EXAMPLES and len(EXAMPLES) >= 12


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run(name: str) -> None:
    error, seen = run_here((PAGE / "examples" / f"{name}.txt").read_text(encoding="utf-8"))
    assert error is None and seen
    for kind, value, data in seen:
        if kind == "image":
            assert len(data) == 4 * value["width"] * value["height"]
            assert data.reshape(-1, 4)[:, :3].std() > 1, "the picture shows something"
    if name == "digits":
        found = re.search(r"(\d+)% of new pictures", said(seen))
        assert found and int(found[1]) > 80
    if name == "optimizers":
        assert re.search(r"LBFGS +ends at \[(1.0|0.99)", said(seen))


def test_values_are_shown_by_their_kind(device: str) -> None:
    error, seen = run_here(
        "import rushlight as rl\nx = rl.ones(3, 8, 8)\ndisplay(x)\ndisplay(x.numpy()[0] > 2)\n"
        "print('a', end='')\ndisplay('b')\nplot([1, 2], [3, float('nan')], labels=['up'])\n"
        "x.device",
        device,
    )
    assert error is None
    assert [k for k, _, _ in seen] == ["image", "text", "text", "text", "plot", "text"]
    assert (seen[0][2] == 255).all() and seen[0][1] == {"width": 8, "height": 8}
    assert seen[2][1] + seen[3][1] == "a'b'\n"
    assert seen[4][1]["lines"] == [{"label": "up", "y": [3.0, None]}]
    assert rl.device(device).type in seen[5][1] and rl.ones(1).device.type == "cpu"


def test_errors_name_the_line() -> None:
    error, _ = run_here("def f():\n    1 / 0\n\nf()\n")
    assert error and error["line"] == 2 and "\nZeroDivisionError: " in error["text"]
    assert "programs.py" not in error["text"] and "1 / 0" in error["text"]
    error, _ = run_here("x = 1\ny = (")
    assert error and error["line"] == 2 and "SyntaxError" in error["text"]
    error, _ = run_here("import rushlight as rl\nrl.ones(2) @ rl.ones(3)")
    assert error and error["line"] == 2
    assert run_here("raise SystemExit(3)")[0] == {"text": "SystemExit: 3", "line": 0}
    assert run_here("plot([1], [1, 2])")[0]["text"].endswith("all of one length\n")  # type: ignore[index]


def test_output_is_bounded_and_programs_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    # A microsecond a look: how fast a program prints is not the machine's to say.
    looks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: next(looks) * 1e-6)
    monkeypatch.setattr(outbox, "time", clock)
    many = "x = 1\nfor n in range(300_000):\n    print(n)\nprint('y' * 10**7, 'end')"
    _, seen = run_here(many)
    assert all(len(value) < 200_000 for _, value, _ in seen), "no piece is more than a page draws"
    assert len(said(seen)) < 3_000_000 and "a part is left out" in said(seen)
    assert said(seen).startswith("0\n1\n") and said(seen).endswith("yy end\n")
    _, seen = run_here(
        "import numpy as np\nfor n in range(500):\n    display(np.full((8, 8), n / 500))"
    )
    pictures = [data[0] for kind, _, data in seen if kind == "image"]
    assert len(pictures) < 500 and pictures[-1] == round(499 / 500 * 255), "the last is shown"
    error, seen = run_here("import sys\nprint('e', file=sys.stderr)\nx")
    assert said(seen, "error") == "e\n" and error and "'x' is not defined" in error["text"]
    assert run_here("await rl.ones(2).numpy_async()")[0]["text"].endswith("'rl' is not defined\n")  # type: ignore[index]


def test_what_is_missing_is_told_with_what_there_is_instead() -> None:
    def without(name: str) -> str:
        error, _ = run_here(f"import not_here.{name}")
        assert error and error["line"] == 1
        return _without(name)

    assert "plot(y)" in without("matplotlib.pyplot") and "display(" in without("PIL")
    assert "import rushlight as torch" in without("torch")
    assert "installs no packages" in without("pandas") and "pyfetch" in without("requests")
    assert "needs what only a process has" in without("tkinter")
    assert run_here("input('Name?')")[0]["text"].endswith("nobody can type here\n")  # type: ignore[index]


def test_names_are_completed() -> None:
    def names(code: str) -> dict[str, dict[str, str]]:
        found = json.loads(complete(code, len(code)))
        return {row["label"]: row for row in found["options"]}

    found = names("import rushlight as t\nt.softm")
    assert set(found) == {"softmax"} and "exp(x) along" in found["softmax"]["info"]
    assert names("from rushlight.nn import Linear as L\nL.forw")["forward"]["type"] == "function"
    assert json.loads(complete("rl.nn.Lin", 9))["from"] == 6
    assert names("prin")["print"]["type"] == "function" and names("") == {}
    run_here("class A:\n    @property\n    def bad(self):\n        raise ValueError\nmine = A()")
    assert "mine" in names("min") and "bad" in names("mine.ba")
    assert names("import antigravity\nantigravity.") == {}, "nothing is imported for it"


# --- in the page --------------------------------------------------------------------------------


def begun(page: Any) -> Any:
    page.wait_for_selector('html[data-state="ready"]')
    return page


def type_in(page: Any, code: str) -> None:
    page.locator(".cm-content").fill(code)


def run(page: Any) -> str:
    before = page.get_attribute("html", "data-round")
    page.click("#run")
    page.wait_for_function(
        "(before) => (document.documentElement.dataset.round ?? null) !== before",
        arg=before,
        timeout=120_000,
    )
    text: str = page.inner_text("#output")
    return text


def pictures(studio: Any) -> None:
    """The spirals, run, on a desktop, in dark, and on a phone."""
    for name, options in (("desktop", {}), ("phone-dark", {"phone": True, "color_scheme": "dark"})):
        page = begun(studio.open("playground/", **options))
        page.select_option("#examples", "spirals")
        page.wait_for_timeout(300)
        run(page)
        page.wait_for_timeout(700)
        studio.rest(page)
        studio.keep(page, f"playground-{name}", whole=name != "desktop")


@pytest.fixture(scope="module")
def bench(module_pages: Any, module_serve: Any, site: Path) -> Any:
    """The page, for the tests that need no fresh one."""
    place = module_serve(site)
    return begun(
        module_pages.open(f"{place.url}playground/", viewport={"width": 1280, "height": 900})
    )


def test_a_program_runs_in_the_page(bench: Any) -> None:
    # A start of Python that is stopped is nobody's error.
    bench.click("#run")
    bench.wait_for_function("document.getElementById('says').innerText.includes('Starting')")
    bench.click("#stop")
    bench.wait_for_selector('html[data-state="ready"]')
    assert "Stopped" in bench.inner_text("#says")
    type_in(bench, "import rushlight as rl\nprint('<b>no markup</b>')\nrl.arange(3) * 2")
    assert run(bench).split() == ["<b>no", "markup</b>", "tensor([0,", "2,", "4])"]
    assert bench.locator("#output b").count() == 0
    assert bench.inner_text("#says").startswith("Done after")
    for device in ("cpu", "webgpu"):
        bench.check(f'input[name="device"][value="{device}"]', force=True)
        type_in(
            bench,
            "import rushlight as rl\nx = rl.ones(4, 6) / 2\nprint(x.device)\n"
            "display(x)\n"
            "plot(x[0], labels=['one'])",
        )
        assert device in run(bench)
        pixel = bench.evaluate(
            """() => [...document.querySelector("#output canvas.shown").getContext("2d")
              .getImageData(5, 3, 1, 1).data]"""
        )
        assert pixel == [128, 128, 128, 255]
        bench.wait_for_function("document.querySelector('.chart canvas').width > 100")
    bench.check('input[name="device"][value="cpu"]', force=True)


def test_errors_are_marked_in_the_editor(bench: Any) -> None:
    type_in(bench, "x = 1\ny = x / 0\n")
    assert "ZeroDivisionError" in run(bench) and bench.inner_text("#says").startswith("It failed")
    bench.wait_for_selector(".cm-lint-marker-error")
    assert bench.locator("#output pre.wrong").count() == 1
    type_in(bench, "print(1)")
    assert run(bench).strip() == "1"
    assert bench.locator(".cm-lint-marker-error").count() == 0


def test_names_are_completed_with_their_words(bench: Any) -> None:
    type_in(bench, "")
    bench.locator(".cm-content").press_sequentially("rl.nn.functional.gel")
    shown = ".cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled) li"  # none on its way
    option = bench.locator(shown)
    option.first.wait_for(timeout=60_000)
    assert option.all_inner_texts() == ["gelu"]
    bench.wait_for_timeout(300)  # CodeMirror takes no key in the first 75 ms of a list
    assert "normal distribution" in bench.inner_text(".cm-completionInfo")
    bench.keyboard.press("Enter")
    assert "rl.nn.functional.gelu" in bench.inner_text(".cm-content")
    bench.keyboard.press("Escape")


def test_a_program_is_stopped_by_keyboard_and_button(bench: Any) -> None:
    type_in(bench, "print('on')\nwhile True:\n    pass")
    bench.keyboard.press("Control+Enter")
    bench.wait_for_function("document.getElementById('output').innerText.includes('on')")
    bench.click("#stop")
    bench.wait_for_selector('html[data-state="ready"]')
    assert "Stopped" in bench.inner_text("#says")
    type_in(bench, "print('again')")
    assert run(bench).strip() == "again"


# How often the page's own events come in turn until a program that is stopped has ended.
TURNS = """async () => {
  document.getElementById("stop").click();
  let turns = 0;
  while (document.documentElement.dataset.state !== "ready") {
    turns += 1;
    await new Promise((resolve) => setTimeout(resolve));
  }
  return turns;
}"""


def test_output_without_end_leaves_the_page_free(bench: Any) -> None:
    type_in(bench, "i = 0\nwhile True:\n    print(i)\n    i += 1")
    bench.click("#run")
    # Far more than is kept was printed; the page draws frame by frame meanwhile.
    bench.wait_for_function(
        "document.getElementById('output').innerText.split('\\n').some((line) => line > 100000)"
    )
    assert bench.evaluate(TURNS) < 20
    lines = bench.inner_text("#output").split("\n")
    assert 1900 < len(lines) < 2100 and "the last of the output" in lines[0]
    numbers = [int(line) for line in lines[-500:] if line]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    type_in(
        bench, "import numpy as np\nwhile True:\n    display(np.ones((9, 9)))\n    plot([1, 2])"
    )
    bench.click("#run")
    bench.wait_for_selector("#output > .hint")
    assert bench.evaluate(TURNS) < 20 and bench.locator("#output canvas").count() <= 40


def test_a_program_asks(bench: Any) -> None:
    type_in(bench, "name = input('Name? ')\nage = await ask('Age? ')\nprint(name, int(age) + 1)")
    bench.click("#run")
    for field, answer in (("Name?", "Ada"), ("Age?", "36")):
        bench.fill(f'#output input[aria-label="{field}"]', answer)
        bench.keyboard.press("Enter")
    bench.wait_for_selector('html[data-state="ready"]')
    assert bench.inner_text("#output").strip() == "Name? Ada\nAge? 36\nAda 37"
    type_in(bench, "input('And? ')")
    bench.click("#run")
    bench.wait_for_selector("#output input")
    bench.click("#stop")
    bench.wait_for_selector('html[data-state="ready"]')
    assert bench.locator("#output input").count() == 0
    type_in(bench, "import matplotlib.pyplot as plt")
    assert "plot(y) draws a chart" in run(bench)


def test_links_hold_programs_and_never_run_them(
    pages: Any, module_serve: Any, site: Path, bench: Any
) -> None:
    code = "print('é <script>')\n" * 30
    type_in(bench, code)
    bench.click("#share")
    bench.wait_for_function("location.hash.startsWith('#code=')")
    fragment = bench.evaluate("location.hash")
    assert len(fragment) < 200
    place = module_serve(site)
    page = begun(pages.open(f"{place.url}playground/{fragment}"))
    assert "Read it before you run it" in page.inner_text("#says")
    assert page.inner_text(".cm-content").count("é <script>") >= 20  # what is in view
    assert page.inner_text("#output") == "" and page.get_attribute("html", "data-round") is None
    assert run(page).count("é <script>") == 30
    for bad in ("#code=!!!", "#code=AAAA"):
        page = begun(pages.open(f"{place.url}playground/{bad}"))
        assert "damaged" in page.inner_text("#says")
        assert "Tensors look and feel" in page.inner_text(".cm-content")


def test_a_program_is_kept_for_the_next_visit(pages: Any, module_serve: Any, site: Path) -> None:
    page = begun(pages.open(f"{module_serve(site).url}playground/"))
    page.select_option("#examples", "newton")
    page.wait_for_function("document.querySelector('.cm-content').innerText.includes('Newton')")
    page.reload()
    begun(page)
    assert "Newton" in page.inner_text(".cm-content")
    # Another tab has a program of its own, and neither is lost.
    other = page.context.new_page()
    other.goto(page.url)
    begun(other)
    type_in(other, "print('of the other')")
    page.reload()
    begun(page)
    assert "Newton" in page.inner_text(".cm-content")
    kept = page.locator("#examples optgroup option").all_inner_texts()
    assert "print('of the other')" in kept
    other.close()
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
