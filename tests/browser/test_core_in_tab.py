"""The tests of the core and the models, run a second time inside a browser tab, per device."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ARGS = ["-m", "not native", "-q", "--tb=short", "-p", "no:cacheprovider", "-W", "error"]
# Halves of the files, so that no single test takes very long.
SHARES = 2


def _files(device: str) -> list[Path]:
    """The test files that have something for the tab; some import what only a process has."""
    files = sorted((ROOT / "tests" / "core").glob("test_*.py"))
    if device == "webgpu":
        files = [path for path in files if _takes_device(path)]
        files += sorted((ROOT / "tests" / "webgpu").glob("test_*.py"))
    native = re.compile(r"^pytestmark = pytest\.mark\.native$", re.M)
    return [path for path in files if not native.search(path.read_text(encoding="utf-8"))]


def _takes_device(path: Path) -> bool:
    """Whether tests of a file run per device; the others need not run for each."""
    return re.search(r"\bdevice: |\bop_name\b", path.read_text(encoding="utf-8")) is not None


def _zipped() -> bytes:
    """tests/conftest.py, tests/core, tests/webgpu and the configuration that applies to them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as pack:
        for path in [ROOT / "README.md", ROOT / "tests" / "conftest.py",
                     *sorted((ROOT / "tests" / "core").rglob("*")),
                     *sorted((ROOT / "tests" / "webgpu").rglob("*"))]:  # fmt: skip
            if path.is_file() and "__pycache__" not in path.parts:
                pack.write(path, path.relative_to(ROOT).as_posix())
        pack.writestr("pytest.ini", "[pytest]\naddopts = --import-mode=importlib\n")
    return out.getvalue()


def _collected(files: list[str], device: str) -> set[str]:
    """The tests that a Python process selects from the same files with the same arguments."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not native"]
    env = {**os.environ, "RUSHLIGHT_TEST_DEVICES": device}
    done = subprocess.run(
        [*command, *files], cwd=ROOT, capture_output=True, text=True, check=True, env=env
    )
    return {line for line in done.stdout.splitlines() if line.startswith("tests/")}


@pytest.mark.parametrize("device", ["cpu", "webgpu"])
@pytest.mark.parametrize("share", range(SHARES))
def test_core_passes_in_the_tab(
    share: int, device: str, tab_pytest: Callable[..., dict[str, Any]]
) -> None:
    files = [path.relative_to(ROOT).as_posix() for path in _files(device)[share::SHARES]]
    result = tab_pytest(_zipped(), [*ARGS, *files], {"RUSHLIGHT_TEST_DEVICES": device})
    print(result["said"][-3000:])
    assert result["code"] == 0, result["said"]
    assert (result["failed"], result["skipped"]) == (0, 0), result["said"]
    collected = _collected(files, device)
    assert collected
    # The tab may have more: some tests are only for what a browser has.
    assert collected - set(result["passed"]) == set()
