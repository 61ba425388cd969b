"""Functions of all benchmarks: the machine, a served site and a browser, results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SITE = HERE.parent / "dist" / "site"
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WEBGPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]

# http.server with the headers that make a page cross-origin isolated.
ISOLATED = """
import functools, http.server, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()
handler = functools.partial(Handler, directory=sys.argv[1])
http.server.test(handler, http.server.ThreadingHTTPServer, port=0, bind="127.0.0.1")
"""


BEGAN = time.perf_counter()


def tell(what: str) -> None:
    """Print a line of progress, with the seconds since the benchmark began."""
    print(f"[{time.perf_counter() - BEGAN:6.1f} s] {what}", flush=True)


def tell_row(cells: Sequence[object]) -> None:
    """Print a finished row of a table."""
    tell("  ".join(_cell(value) for value in cells))


def _cell(value: object) -> str:
    """Numbers to three places."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Tell that a step begins, and at its end how long it took."""
    began = time.perf_counter()
    tell(f"{what} ...")
    yield
    tell(f"{what}: {time.perf_counter() - began:.1f} s")


def high_water(pid: int | str = "self") -> float:
    """Peak resident memory of a process in MB (VmHWM)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no VmHWM")


def browser_processes(root: int, kind: str) -> list[int]:
    """The processes of a kind, such as "renderer", below the browser process `root`."""
    parents: dict[int, int] = {}
    pids = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
            if f"--type={kind}".encode() in command:
                pids.add(int(entry.name))
    below = []
    for pid in pids:
        above = pid
        while above in parents and above != root:
            above = parents[above]
        if above == root:
            below.append(pid)
    return below


def renderer_peaks(root: int) -> dict[int, float]:
    """VmHWM of each renderer process below the browser process `root`."""
    return {pid: high_water(pid) for pid in browser_processes(root, "renderer")}


def processor_ms(pid: int) -> float:
    """Milliseconds of processor time of a process over all its threads (schedstat).

    Other work on the machine hardly changes SwiftShader's processor time.
    """
    spent = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            spent += int((thread / "schedstat").read_text().split()[0])
        except OSError:
            continue  # the thread has ended
    return spent / 1e6


def machine() -> str:
    """The processor's name and the number of cores."""
    names = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


@contextmanager
def served(page: str, folders: Mapping[str, Path], isolated: bool = False) -> Iterator[str]:
    """Serve the HTML `page` with `folders` beside it by their names; gives its loopback address.

    A folder named "" has its contents beside the page. isolated: send the headers that a peer with
    threads needs.
    """
    with tempfile.TemporaryDirectory() as root:
        place = Path(root)
        for name, folder in folders.items():
            for path in [folder] if name else folder.iterdir():
                (place / (name or path.name)).symlink_to(path.resolve())
        (place / "benchmark.html").write_text(page, encoding="utf-8")
        server = subprocess.Popen(
            [sys.executable, "-c", ISOLATED, root]
            if isolated
            else [sys.executable, "-m", "http.server", "0", "--bind", "127.0.0.1", "-d", root],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            yield f"http://127.0.0.1:{line.split('port ')[1].split()[0]}/benchmark.html"
        finally:
            server.terminate()
            server.wait()


@contextmanager
def opened(address: str, flags: Sequence[str] = ()) -> Iterator[Any]:
    """A page of a new headless Chromium at `address`."""
    from playwright.sync_api import sync_playwright

    tell("a new browser")
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=str(CHROMIUM) if CHROMIUM.exists() else None, args=[*FLAGS, *flags]
        )
        page = browser.new_context().new_page()
        page.set_default_timeout(600_000)
        page.on("pageerror", lambda error: print(f"page: {error}", file=sys.stderr))
        page.goto(address)
        yield page
        browser.close()


def keep(name: str, result: Mapping[str, Any], table: str | None = None) -> None:
    """Print a result, and write it to results/NAME.json.

    A table replaces the text between <!-- NAME --> and <!-- /NAME --> in RESULTS.md; that of a new
    adapter, "gpu-NAME", stands behind the first of its kind.
    """
    text = json.dumps(result, indent=1)
    out = HERE / "results" / f"{name}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(text + "\n", encoding="utf-8")
    print(text if table is None else table)
    if table is not None:
        page = HERE / "RESULTS.md"
        text = page.read_text(encoding="utf-8")
        if name.startswith("gpu-") and f"<!-- {name} -->" not in text:
            first = re.search(r"<!-- /gpu-[\w-]+ -->\n", text)
            if first is not None:
                new = f"\n<!-- {name} -->\n<!-- /{name} -->\n"
                text = text[: first.end()] + new + text[first.end() :]
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->\n")
        if start and end:
            page.write_text(f"{before}{start}{table}\n{end}{after}", encoding="utf-8")


def _late(*_: object) -> None:
    raise SystemExit("the benchmark takes longer than --limit")


def run(
    name: str,
    doc: str | None,
    places: Mapping[str, Callable[[argparse.Namespace], dict[str, Any]]],
    table: Callable[[dict[str, Any]], str] | None = None,
    options: Mapping[str, dict[str, Any]] | None = None,
) -> None:
    """The command line of a benchmark.

    Runs one of `places` (which the first argument names if there are several) and keeps the result
    with the machine, its load and the seconds that it took in all, under its own name unless
    "kept_as" in it says another. Every benchmark has the option --site, a built site, --limit, and
    `options`.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else "")
    if len(places) > 1:
        parser.add_argument("where", choices=list(places))
    parser.add_argument("--site", type=Path, default=SITE)
    for option, settings in (options or {}).items():
        parser.add_argument(option, **settings)
    parser.add_argument("--limit", type=int, default=1800, help="seconds after which it fails")
    chosen = parser.parse_args()
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(chosen.limit)
    where = chosen.where if len(places) > 1 else next(iter(places))
    before = os.getloadavg()[0]
    result = places[where](chosen)
    result["load_average"] = {"before": before, "after": os.getloadavg()[0]}
    result["machine"] = machine()
    result["seconds"] = time.perf_counter() - BEGAN
    label = result.pop("kept_as", f"{name}_{where}" if len(places) > 1 else name)
    keep(label, result, table(result) if table else None)
    tell(f"{label}: {result['seconds']:.0f} seconds in all")


def markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table with numbers to three places."""
    lines = [head, ["---"] * len(head), *([_cell(v) for v in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
