"""Compares this checkout with another one, in turns, to measure the effect of a change.

    git worktree add ../before COMMIT    (and `make kernels` there)
    python benchmarks/commits.py native --before ../before
    python benchmarks/commits.py tab --before ../before     (both with dist/site built)

Each checkout has a process of its own, in the tab a browser. Samples alternate, and the checkouts
begin rounds in turn. Answers and vectors are compared before times. A ratio below 1 means that this
checkout is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from measure import CHROMIUM, FLAGS, HERE, WEBGPU, markdown, run, served
from minilm import SENTENCES
from replay import COUNT, PAGE
from turns import alternate, sides

HERE_NOW, BEFORE = "now", "before"
PROMPT = "A rushlight is a candle made of a rush and fat. " * 8
TOKENS = 32
MODELS = {"llm": "smollm2-135m-instruct", "encoder": "all-minilm-l6-v2"}
TEXTS = [f"{text} {i}" for i in range(8) for text in SENTENCES[:8]]
# One visit: the milliseconds from the navigation to the first token, then those of a prompt that
# begins differently (a common beginning would be reused), an answer, its tokens once its steps are
# captured, a chat's first token (with what its template needs), and 64 texts.
VISIT = """async ([name, other, prompt, tokens, texts]) => {
  const { createRushlight } = await import("/rushlight/client.js");
  const rl = await createRushlight();
  const llm = await rl.load(`/models/${name}/`, { device: "cpu" });
  const answer = async (start, count, chat = false) => {
    const began = performance.now();
    const marks = [];
    let text = "";
    const options = { maxNewTokens: count, temperature: 0 };
    const content = start + prompt;
    const pieces = chat ? llm.chat([{ role: "user", content }], options)
      : llm.generate(content, options);
    for await (const piece of pieces) {
      marks.push(performance.now());
      text += piece;
    }
    const token = (marks.at(-1) - marks[6]) / (marks.length - 7);
    return { prompt: marks[0] - began, answer: marks.at(-1) - marks[0], token, text };
  };
  await answer("First. ", 1);
  const opened = performance.now();
  const chat = (await answer("A chat. ", 1, true)).prompt;
  const again = await answer("Then. ", tokens);
  await llm.dispose();
  const encoder = await rl.load(`/models/${other}/`, { device: "cpu" });
  await encoder.encode(texts.slice(0, 8));
  const start = performance.now();
  const vectors = await encoder.encode(texts);
  const encoded = performance.now() - start;
  return { ...again, opened, chat, encode: encoded, sum: vectors[0].reduce((a, b) => a + b, 0) };
}"""


def _folders() -> dict[str, str]:
    from rushlight.models.hub.names import resolve

    return {kind: str(resolve(name)) for kind, name in MODELS.items()}


def native(chosen: argparse.Namespace) -> dict[str, Any]:
    """Two processes on one thread."""
    places = {HERE_NOW: HERE.parent, BEFORE: chosen.before.resolve()}
    script = str(HERE / "sides" / "checkout.py")
    commands = {
        name: (
            [sys.executable, script, "1"],
            {"PYTHONPATH": str(place / "src"), "OPENBLAS_NUM_THREADS": "1", "LP_NUM_THREADS": "1"},
        )
        for name, place in places.items()
    }
    samples: dict[str, Any] = {}
    with sides(commands) as started:
        for side in started.values():
            for kind, folder in _folders().items():
                side.ask("load", name=kind, folder=folder)

        def talk(name: str, turn: int) -> Any:
            # Each prompt begins differently, because a common beginning would be reused.
            return started[name].ask("generate", text=f"{turn}. {PROMPT}", tokens=TOKENS)

        talks = alternate([*places], talk, chosen.rounds)
        _same([[t["text"] for t in taken] for taken in talks.values()])
        for phase in ("prompt", "answer"):
            samples[phase] = {name: [t[phase] for t in taken] for name, taken in talks.items()}
        samples["encode"] = alternate(
            [*places], lambda name, _: started[name].ask("encode", texts=TEXTS), chosen.rounds
        )
        _same([[round(t["sum"], 5) for t in taken] for taken in samples["encode"].values()])
        for device in ("cpu", "webgpu"):
            samples[f"replay {device}"] = alternate(
                [*places],
                lambda name, _, on=device: started[name].ask("replay", device=on, times=4),  # type: ignore[misc]
                chosen.rounds,
            )
        peaks = {name: side.peak_mb for name, side in started.items()}
    return {"samples": samples, "peak_mb": peaks, "commits": _commits(places)}


@contextmanager
def _served(place: Path) -> Iterator[str]:
    """The address of a checkout's built site on that checkout's server."""
    command = (
        "try: from rushlight.cli import main\n"
        "except ImportError: from rushlight.core.cli import main  # before cli/ was a room\n"
        "main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", command,
         "site", "serve", "--port", "0", "--dir", str(place / "dist" / "site")],
        env={**os.environ, "PYTHONPATH": str(place / "src"), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "http://" in line:
                address = "http://" + line.partition("http://")[2].split()[0]
                yield address.rstrip("/") + "/"
                return
        raise RuntimeError(f"{place}: the server ended; build its site first")
    finally:
        process.terminate()
        process.wait()


def tab(chosen: argparse.Namespace) -> dict[str, Any]:
    """Two browser profiles that have visited once; every sample is another visit."""
    from playwright.sync_api import sync_playwright

    places = {HERE_NOW: HERE.parent, BEFORE: chosen.before.resolve()}
    with ExitStack() as stack:
        play = stack.enter_context(sync_playwright())
        pages = {}
        for name, place in places.items():
            profile = stack.enter_context(tempfile.TemporaryDirectory())
            executable = str(CHROMIUM) if CHROMIUM.exists() else None
            context = play.chromium.launch_persistent_context(
                profile, executable_path=executable, args=FLAGS
            )
            stack.callback(context.close)
            context.set_default_timeout(300_000)
            pages[name] = context.pages[0], stack.enter_context(_served(place))

        def visit(name: str, turn: int) -> Any:
            page, address = pages[name]
            page.goto(f"{address}rushlight/NOTICE.txt")
            prompt = f"{turn}. {PROMPT}"
            arguments = [MODELS["llm"], MODELS["encoder"], prompt, TOKENS, TEXTS]
            times = dict(page.evaluate(VISIT, arguments))
            page.wait_for_timeout(2500)  # until the worker has kept its snapshot
            return times

        visits = alternate([*places], visit, chosen.rounds)
        replays = _replays(places, play, stack, chosen.rounds)
    _same([[v["text"] for v in taken] for taken in visits.values()])
    _same([[round(v["sum"], 4) for v in taken] for taken in visits.values()])
    by_phase = {
        phase: {n: [{"seconds": v[phase] / 1000} for v in taken] for n, taken in visits.items()}
        for phase in ("opened", "chat", "prompt", "answer", "token", "encode")
    }
    return {"samples": {**by_phase, **replays}, "commits": _commits(places)}


def _replays(places: dict[str, Path], play: Any, stack: ExitStack, rounds: int) -> dict[str, Any]:
    """Seconds of a dispatch in a replayed list on webgpu: of the call, and within the port."""
    executable = str(CHROMIUM) if CHROMIUM.exists() else None
    browser = play.chromium.launch(executable_path=executable, args=[*FLAGS, *WEBGPU])
    stack.callback(browser.close)
    pages = {}
    for name, place in places.items():
        folders = {
            "rushlight": place / "dist" / "site" / "rushlight",
            "web": HERE / "web",
            "replaying.py": HERE / "replaying.py",
        }
        page = pages[name] = browser.new_context().new_page()
        page.set_default_timeout(300_000)
        page.goto(stack.enter_context(served(PAGE, folders, isolated=True)))
        page.wait_for_function("window.bench")
        page.evaluate("() => bench.open([4])")
    taken = alternate(
        [*places], lambda name, _: pages[name].evaluate("(n) => bench.replays(n)", COUNT), rounds
    )
    return {
        f"replay webgpu, {layer}": {
            name: [{"seconds": t[layer] * 1e-6} for t in samples] for name, samples in taken.items()
        }
        for layer in ("call", "port")
    }


def _same(answers: list[list[Any]]) -> None:
    if answers[0] != answers[1]:
        raise RuntimeError(f"the checkouts give different results: {json.dumps(answers)[:500]}")


def _commits(places: dict[str, Path]) -> dict[str, str]:
    ask = ["git", "rev-parse", "HEAD"]
    return {
        name: subprocess.check_output(ask, cwd=place, text=True).strip()
        for name, place in places.items()
    }


def table(result: dict[str, Any]) -> str:
    """Medians, and the medians of the rounds' ratios."""
    rows: list[list[object]] = []
    for what, taken in result["samples"].items():
        row: list[object] = [what]
        for kind in ("seconds", "processor_s"):
            if kind in taken[HERE_NOW][0]:
                now, before = ([s[kind] for s in taken[name]] for name in (HERE_NOW, BEFORE))
                ratio = median(a / b for a, b in zip(now, before, strict=True))
                row += [f"{median(now) * 1e3:.4g}", f"{median(before) * 1e3:.4g}", f"{ratio:.3f}"]
            else:
                row += ["", "", ""]
        rows.append(row)
    clock = ["now, ms", "before, ms", "now / before"]
    return markdown(["", *clock, *(f"{title} (processor)" for title in clock)], rows)


if __name__ == "__main__":
    options = {
        "--before": {"type": Path, "required": True, "help": "the other checkout"},
        "--rounds": {"type": int, "default": 9, "help": "samples of each"},
    }
    run("commits", __doc__, {"native": native, "tab": tab}, table, options)
