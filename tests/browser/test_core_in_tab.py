"""The tests of the core and the models, run a second time inside a browser tab."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ARGS = ["-m", "not native", "-q", "--tb=short", "-p", "no:cacheprovider", "-W", "error"]
# Halves of the files, so that no single test takes very long.
SHARES = 2
# Milliseconds without a new test, after which the tab counts as hung.
PATIENCE = 300_000


def _files() -> list[Path]:
    """The test files that have something for the tab; some import what only a process has."""
    files = sorted((ROOT / "tests" / "core").glob("test_*.py"))
    native = re.compile(r"^pytestmark = pytest\.mark\.native$", re.M)
    return [path for path in files if not native.search(path.read_text(encoding="utf-8"))]


def _zipped() -> bytes:
    """tests/conftest.py, tests/core and the configuration that natively applies to them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as pack:
        for path in [ROOT / "README.md", ROOT / "tests" / "conftest.py",
                     *sorted((ROOT / "tests" / "core").rglob("*"))]:  # fmt: skip
            if path.is_file() and "__pycache__" not in path.parts:
                pack.write(path, path.relative_to(ROOT).as_posix())
        pack.writestr("pytest.ini", "[pytest]\naddopts = --import-mode=importlib\n")
    return out.getvalue()


def _collected(files: list[str]) -> set[str]:
    """The tests that a Python process selects from the same files with the same arguments."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not native"]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if line.startswith("tests/")}


@pytest.mark.parametrize("share", range(SHARES))
def test_core_passes_in_the_tab(
    share: int, pages: Any, site: Path, serve: Any, tab_wheels: list[Path], tmp_path: Path
) -> None:
    place = tmp_path / "site"
    place.mkdir()
    (place / "rushlight").symlink_to(site / "rushlight")
    (place / "tab_tests.js").write_bytes((HERE / "data" / "tab_tests.js").read_bytes())
    (place / "index.html").write_text("<!doctype html><title>tests</title>", encoding="utf-8")
    (place / "tests.zip").write_bytes(_zipped())
    for wheel in tab_wheels:
        (place / wheel.name).symlink_to(wheel)
    inside = [next((site / "rushlight" / "pyodide").glob("numpy-*.whl")),
              next((site / "rushlight").glob("rushlight-*.whl"))]  # fmt: skip
    url = serve(place, plain=True).url
    files = [f"tests/core/{path.name}" for path in _files()[share::SHARES]]
    page = pages.open(url)
    result = page.evaluate(
        """async ({ patience, ...task }) => {
          const worker = new Worker("./tab_tests.js", { type: "module" });
          let test = "none", watch = 0;
          const result = await new Promise((resolve) => {
            // An interpreter that dies may leave its promise open for ever.
            const wait = () => {
              clearTimeout(watch);
              watch = setTimeout(() => resolve({ code: -2, said: `no sign of life in ${test}` }),
                                 patience);
            };
            worker.onmessage = ({ data }) => {
              wait();
              if (data.test) test = data.test;
              else resolve(data);
            };
            worker.onerror = (event) => resolve({ code: -3, said: `${event.message} in ${test}` });
            wait();
            worker.postMessage(task);
          });
          clearTimeout(watch);
          worker.terminate();
          return result;
        }""",
        {
            "root": f"{url}rushlight/",
            "wheels": [
                *(f"{url}{path.relative_to(site).as_posix()}" for path in inside),
                *(f"{url}{wheel.name}" for wheel in tab_wheels),
            ],
            "tests": f"{url}tests.zip",
            "patience": PATIENCE,
            "args": [*ARGS, *files],
        },
    )
    print(result["said"][-3000:])
    assert result["code"] == 0, result["said"]
    assert (result["failed"], result["skipped"]) == (0, 0), result["said"]
    collected = _collected(files)
    assert collected
    # The tab may have more: some tests are only for what a browser has.
    assert collected - set(result["passed"]) == set()
