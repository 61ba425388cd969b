"""RUSHLIGHT_REQUIRE: a skip is a failure, in a test, a fixture or a whole module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.native

SKIPS = {
    "test_call.py": "import pytest\ndef test_a(): pytest.skip('no reason')\n",
    "test_mark.py": "import pytest\n@pytest.mark.skip\ndef test_a(): pass\n",
    "test_fixture.py": (
        "import pytest\n@pytest.fixture\ndef x(): pytest.skip('none')\ndef test_a(x): pass\n"
    ),
    "test_module.py": "import pytest\npytest.importorskip('no_such_module')\ndef test_a(): pass\n",
    "test_good.py": "def test_a(): pass\n",
}


def _run(folder: Path, name: str, require: str | None) -> int:
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / name).write_text(SKIPS[name], encoding="utf-8")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "RUSHLIGHT_"))}
    if require is not None:
        env["RUSHLIGHT_REQUIRE"] = require
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", name]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, timeout=300).returncode


@pytest.mark.parametrize("name", [n for n in SKIPS if n != "test_good.py"])
def test_a_skip_is_a_failure_where_required(tmp_path: Path, name: str) -> None:
    assert _run(tmp_path, name, "cpu") in (1, 2)
    assert _run(tmp_path, name, None) in (0, 5)


def test_a_test_that_runs_is_left_alone(tmp_path: Path) -> None:
    assert _run(tmp_path, "test_good.py", "cpu") == 0
