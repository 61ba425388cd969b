"""What the benchmarks share: memory, the machine, a served site and a browser."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run"]  # fmt: skip


def high_water(pid: int | str = "self") -> float:
    """Peak resident memory of a process in MB (VmHWM)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no VmHWM")


def renderer_peaks(root: int) -> dict[int, float]:
    """VmHWM of each renderer process below the browser process `root`."""
    parents: dict[int, int] = {}
    renderers = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
            if b"--type=renderer" in command:
                renderers.add(int(entry.name))
    found = {}
    for pid in renderers:
        above = pid
        while above in parents and above != root:
            above = parents[above]
        if above == root:
            found[pid] = high_water(pid)
    return found


def machine() -> str:
    """The processor's name and how many cores there are."""
    names = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


@contextmanager
def served(site: Path, page: str) -> Iterator[str]:
    """The address of `site` on loopback, with the HTML `page` in it."""
    place = site / "benchmark.html"
    place.write_text(page, encoding="utf-8")
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", "0", "--bind", "127.0.0.1", "-d", str(site)],
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
        place.unlink()


@contextmanager
def opened(address: str) -> Iterator[Any]:
    """A page of a new headless Chromium at `address`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=str(CHROMIUM) if CHROMIUM.exists() else None, args=FLAGS
        )
        page = browser.new_context().new_page()
        page.set_default_timeout(600_000)
        page.goto(address)
        yield page
        browser.close()
